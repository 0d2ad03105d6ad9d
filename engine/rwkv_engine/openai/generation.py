"""A request's samples under way: launched together, waited for, or read along."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rwkv_engine.openai.pieces import Cutter, Piece
from rwkv_engine.openai.prompts import Prompt
from rwkv_engine.openai.refusals import Refusal, of_engine
from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.scores import Score
from rwkv_engine.scheduling.tasks import GenerateTask, Result, ScoreTask
from rwkv_engine.serving.in_flight import Flight

FINISH = {"stop_token": "stop", "stop_suffix": "stop", "length": "length"}


@dataclass(slots=True)
class Choice:
    """One of the answers: sample `number` of a task. With `max_tokens` 0 there is no sample."""

    index: int
    number: int
    prompt: Prompt
    task: GenerateTask | ScoreTask
    cutter: Cutter

    @property
    def sample(self) -> Sample | None:
        """None while it has not begun."""
        return self.task.samples.get(self.number) if isinstance(self.task, GenerateTask) else None

    @property
    def finish_reason(self) -> str:
        sample = self.sample
        return FINISH.get(sample.stop or "", "length") if sample is not None else "length"

    @property
    def data(self) -> bytes:
        """The finished answer."""
        sample = self.sample
        return sample.data if sample is not None else b""

    def entries(self, start: int = 0, end: int | None = None) -> list[tuple[int, Score | None]]:
        """Generated tokens with their scores, the stop among them."""
        sample = self.sample
        return list(zip(sample.ids[start:end], sample.scores[start:end], strict=False)) if sample is not None else []

    @property
    def prompt_entries(self) -> list[tuple[int, Score | None]]:
        """Every token of the prompt as the client sees it, with its score; the first has none."""
        hidden = self.prompt.hidden
        return [(token, self.task.scores.get(place)) for place, token in enumerate(self.prompt.ids, hidden)]

    def next(self) -> Piece | None:
        """What is new for a reader; None if there is nothing yet."""
        sample = self.sample
        if sample is None:
            whole = isinstance(self.task, ScoreTask) and self.task.ended
            return Piece(self.cutter.lead.decode(errors="replace"), 0, last=True) if whole else None
        return self.cutter.next(sample) if sample.ids and sample.stop != "error" else None


class Usage(NamedTuple):
    """Tokens of a whole request, as its client counts them."""

    prompt: int
    cached: int
    generated: int

    def told(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(frozen=True, slots=True)
class Generation:
    """All choices of a request."""

    flight: Flight
    prompts: Sequence[Prompt]
    choices: Sequence[Choice]

    async def finish(self) -> None:
        """Wait for all of it. Raises Refusal."""
        while results := await self.flight.results():
            raise_error(results)
        if self.flight.expected > 0:
            raise Refusal(499, "the client has gone")

    async def pieces(self) -> AsyncIterator[tuple[Choice, Piece]]:
        """What is new whenever a reader comes for it, until all choices have ended. Raises Refusal."""
        going = list(self.choices)
        while going and not self.flight.left:
            await self.flight.bell.wait()
            raise_error(self.flight.taken())
            for choice in list(going):
                piece = choice.next()
                if piece is not None and (piece.text or piece.last):
                    yield choice, piece
                if piece is not None and piece.last:
                    going.remove(choice)

    @property
    def usage(self) -> Usage:
        cached = [
            max(0, task.cached - prompt.hidden) for task, prompt in zip(self.flight.tasks, self.prompts, strict=True)
        ]
        generated = sum(len(choice.sample.ids) for choice in self.choices if choice.sample is not None)
        return Usage(sum(len(prompt.ids) for prompt in self.prompts), sum(cached), generated)


def raise_error(results: Sequence[Result]) -> None:
    """Raises Refusal for the first result that is an error."""
    for result in results:
        if result.error:
            raise of_engine(result.error)
