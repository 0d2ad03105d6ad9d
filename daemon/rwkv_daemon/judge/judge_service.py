"""The judge as the rest of the daemon uses it: samples in, outcomes out.

    service = JudgeService(config, cache)              # raises ConfigError
    tasks.create_task(service.run())                   # until service.stop()
    outcome = await service.judge(JudgeTask(job="j7", row=row, rule=rule, extracted="7", answer=answer))

`judge` waits as long as it takes: through outages, over-drawn budgets and pauses. It ends without a verdict only where
there will be none, and says of which kind that is; no such end is ever a wrong answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from rwkv_daemon.judge.judge_question import JudgeQuestion
from rwkv_daemon.remote.dispatcher import ExchangeEvent, NoReplyError, open_exchange
from rwkv_daemon.remote.reply_cache import ReplyCache
from rwkv_daemon.remote.scaled_clock import ScaledClock
from rwkv_daemon.remote.server_reply import NOTHING, ServerReply, TokenUsage
from rwkv_daemon.remote.service_stats import ServiceStats
from rwkv_daemon.remote.service_view import snapshot
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.stage import Row
from rwkv_data.judges.judge_rule import JudgeVerdict, Messages, ReviewRule
from rwkvctl.settings.judge import JudgeConfig

T = TypeVar("T")
Status = Literal["judged", "invalid", "refused", "failed", "expired", "stopped"]


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgeTask(Generic[T]):
    """One sample to judge. `label` says which one it is, for people; `fresh` asks again what is already known."""

    job: str
    row: Row
    rule: ReviewRule[T]
    extracted: str
    answer: Answer
    label: str = ""
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class JudgeOutcome(Generic[T]):
    """The outcome for one sample. Only `judged` has a `finding`:

    invalid: the judge's replies could not be read; refused: the endpoint does not accept this prompt; failed: it failed
    again and again while others succeeded; expired: the job's wall time was over; stopped: the job was cancelled, or
    the daemon stops. `cached`: nothing had to be asked or paid.
    """

    status: Status
    finding: T | None = None
    detail: str = ""
    replies: tuple[str, ...] = ()
    model: str = ""
    latency_s: float = 0.0
    usage: TokenUsage = NOTHING
    asked: int = 0
    cached: bool = False

    @property
    def value(self) -> float | None:
        """The verdict's value, if the finding is a verdict."""
        return self.finding.value if isinstance(self.finding, JudgeVerdict) else None


@dataclass(slots=True)
class JudgedJob:
    """What the service knows of a job. `scopes` are the deadlines of the samples that wait now. While the judge is
    paused there are none, and `held_s` is what is left of the job's wall time."""

    expires_at: float | None
    held_s: float | None = None
    judged: int = 0
    unjudged: int = 0
    cancelled: bool = False
    scopes: set[asyncio.Timeout] = field(default_factory=set)


@dataclass(slots=True)
class SampleReplies:
    """The replies to one sample so far, including unreadable ones."""

    replies: list[ServerReply] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    paid: TokenUsage = NOTHING
    asked: int = 0

    def note(self, reply: ServerReply, *, known: bool) -> None:
        """Add a reply; one from the cache cost nothing."""
        self.replies.append(reply)
        if not known:
            self.asked += 1
            self.paid += reply.usage

    def outcome(self, status: Status, detail: str, finding: T | None = None) -> JudgeOutcome[T]:
        return JudgeOutcome(
            status=status,
            finding=finding,
            detail=detail,
            replies=tuple(reply.text for reply in self.replies),
            model=self.replies[-1].model if self.replies else "",
            latency_s=sum(reply.latency_s for reply in self.replies),
            usage=self.paid,
            asked=self.asked,
            cached=bool(self.replies) and not self.asked,
        )


class JudgeService:
    """One judge model at one or more endpoints. Raises ConfigError if its keys or certificates cannot be used."""

    def __init__(
        self,
        config: JudgeConfig,
        cache: ReplyCache,
        clock: ScaledClock | None = None,
        *,
        spent: TokenUsage = NOTHING,
        tell: Callable[[ExchangeEvent], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.clock = clock or ScaledClock()
        self.jobs: dict[str, JudgedJob] = {}
        self.exchange = open_exchange("the judge", config, cache, self.clock, spent=spent, tell=tell)

    @property
    def model(self) -> str:
        """Return the judge's name in grade keys and scores."""
        return self.config.model

    def is_of(self, config: JudgeConfig) -> bool:
        """Whether it was made from this configuration and from the keys that its files hold now. Raises ConfigError."""
        return self.config == config and self.exchange.uses_keys_of(config)

    async def run(self, grace_s: float = 10.0) -> None:
        """Send requests until `stop`, then give those in flight a little time."""
        await self.exchange.run(grace_s)

    def stop(self) -> None:
        """Send nothing more. Samples that wait end as `stopped`."""
        self.exchange.stop()

    def open_job(self, job: str, *, priority: int = 0, spent: TokenUsage = NOTHING) -> None:
        """Register a job before its first sample, with its priority and what it cost before a restart. Its wall time
        runs from here. Without this, a job is registered with its first sample."""
        self.exchange.queue.priorities[job] = priority
        self.exchange.budget.jobs[job] = spent
        self._job(job)

    def close_job(self, job: str) -> None:
        """Forget a job, once none of its samples waits (see `cancel_job`)."""
        self.cancel_job(job)
        self.jobs.pop(job, None)
        self.exchange.queue.priorities.pop(job, None)
        self.exchange.budget.forget(job)

    def cancel_job(self, job: str) -> None:
        """End the waiting of all samples of a job. What is in flight is paid for, so its replies are kept."""
        state = self.jobs.get(job)
        if state is not None:
            _reschedule(state, asyncio.get_running_loop().time())
            state.cancelled = True

    async def judge(self, task: JudgeTask[T]) -> JudgeOutcome[T]:
        """Return the outcome for one sample. If it is cancelled, only requests in flight are still completed."""
        job = self._job(task.job)
        outcome = await self._outcome(task, job)
        if outcome.status == "judged":
            job.judged += 1
        else:
            job.unjudged += 1
        return outcome

    async def judge_all(
        self,
        tasks: Iterable[JudgeTask[T]],
        deliver: Callable[[JudgeTask[T], JudgeOutcome[T]], Awaitable[None]],
        side_by_side: int = 256,
    ) -> None:
        """Judge many samples, each delivered as it comes; at most `side_by_side` in memory."""
        source = iter(tasks)

        async def work() -> None:
            for task in source:
                await deliver(task, await self.judge(task))

        async with asyncio.TaskGroup() as group:
            for _ in range(side_by_side):
                group.create_task(work())

    def pause(self, why: str) -> None:
        """Send nothing while `why` is not empty; what is in flight is completed. Wall times stand still meanwhile."""
        if why == self.exchange.paused:
            return
        turn = self._hold if why else self._let_go
        for state in self.jobs.values():
            turn(state)
        self.exchange.paused = why
        self.exchange.wake.set()

    def _hold(self, state: JudgedJob) -> None:
        if state.expires_at is not None:
            state.held_s, state.expires_at = state.expires_at - self.clock.now(), None
            _reschedule(state, None)

    def _let_go(self, state: JudgedJob) -> None:
        if state.held_s is not None:
            state.expires_at, state.held_s = self.clock.now() + state.held_s, None
            _reschedule(state, self.clock.of_loop(state.expires_at))

    def revive(self) -> None:
        """Try every key again at once, as the cause of the failures was removed."""
        self.exchange.pool.revive()
        self.exchange.wake.set()

    def stats(self) -> ServiceStats:
        """Return a snapshot of the queue, endpoints, keys, jobs and budget for the console and the metrics."""
        return snapshot(
            self.exchange,
            {job: (len(state.scopes), state.judged, state.unjudged) for job, state in self.jobs.items()},
        )

    def _job(self, job: str) -> JudgedJob:
        longest = self.config.max_runtime_s
        if job not in self.jobs:
            self.jobs[job] = JudgedJob(self.clock.now() + longest if longest else None)
            if self.exchange.paused:
                self._hold(self.jobs[job])
        return self.jobs[job]

    async def _outcome(self, task: JudgeTask[T], job: JudgedJob) -> JudgeOutcome[T]:
        said = SampleReplies()
        if job.cancelled:
            return self._ended(job, said)
        try:
            async with self.clock.timeout(job.expires_at) as scope:
                job.scopes.add(scope)
                try:
                    return await self._ask(task, said)
                finally:
                    job.scopes.discard(scope)
        except NoReplyError as error:
            return said.outcome(error.status, str(error))
        except TimeoutError:
            return self._ended(job, said)

    def _ended(self, job: JudgedJob, said: SampleReplies) -> JudgeOutcome[T]:
        if job.cancelled:
            return said.outcome("stopped", "the job was cancelled")
        return said.outcome("expired", f"judging took longer than {self.config.max_runtime_s:g} s")

    async def _ask(self, task: JudgeTask[T], said: SampleReplies) -> JudgeOutcome[T]:
        """Send the requests of the rule one after the other: if one has no reply, the next need not be paid."""
        try:
            requests = task.rule.ask(task.row, task.extracted, task.answer)
        except (KeyError, TypeError, ValueError) as error:
            return said.outcome("invalid", f"the rule cannot ask about this row ({type(error).__name__}: {error})")
        for messages in requests:
            if not await self._readable(task, messages, said):
                self.exchange.unreadable(said.replies)
                return said.outcome("invalid", f"{task.rule.attempts} replies could not be read")
        finding = task.rule.read(task.row, tuple(said.readable))
        if finding is None:
            self.exchange.unreadable(said.replies)
            return said.outcome("invalid", "the replies could not be read together")
        return said.outcome("judged", finding.detail if isinstance(finding, JudgeVerdict) else "", finding)

    async def _readable(self, task: JudgeTask[T], messages: Messages, said: SampleReplies) -> bool:
        """Ask until a reply can be read; each attempt is a question of its own, with its own cache key."""
        cut = False
        for attempt in range(task.rule.attempts):
            question = JudgeQuestion.of(task.rule, messages, attempt, wider=cut, label=task.label)
            reply, known = await self.exchange.reply(task.job, question, fresh=task.fresh)
            said.note(reply, known=known)
            if task.rule.readable(reply.text):
                said.readable.append(reply.text)
                return True
            cut = reply.cut
        return False


def _reschedule(state: JudgedJob, when: float | None) -> None:
    """Move the deadlines of all waiting samples of a job; one that has just passed cannot be moved any more."""
    for scope in state.scopes:
        if not (state.cancelled or scope.expired()):
            scope.reschedule(when)
