"""Answers a runner's items from a server's replies, as an engine would answer them. An answer never fails: what gets no
reply becomes an error, never a text."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from rwkv_daemon.remote.dispatcher import Exchange, NoReplyError
from rwkv_daemon.remote.prompt_logprobs import ScoreQuestion, border, score_in
from rwkv_daemon.remote.request import Question
from rwkv_daemon.remote.sample_question import UnsendableError, question_of, stop_strings
from rwkv_daemon.remote.sample_reply import finished, storable
from rwkv_daemon.remote.server_reply import NOTHING, ServerReply
from rwkvctl.protocol.endpoints import Api
from rwkvctl.protocol.engine import ContinuationScore, Generated, GenerateItem, Scored, ScoreItem, Usage
from rwkvctl.settings.endpoints import EndpointModel

log = logging.getLogger("rwkvctl")

GONE: Final = "gone"
"""The engine's error after which a runner sends the same again, with no sample to blame."""
STORE_AGAIN_S: Final = 30.0
"""While the cache cannot be read, it is tried again after this time."""

SampleAnswer = Callable[[], Awaitable[Generated | Scored]]


@dataclass(slots=True)
class JobAnswers:
    """The answers of a job that are waited for, each with its deadline, and how many had a text or score, or an
    error."""

    waiting: set[asyncio.Timeout] = field(default_factory=set)
    answered: int = 0
    failed: int = 0

    def give_back(self) -> None:
        """Answer what is waited for with `GONE`, so that the runner asks again when it goes on. What is in flight is
        paid for, so its reply is kept."""
        for deadline in self.waiting:
            if not deadline.expired():
                deadline.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True)
class Answerer:
    """Answers for one model. `jobs` are counted by the group of their items."""

    config: EndpointModel
    exchange: Exchange
    jobs: dict[str, JobAnswers] = field(default_factory=dict)

    def samples_of(self, item: GenerateItem) -> list[SampleAnswer]:
        """Return what answers each sample of an item."""
        return [
            self._counted(item.group, partial(self._sample, item, index), gone_sample(item, index))
            for index in range(item.n)
        ]

    def scores_of(self, item: ScoreItem) -> list[SampleAnswer]:
        """Return what answers an item."""
        return [self._counted(item.group, partial(self._scores, item), Scored(id=item.id, error=GONE))]

    def _counted(self, job: str, answer: SampleAnswer, gone: Generated | Scored) -> SampleAnswer:
        async def counted() -> Generated | Scored:
            counts = self.jobs.setdefault(job, JobAnswers())
            found, deadline = gone, asyncio.timeout(None)
            counts.waiting.add(deadline)
            try:
                with contextlib.suppress(TimeoutError):
                    async with deadline:
                        found = await answer()
            except Exception as error:  # an item that cannot be answered must not end the service
                log.exception("%s: an item cannot be answered", self.config.name)
                found = msgspec.structs.replace(gone, error=f"{type(error).__name__} in the daemon, see its log")
            finally:
                counts.waiting.discard(deadline)
            counts.answered += not found.error
            counts.failed += bool(found.error) and found.error != GONE
            return found

        return counted

    async def _sample(self, item: GenerateItem, index: int) -> Generated:
        try:
            question = question_of(self.config.identity, self.config.api, item, index)
            reply = await self._reply(item.group, question)
        except (NoReplyError, UnsendableError) as error:
            return Generated(id=item.id, index=index, stop="error", error=self._said(error))
        return finished(item.id, index, reply, stop_strings(item.stops))

    async def _scores(self, item: ScoreItem) -> Scored:
        try:
            found = await self._all_scores(item, scored_context(self.config.api, item))
        except UnsendableError as error:
            return Scored(id=item.id, error=str(error))
        except ExceptionGroup as errors:
            return Scored(id=item.id, error=self._said(first_of(errors)))
        usage = Usage(prompt=sum(reply.usage.prompt_tokens for _, reply in found))
        return Scored(id=item.id, scores=tuple(score for score, _ in found), usage=usage)

    async def _all_scores(self, item: ScoreItem, context: str) -> list[tuple[ContinuationScore, ServerReply]]:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(self._score(item, context, text)) for text in item.continuations]
        return [task.result() for task in asked]

    async def _score(self, item: ScoreItem, context: str, text: str) -> tuple[ContinuationScore, ServerReply]:
        cut = border(item)
        if not context[cut:] + text:
            return ContinuationScore(logprob=0.0, tokens=0, greedy=True), ServerReply("", usage=NOTHING)
        reply = await self._reply(item.group, ScoreQuestion(self.config.identity, context + text, cut, item.id))
        return score_in(reply), reply

    async def _reply(self, job: str, question: Question) -> ServerReply:
        """Return the reply, however long that takes. Raises NoReplyError."""
        while True:
            try:
                return (await self.exchange.reply(job, question))[0]
            except NoReplyError:
                raise
            except Exception:  # noqa: BLE001 - logged by the exchange: the store is away, which no sample is to blame for
                await asyncio.sleep(STORE_AGAIN_S)

    def _said(self, error: Exception) -> str:
        if isinstance(error, NoReplyError):
            return GONE if error.status == "stopped" else storable(f"{self.config.name} {error.status}: {error}")
        return str(error)


def gone_sample(item: GenerateItem, index: int) -> Generated:
    return Generated(id=item.id, index=index, stop="error", error=GONE)


def scored_context(api: Api, item: ScoreItem) -> str:
    """Return the context of an item. Raises UnsendableError if the server cannot score it."""
    if api == "chat":
        raise UnsendableError('a chat server gives no log-probabilities; set api = "completions"')
    if item.context is None:
        raise UnsendableError("a model behind an endpoint cannot go on from token ids; send a text as context")
    return item.context


def first_of(errors: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group of errors."""
    error = errors.exceptions[0]
    return first_of(error) if isinstance(error, ExceptionGroup) else error
