"""Turns questions into replies: the queue, the key pool, the budget and the cache, kept moving by `run`.

A reply is stored in the cache before anybody gets it; one that the cache does not take (the disk is full) is kept here,
and nothing more is asked until it is stored: else the same would be paid for again and again. A question that is
already on its way is not sent again: whoever wants it too waits for the same reply. If nobody waits for a question any
more, it is taken out of the queue; one in flight is paid for, so its reply goes to the cache.

A request that fails for a while goes back into the queue; while nothing can be asked at all (no key, no budget)
everything stays there.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from rwkv_daemon.remote.failures import ExchangeFailure, back_off_s
from rwkv_daemon.remote.http_client import ExchangeError, Transport
from rwkv_daemon.remote.key_file import Scrubber, keys_of
from rwkv_daemon.remote.key_pool import ApiKey, EndpointState, KeyPool
from rwkv_daemon.remote.reply_cache import ReplyCache
from rwkv_daemon.remote.request import PendingRequest, Question
from rwkv_daemon.remote.request_queue import RequestQueue
from rwkv_daemon.remote.scaled_clock import ScaledClock
from rwkv_daemon.remote.sender import Sender
from rwkv_daemon.remote.server_reply import ServerReply, TokenUsage, tidy
from rwkv_daemon.remote.spending import Budget
from rwkvctl.settings.judge import JudgeConfig

log = logging.getLogger("rwkvctl")

EventKind = Literal["key-out", "outage", "recovered", "budget", "manner", "cache"]
BUDGET_LOOK_S = 30.0
KEEP_AGAIN_S = 5.0
MOST_DENIALS = 2
UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class ExchangeEvent:
    """An event for the operator. The text holds no key."""

    kind: EventKind
    text: str


class NoReplyError(Exception):
    """Raised when a question will get no reply; `status` says why."""

    def __init__(self, status: Literal["refused", "failed", "stopped"], text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class Exchange:
    """The state of all requests. `who` is asked, in messages: "the judge", "qwq"."""

    who: str
    model: str
    max_tries: int
    pool: KeyPool
    budget: Budget
    cache: ReplyCache
    sender: Sender
    clock: ScaledClock
    dice: random.Random
    tell: Callable[[ExchangeEvent], None]
    queue: RequestQueue = field(default_factory=RequestQueue)
    flights: dict[str, PendingRequest] = field(default_factory=dict)
    """Requests by key, queued or in flight; `in_flight` are those that were sent."""

    unkept: dict[str, tuple[ServerReply, str]] = field(default_factory=dict)
    """Replies that the cache did not take yet, each with the job that has paid for it, by key."""

    before: "Exchange | None" = None
    """The exchange that this one replaces, if that had requests in flight."""

    in_flight: list[PendingRequest] = field(default_factory=list)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    paused: str = ""
    stopping: bool = False
    parked: str = ""
    """Why nothing is sent now; empty if something is."""

    unaffordable: dict[str, TokenUsage] = field(default_factory=dict)
    """The most that the last request would have used which a job's budget did not allow, by job; under "" that which
    the budget for all did not allow."""

    told: set[str] = field(default_factory=set)
    """Budget refusals that the operator was told already."""

    outage_since: float | None = None
    outages: int = 0
    outage_s: float = 0.0
    from_cache: int = 0

    async def reply(self, job: str, question: Question, *, fresh: bool = False) -> tuple[ServerReply, bool]:
        """Return the reply, and whether it was known already. Waits as long as it takes; raises NoReplyError."""
        if self.stopping:
            raise NoReplyError("stopped", f"{self.who} is stopping")
        key = question.key(self.model)
        request = self.flights.get(key)
        first = request is None
        if request is None:
            request = PendingRequest(key, question, asyncio.get_running_loop().create_future(), [])
            request.future.add_done_callback(_retrieved)
            self.flights[key] = request
        self._join(job, request)
        try:
            if first:
                await self._begin(request, fresh=fresh)
            return await asyncio.shield(request.future), request.known
        finally:
            request.waiters -= 1
            if not request.waiters and (request.queued or not request.asked_at):
                self._end(request)

    def _join(self, job: str, request: PendingRequest) -> None:
        """Add one that waits for a request; a further job of it may be the one whose turn comes first."""
        request.waiters += 1
        if job not in request.jobs:
            request.jobs.append(job)
            if request.queued:
                self.queue.add(job, request)

    async def _begin(self, request: PendingRequest, *, fresh: bool) -> None:
        """Take the reply from the cache, or queue the request. The request is registered from the first moment, so that
        nobody else asks the same while the cache is read."""
        known = None
        try:
            await self._landed_before(request.key)
            unkept = self.unkept.get(request.key)
            known = unkept[0] if unkept else None if fresh else await self.cache.get(request.key)
        except Exception as error:  # passed on to whoever waits for it
            log.exception("%s's cache cannot be read", self.who)
            self._end(request, error)
            return
        finally:
            if known is not None:
                request.known = True
                self.from_cache += 1
                self._end(request, known)
            elif not request.future.done():
                self._line_up(request)

    async def _landed_before(self, key: str) -> None:
        """Wait until no exchange before this one has a question in flight, which it has paid for."""
        earlier = self.before
        while earlier is not None:
            if flight := earlier.flights.get(key):
                await asyncio.wait([flight.future])
            earlier = earlier.before

    def _line_up(self, request: PendingRequest) -> None:
        if self.stopping:
            self._end(request, NoReplyError("stopped", f"{self.who} is stopping"))
            return
        request.queued = True
        for job in request.jobs:
            self.queue.add(job, request)
        self.wake.set()

    async def run(self, grace_s: float = 10.0) -> None:
        """Send requests until `stop` or a cancellation; then wait for those in flight: after `stop` until the last has
        landed and is kept, as another exchange would pay for it again, after a cancellation at most `grace_s`."""
        try:
            async with asyncio.TaskGroup() as flying:
                try:
                    await self._move(flying)
                    self._turn_away()
                    await self._land(None)
                    while not await self._kept_all():
                        await asyncio.sleep(KEEP_AGAIN_S)
                finally:
                    self.stopping = True
                    self._turn_away()
                    await self._land(grace_s)
                    await self._kept_all()
        finally:
            for request in list(self.flights.values()):
                self._end(request, NoReplyError("stopped", f"{self.who} has stopped"))
            await self.sender.transport.close()

    def _turn_away(self) -> None:
        """End the requests that were not sent."""
        for request in self.queue.requests():
            self._end(request, NoReplyError("stopped", f"{self.who} is stopping"))

    async def _move(self, flying: asyncio.TaskGroup) -> None:
        while not self.stopping:
            self.wake.clear()
            try:
                until = self._start_what_can(flying) if await self._kept_all() else self.clock.now() + KEEP_AGAIN_S
            except Exception:  # a round that fails must not end the daemon
                log.exception("%s: what to send could not be decided; it is tried again in a moment", self.who)
                until = self.clock.now() + 1.0
            await self.clock.wait(self.wake, until)

    async def _land(self, grace_s: float | None) -> None:
        """Wait for what is in flight, as it has been paid for. None: each request has a time limit of its own."""
        try:
            async with asyncio.timeout(grace_s):
                while self.in_flight:
                    self.wake.clear()
                    await self.wake.wait()
        except TimeoutError:
            log.warning("%s stops with %d requests in flight; they will be asked again", self.who, len(self.in_flight))
            for task in self.tasks:
                task.cancel()

    def stop(self) -> None:
        """Send no further requests; `run` returns once those in flight have landed."""
        self.stopping = True
        self.wake.set()

    def _start_what_can(self, flying: asyncio.TaskGroup) -> float | None:
        """Send every request that may go now. Returns when to try again, None for when something happens."""
        refusals: list[str] = []
        while not self.paused:
            now = self.clock.now()
            found = self.queue.next(now, lambda job, request: self._affordable(job, request, refusals))
            if found is None:
                break
            job, request = found
            key = self.pool.pick(now, self._most(request).tokens)
            if key is None:
                self._park(self._outage())
                return _earliest(self.queue.due(), self.pool.when(now, self._most(request).tokens))
            self.queue.take(job, request)
            self._launch(flying, job, request, key)
        if self.paused:
            self.parked = self.paused
            return None
        self._park(self._outage(), refusals[0] if refusals and not self.in_flight else "")
        return _earliest(self.queue.due(), self.clock.now() + BUDGET_LOOK_S if refusals else None)

    def _affordable(self, job: str, request: PendingRequest, refusals: list[str]) -> bool:
        most = self._most(request)
        refusal = self.budget.refusal(job, most)
        if refusal:
            refusals.append(refusal)
            self.unaffordable["" if self.budget.refusal_of_all(most) else job] = most
        return not refusal

    def obstacle(self, job: str = "") -> str:
        """Return why nothing can be sent, of any job or of this one, also while nothing waits; empty if something
        can."""
        if self.paused:
            return self.paused
        if outage := self.pool.outage():
            return f"outage: {outage}"
        if self.unkept:
            return self.parked
        wanted = [self.unaffordable[name] for name in {"", job} & self.unaffordable.keys()]
        refusals = (self.budget.refusal(job, most) if job else self.budget.refusal_of_all(most) for most in wanted)
        return "" if self.in_flight else next(filter(None, refusals), "")

    def _most(self, request: PendingRequest) -> TokenUsage:
        """Return the most tokens a request can use, and their cost at the most expensive endpoint."""
        question = request.question
        prompt = question.prompt_tokens
        rooms = [(endpoint, self.sender.room(endpoint, question)) for endpoint in self.pool.endpoints]
        return TokenUsage(
            prompt, max(room for _, room in rooms), max(endpoint.cost(prompt, room) for endpoint, room in rooms)
        )

    def _launch(self, flying: asyncio.TaskGroup, job: str, request: PendingRequest, key: ApiKey) -> None:
        now, most = self.clock.now(), self._most(request)
        request.asked_at, request.key_name = now, key.name
        key.in_flight += 1
        key.last_used = now
        key.requests.add(now, 1)
        self.budget.hold(job, most)
        self.in_flight.append(request)
        task = flying.create_task(self._fly(job, request, key, most, key.tokens.add(now, most.tokens)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _fly(
        self, job: str, request: PendingRequest, key: ApiKey, most: TokenUsage, reserved: list[float]
    ) -> None:
        """Send one request; it ends with a reply, or goes back into the queue."""
        used: int | None = None
        try:
            reply = await self.sender.ask(key, request.question, self._learnt)
            reply = replace(reply, endpoint=key.endpoint.config.label)
            used = reply.usage.tokens
            self._arrived(job, key, reply)
            await self._keep(request.key, reply, job)
            self._end(request, reply)
        except ExchangeError as error:
            used = error.failure.usage.tokens if error.failure.status else None
            await self._pay_in_vain(job, request, key, error.failure.usage)
            self._failed(request, key, error.failure)
        except Exception as error:  # one unexpected reply must not stop everything else
            log.exception("%s could not handle a request", self.who)
            self._end(request, NoReplyError("failed", f"{type(error).__name__} in {self.who}, see the daemon's log"))
        finally:
            if used is not None:
                key.tokens.settle(reserved, used)
            key.in_flight -= 1
            self.budget.release(job, most)
            self.in_flight.remove(request)
            self.wake.set()

    def _arrived(self, job: str, key: ApiKey, reply: ServerReply) -> None:
        endpoint = key.endpoint
        endpoint.counts["ok"] += 1
        endpoint.usage += reply.usage
        endpoint.latencies.append((self.clock.now(), reply.latency_s))
        self.budget.add(job, reply.usage)
        self.pool.succeeded(key)

    async def _pay_in_vain(self, job: str, request: PendingRequest, key: ApiKey, usage: TokenUsage) -> None:
        """Count what a reply that cannot be used has cost, so that the budget holds; nobody asks for its key."""
        if usage.tokens:
            key.endpoint.usage += usage
            self.budget.add(job, usage)
            await self._keep(f"{request.key} {UNUSABLE}", ServerReply("", usage=usage), job)

    async def _keep(self, key: str, reply: ServerReply, job: str) -> None:
        """Store a reply in the cache before anybody gets it. It is used even if that fails."""
        try:
            await self.cache.put(key, reply, job)
        except Exception as error:  # noqa: BLE001 - told to the operator
            self.unkept[key] = reply, job
            self._say("cache", f"a reply of {self.who} could not be kept: {type(error).__name__}: {error}")

    async def _kept_all(self) -> bool:
        """Try again to store replies that the cache did not take; returns whether none is left."""
        for key, (reply, job) in list(self.unkept.items()):
            try:
                await self.cache.put(key, reply, job)
            except Exception as error:  # noqa: BLE001 - told to the operator when it began
                self.parked = f"what was paid for cannot be kept: {error}"
                return False
            self.unkept.pop(key, None)
        return True

    def _failed(self, request: PendingRequest, key: ApiKey, failure: ExchangeFailure) -> None:
        """Queue the request again, unless it was refused or has failed too often while others succeeded."""
        now = self.clock.now()
        failure = replace(failure, text=tidy(self.sender.scrubber.clean(failure.text)))
        key.endpoint.counts[_counted(failure)] += 1
        request.last_error = failure.text
        if failure.meaning == "refused":
            if self.pool.refused(key, request, failure.text):
                self._say("key-out", f"{key.name} is out of use: {key.dead}")
            self._end(request, NoReplyError("refused", failure.text))
            return
        self._blame(request, key, failure, now)
        if request.denials >= MOST_DENIALS and not key.dead:
            self._end(request, NoReplyError("refused", failure.text))
        elif request.tries >= self.max_tries:
            self._end(request, NoReplyError("failed", f"{request.tries} failures, the last: {failure.text}"))
        elif not request.waiters:
            self._end(request)
        elif self.stopping:
            self._end(request, NoReplyError("stopped", f"{self.who} is stopping"))
        else:
            key.endpoint.counts["retries"] += 1
            wait = back_off_s(request.tries, self.dice) if failure.meaning == "again" else 0.0
            self.queue.put_aside(request, now + wait)

    def _blame(self, request: PendingRequest, key: ApiKey, failure: ExchangeFailure, now: float) -> None:
        """Count the failure against the key; and against the request, if others have succeeded since its last
        failure."""
        if failure.meaning == "throttled":
            self.pool.throttled(key, now, request.asked_at, failure.wait_s)
        elif failure.meaning == "key":
            if not key.dead:
                key.dead = failure.text
                self._say("key-out", f"{key.name} is out of use: {failure.text}")
        elif failure.meaning == "denied":
            if self.pool.denied(key, request, failure.text):
                self._say("key-out", f"{key.name} is out of use: {failure.text}")
        else:
            self.pool.failed(key, now, request.asked_at, failure.text, failure.wait_s)
            request.tries += self.pool.successes != request.successes_seen
            request.successes_seen = self.pool.successes

    def unreadable(self, replies: Iterable[ServerReply]) -> None:
        """Count replies that left a sample without a verdict against the endpoints that gave them."""
        by_name = {endpoint.config.label: endpoint for endpoint in self.pool.endpoints}
        for reply in replies:
            by_name.get(reply.endpoint, self.pool.endpoints[0]).counts["unreadable"] += 1

    def uses_keys_of(self, config: JudgeConfig) -> bool:
        """Whether its keys are those that the files of a configuration hold now. Raises ConfigError."""
        now = [secret for endpoint in config.endpoints for secret in keys_of(endpoint, self.who)]
        return [key.secret for key in self.pool.keys] == now

    def _learnt(self, endpoint: EndpointState) -> None:
        self._say("manner", f"{endpoint.config.label} is asked differently from now on: {endpoint.style}")

    def _end(self, request: PendingRequest, outcome: ServerReply | Exception | None = None) -> None:
        """End a request: with a reply, with an error, or because nobody waits any more."""
        request.queued = False
        if self.flights.get(request.key) is request:
            del self.flights[request.key]
        if request.future.done():
            return
        if isinstance(outcome, ServerReply):
            request.future.set_result(outcome)
        elif outcome is not None:
            request.future.set_exception(outcome)
        else:
            request.future.cancel()

    def _outage(self) -> str:
        """Note the beginning and the end of an outage; returns its reason, empty if there is none."""
        reason, now = self.pool.outage(), self.clock.now()
        if reason and self.outage_since is None:
            self.outage_since, self.outages = now, self.outages + 1
            self._say("outage", f"{self.who} cannot be asked, jobs wait: {reason}")
        elif not reason and self.outage_since is not None:
            self.outage_s += now - self.outage_since
            self._say("recovered", f"{self.who} answers again after {now - self.outage_since:.0f} s")
            self.outage_since = None
        return reason

    def _park(self, outage: str, over_budget: str = "") -> None:
        """Set why nothing is sent, if so; the operator is told once."""
        if over_budget and over_budget not in self.told:
            self.told.add(over_budget)
            self._say("budget", f"{over_budget}; jobs wait")
        self.parked = f"outage: {outage}" if outage else over_budget

    def _say(self, kind: EventKind, text: str) -> None:
        clean = self.sender.scrubber.clean(text)
        level = logging.INFO if kind in {"recovered", "manner"} else logging.WARNING
        log.log(level, "%s: %s", self.who.removeprefix("the "), clean)
        self.tell(ExchangeEvent(kind, clean))


def open_exchange(
    who: str,
    config: JudgeConfig,
    cache: ReplyCache,
    clock: ScaledClock,
    *,
    spent: TokenUsage,
    tell: Callable[[ExchangeEvent], None],
) -> Exchange:
    """Return the exchange of a configuration. Raises ConfigError if its keys or certificates cannot be used."""
    dice, scrubber = random.Random(), Scrubber()
    keys = [(endpoint, keys_of(endpoint, who)) for endpoint in config.endpoints]
    for _, secrets in keys:
        scrubber.add(secrets)
    transport = Transport(config.timeout_s, config.max_reply_bytes)
    transport.check(config.endpoints, who)
    return Exchange(
        who=who,
        model=config.model,
        max_tries=config.max_tries,
        pool=KeyPool.of(keys, dice),
        budget=Budget(who, config, spent),
        cache=cache,
        sender=Sender(config.model, transport, scrubber, clock.now),
        clock=clock,
        dice=dice,
        tell=tell,
    )


def _counted(failure: ExchangeFailure) -> str:
    if failure.timed_out:
        return "timeout"
    return "429" if failure.status == 429 else "5xx" if failure.status >= 500 else "failed"


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _retrieved(future: "asyncio.Future[ServerReply]") -> None:
    """Retrieve a future's error, so that asyncio does not report it if nobody waits any more."""
    if not future.cancelled():
        future.exception()
