"""Turn an OpenAI request into tasks, and launch them at the engine."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rwkv_engine.errors import ConstraintError, ItemError, QueueFullError
from rwkv_engine.openai.generation import Choice, Generation
from rwkv_engine.openai.generation_request import GenerationRequest
from rwkv_engine.openai.prompts import Prompt
from rwkv_engine.openai.refusals import bad, of_item, of_queue
from rwkv_engine.openai.text_stream import TextStream
from rwkv_engine.scheduling.tasks import AnyTask, Continuation, Echo, GenerateTask, ScoreTask, Sink
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.in_flight import RequestsInFlight
from rwkv_engine.serving.wakeups import Wakeup
from rwkvctl.protocol.engine import GenerateItem

GROUP = "openai"
MOST_PROMPT_SCORES = 1 << 21


@dataclass(frozen=True, slots=True)
class Launcher:
    """Compiles requests into tasks and launches them at one engine."""

    requests: RequestsInFlight
    compiler: Compiler

    async def launch(
        self, gone: asyncio.Event, name: str, prompts: Sequence[Prompt], request: GenerationRequest
    ) -> Generation:
        """Start a request, whole or not at all; `name` is its id. Raises Refusal."""
        self._check_size(prompts, request)
        if request.format is not None:
            await self.compiler.grammars.prepare([request.format.constraint])

        def compiled(sink: Sink, wakeup: Wakeup) -> list[AnyTask]:
            on_token = partial(self.requests.streams.grown, wakeup) if request.streamed else None
            return [self._task(name, number, prompt, request, sink, on_token) for number, prompt in enumerate(prompts)]

        try:
            in_flight = self.requests.launch(gone, compiled)
        except ConstraintError as error:
            raise bad(request.format.param if request.format is not None else None, error.reason) from error
        except ItemError as error:
            raise of_item(error, "prompt") from error
        except QueueFullError as error:
            raise of_queue(error) from error
        return Generation(in_flight, prompts, list(self._choices(in_flight.tasks, prompts, request)))

    def _check_size(self, prompts: Sequence[Prompt], request: GenerationRequest) -> None:
        most = self.requests.engine.queue_limit
        if len(prompts) > most:
            raise bad("prompt", f"{len(prompts)} prompts are more than the queue takes ({most}); send fewer at once")
        scores = sum(len(prompt.ids) for prompt in prompts) * (1 + request.prompt_top)
        if scores > MOST_PROMPT_SCORES:
            raise bad("prompt", f"{scores} log-probabilities are more than {MOST_PROMPT_SCORES}; send fewer at once")

    def _task(
        self,
        name: str,
        number: int,
        prompt: Prompt,
        request: GenerationRequest,
        sink: Sink,
        on_token: Callable[[], None] | None,
    ) -> AnyTask:
        start = prompt.hidden + 1
        if request.sampling.max_tokens == 0:
            ids = tuple(self.compiler.fresh(None, prompt.ids))
            scored = Continuation(ids, min(start, len(ids)) if request.prompt_top >= 0 else len(ids))
            return ScoreTask(id=name, sink=sink, group=GROUP, continuations=(scored,), top=request.prompt_top)
        item = GenerateItem(
            id=name, ids=prompt.ids, n=request.n, keys=request.keys(number), sampling=request.sampling,
            stops=request.stops, group=GROUP,
            constraint=request.format.constraint if request.format is not None else None,
        )  # fmt: skip
        task = self.compiler.generate(item, sink)
        task.on_token = on_token
        task.echo = Echo(start, request.prompt_top) if request.prompt_top >= 0 else None
        return task

    def _choices(
        self, tasks: Sequence[AnyTask], prompts: Sequence[Prompt], request: GenerationRequest
    ) -> Iterator[Choice]:
        for place, (task, prompt) in enumerate(zip(tasks, prompts, strict=True)):
            stops = task.rule.stops.suffixes if isinstance(task, GenerateTask) else ()
            for number in range(request.n):
                text_stream = TextStream(self.compiler.tokenizer, stops, prompt.data if request.echo else b"")
                yield Choice(place * request.n + number, number, prompt, task, text_stream)
