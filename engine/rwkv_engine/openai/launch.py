"""Turn the order of an OpenAI request into tasks, and launch them at the engine."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rwkv_engine.errors import ConstraintError, ItemError, QueueFullError
from rwkv_engine.openai.generation import Choice, Generation
from rwkv_engine.openai.orders import Order
from rwkv_engine.openai.pieces import Cutter
from rwkv_engine.openai.prompts import Prompt
from rwkv_engine.openai.refusals import bad, of_item, of_queue
from rwkv_engine.scheduling.tasks import AnyTask, Continuation, Echo, GenerateTask, ScoreTask, Sink
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.in_flight import Bell, Flights
from rwkvctl.protocol.engine import GenerateItem

GROUP = "openai"
MOST_PROMPT_SCORES = 1 << 21


@dataclass(frozen=True, slots=True)
class Launcher:
    """Compiles requests into tasks and launches them at one engine."""

    flights: Flights
    compiler: Compiler

    async def launch(self, gone: asyncio.Event, name: str, prompts: Sequence[Prompt], order: Order) -> Generation:
        """Start a request, whole or not at all; `name` is its id. Raises Refusal."""
        self._check_size(prompts, order)
        if order.format is not None:
            await self.compiler.grammars.prepare([order.format.constraint])

        def compiled(sink: Sink, bell: Bell) -> list[AnyTask]:
            ring = bell.ring if order.rings else None
            return [self._task(name, number, prompt, order, sink, ring) for number, prompt in enumerate(prompts)]

        try:
            flight = self.flights.launch(gone, compiled)
        except ConstraintError as error:
            raise bad(order.format.param if order.format is not None else None, error.reason) from error
        except ItemError as error:
            raise of_item(error, "prompt") from error
        except QueueFullError as error:
            raise of_queue(error) from error
        return Generation(flight, prompts, list(self._choices(flight.tasks, prompts, order)))

    def _check_size(self, prompts: Sequence[Prompt], order: Order) -> None:
        if len(prompts) > self.flights.engine.queue_limit:
            raise bad("prompt", f"{len(prompts)} prompts are more than the queue's {self.flights.engine.queue_limit}")
        scores = sum(len(prompt.ids) for prompt in prompts) * (1 + order.prompt_top)
        if scores > MOST_PROMPT_SCORES:
            raise bad("prompt", f"{scores} log-probabilities are more than {MOST_PROMPT_SCORES}; send fewer at once")

    def _task(
        self, name: str, number: int, prompt: Prompt, order: Order, sink: Sink, ring: Callable[[], None] | None
    ) -> AnyTask:
        start = prompt.hidden + 1
        if order.sampling.max_tokens == 0:
            ids = tuple(self.compiler.fresh(None, prompt.ids))
            scored = Continuation(ids, min(start, len(ids)) if order.prompt_top >= 0 else len(ids))
            return ScoreTask(id=name, sink=sink, group=GROUP, fulls=(scored,), top=order.prompt_top)
        item = GenerateItem(
            id=name, ids=prompt.ids, n=order.n, keys=order.keys(number), sampling=order.sampling, stops=order.stops,
            group=GROUP, constraint=order.format.constraint if order.format is not None else None,
        )  # fmt: skip
        task = self.compiler.generate(item, sink)
        task.ring = ring
        task.echo = Echo(start, order.prompt_top) if order.prompt_top >= 0 else None
        return task

    def _choices(self, tasks: Sequence[AnyTask], prompts: Sequence[Prompt], order: Order) -> Iterator[Choice]:
        for place, (task, prompt) in enumerate(zip(tasks, prompts, strict=True)):
            stops = task.rule.stops.suffixes if isinstance(task, GenerateTask) else ()
            for number in range(order.n):
                cutter = Cutter(self.compiler.tokenizer, stops, prompt.data if order.echo else b"")
                yield Choice(place * order.n + number, number, prompt, task, cutter)
