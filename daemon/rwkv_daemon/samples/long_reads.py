"""Questions whose answer takes longer than a client waits: they are computed while the client asks again.

Each request gets the answer, or how far it is. The same question of several clients is computed once. A question that
nobody repeats is dropped, and so is an answer that nobody fetches.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from rwkv_daemon.store.read_lanes import READER

ANSWER_S: Final = 1.0
"""How long one reply may take."""

FORGOTTEN_S: Final = 20.0
AT_ONCE: Final = 16
OF_ONE: Final = 4
"""Questions that are computed at once (AT_ONCE), and those of one user. Each needs memory; their reads take turns
anyway."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class QuestionProgress:
    """How far a question is: `before` precedes the text `said`; `done` are the parts of the answer that are ready."""

    said: str = ""
    before: str = ""
    done: Sequence[Any] = ()

    @property
    def sentence(self) -> str:
        return (self.before + self.said) or "it has just begun"


@dataclass(slots=True)
class PendingQuestion(Generic[Answer]):
    """One question that is being computed, how many clients wait for a reply, and when the last one got one."""

    who: Hashable
    task: "asyncio.Task[Answer]"
    progress: QuestionProgress
    listeners: int = 0
    told: float = 0.0


@dataclass(slots=True)
class PendingQuestions:
    """The questions in progress, and answers that nobody has fetched yet. At most `AT_ONCE` questions are computed at
    once, and `OF_ONE` of one user."""

    under_way: dict[Hashable, PendingQuestion[Any]] = field(default_factory=dict)

    async def answer(
        self,
        question: Hashable,
        begin: Callable[[QuestionProgress], Coroutine[Any, Any, Answer]],
        *,
        patient: bool = False,
    ) -> Answer | QuestionProgress:
        """Return the answer, or how far it is; `patient`: wait until it is there. Raises what computing it raises."""
        who = READER.get().who
        while (look := self._look(question, who, begin)) is None:
            if not patient:
                return QuestionProgress("waiting for its turn: other questions are in progress")
            await asyncio.sleep(ANSWER_S)
        look.listeners += 1
        try:
            ended, _ = await asyncio.wait({look.task}, timeout=None if patient else ANSWER_S)
        finally:
            look.listeners -= 1
            look.told = time.monotonic()
            asyncio.get_running_loop().call_later(FORGOTTEN_S, self._forget, question, look)
        if not ended:
            return look.progress
        self._remove(question, look)
        return look.task.result()

    def _look(
        self, question: Hashable, who: Hashable, begin: Callable[[QuestionProgress], Coroutine[Any, Any, Answer]]
    ) -> PendingQuestion[Answer] | None:
        """Return the question in progress; started if there is room for it, else None."""
        if question not in self.under_way:
            working = [look for look in self.under_way.values() if not look.task.done()]
            if len(working) >= AT_ONCE or sum(look.who == who for look in working) >= OF_ONE:
                return None
            progress = QuestionProgress()
            task = asyncio.ensure_future(begin(progress))
            self.under_way[question] = PendingQuestion(who, task, progress)
        return self.under_way[question]

    def _forget(self, question: Hashable, look: PendingQuestion[Any]) -> None:
        """Drop a question that nobody has repeated for a while."""
        if not look.listeners and time.monotonic() - look.told > FORGOTTEN_S / 2:
            self._remove(question, look)
            drop(look)

    def _remove(self, question: Hashable, look: PendingQuestion[Any]) -> None:
        if self.under_way.get(question) is look:
            del self.under_way[question]

    def end(self) -> None:
        """Cancel every question under way, and drop answers that nobody has fetched."""
        for look in self.under_way.values():
            drop(look)
        self.under_way.clear()


def drop(look: PendingQuestion[Any]) -> None:
    """Cancel a question and ignore its error."""
    look.task.cancel()
    if look.task.done() and not look.task.cancelled():
        look.task.exception()
