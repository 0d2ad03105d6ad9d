"""A model behind an endpoint as the rest of the daemon uses it.

    model = RemoteModel(config, cache, folder / "qwq.sock")    # raises ConfigError
    tasks.create_task(model.run())                             # until model.stop()

Runners reach it over its socket as they reach an engine. Their questions wait through outages, budgets and pauses, and
share one pool of keys, one queue in which jobs take turns, and one cache.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from rwkv_daemon.remote.answers import Answerer, JobAnswers
from rwkv_daemon.remote.dispatcher import ExchangeEvent, NoReplyError, open_exchange
from rwkv_daemon.remote.probe import JOB, KnownServer, ProbeQuestion, ServerFeatures, ServerProbe
from rwkv_daemon.remote.relay import Relay, only_ours
from rwkv_daemon.remote.reply_cache import ReplyCache
from rwkv_daemon.remote.sample_question import SEED_BITS, never_sent
from rwkv_daemon.remote.scaled_clock import ScaledClock
from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage
from rwkv_daemon.remote.service_stats import ServiceStats
from rwkv_daemon.remote.service_view import snapshot
from rwkvctl.http.listeners import bind_unix
from rwkvctl.http.server import Server
from rwkvctl.protocol.engine import Sampling, Stops
from rwkvctl.settings.endpoints import EndpointModel

OUTAGE_LOOK_S: Final = 5.0


class RemoteModel:
    """One model behind one endpoint. Raises ConfigError if its keys or certificates cannot be used."""

    def __init__(
        self,
        config: EndpointModel,
        replies: ReplyCache,
        socket: Path,
        clock: ScaledClock | None = None,
        *,
        spent: TokenUsage = NOTHING,
        tell: Callable[[ExchangeEvent], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.socket = socket
        self.features: ServerFeatures | None = None
        self.clock = clock or ScaledClock()
        self.exchange = open_exchange(config.name, config.service, replies, self.clock, spent=spent, tell=tell)
        self.answerer = Answerer(config, self.exchange)
        self._probing = asyncio.Lock()
        self._bound = False

    def is_of(self, config: EndpointModel) -> bool:
        """Whether it was made from these settings and from the keys that their files hold now. Raises ConfigError."""
        return self.config == config and self.exchange.uses_keys_of(config.service)

    @property
    def parked(self) -> str:
        """Why nothing can be sent now: an outage, the budget, a pause; empty if something can."""
        return self.exchange.obstacle()

    def parked_for(self, job: str) -> str:
        """Return why nothing of a job can be sent now, its own budget included; empty if something can."""
        return self.exchange.obstacle(job)

    async def run(self, grace_s: float = 10.0) -> None:
        """Serve the socket and send requests until `stop`; then wait for those in flight, `grace_s` at most. Raises
        OSError, SocketInUseError."""
        listener = bind_unix(self.socket)
        self._bound = True
        try:
            async with asyncio.TaskGroup() as tasks:
                relay = Relay(self.answerer, tasks)
                server = Server(relay.handle, admit=only_ours)
                listening = await server.start(listener)
                watch = tasks.create_task(self._watch_outage())
                try:
                    await self.exchange.run(grace_s)
                finally:
                    watch.cancel()
                    await relay.drained()
                    listening.close()
                    await server.close()
        finally:
            self._unlink()

    def stop(self) -> None:
        """Take and send nothing more. Another service may have the socket's place at once."""
        self.exchange.stop()
        self._unlink()

    def follow(self, gone: "Iterable[RemoteModel]") -> None:
        """Wait for what one of these, if it is a service of the same model, still has in flight, and do not ask for it
        again."""
        for one in gone:
            if one.config.identity == self.config.identity and one.exchange.flights:
                self.exchange.before = one.exchange

    def _unlink(self) -> None:
        if self._bound:
            self._bound = False
            self.socket.unlink(missing_ok=True)

    def pause(self, why: str) -> None:
        """Send nothing while `why` is not empty; what is in flight is completed."""
        self.exchange.paused = why
        self.exchange.wake.set()

    def revive(self) -> None:
        """Try every key again at once, as the cause of the failures was removed."""
        self.exchange.pool.revive()
        self.exchange.wake.set()

    def open_job(self, job: str, *, priority: int = 0, spent: TokenUsage = NOTHING) -> None:
        """Register a job before its first question, with its priority and what it cost before a restart. Without this,
        a job is registered with its first question."""
        self.exchange.queue.priorities[job] = priority
        self.exchange.budget.jobs[job] = spent
        self.answerer.jobs.setdefault(job, JobAnswers())

    def rank(self, job: str, priority: int) -> None:
        """Give the questions of a registered job another priority."""
        self.exchange.queue.priorities[job] = priority

    def close_job(self, job: str) -> None:
        """Forget a job. A runner that still waits gets its questions back, and asks them again if it goes on."""
        if (answers := self.answerer.jobs.pop(job, None)) is not None:
            answers.give_back()
        self.exchange.unaffordable.pop(job, None)
        self.exchange.queue.priorities.pop(job, None)
        self.exchange.budget.forget(job)
        self.exchange.wake.set()

    def stats(self) -> ServiceStats:
        """Return a snapshot of the queue, endpoint, keys, jobs and budget for the console and the metrics."""
        counts = {name: (len(job.waiting), job.answered, job.failed) for name, job in self.answerer.jobs.items()}
        return snapshot(self.exchange, counts)

    @property
    def probing(self) -> bool:
        """Whether it is being found out now what the server honours."""
        return self._probing.locked()

    async def probe(self) -> ServerFeatures:
        """Return what the server honours, tried once while `run` runs. Raises ProbeError."""
        async with self._probing:
            if self.features is None:
                self.features = await ServerProbe(self.config, self.exchange).features()
            return self.features

    @property
    def known(self) -> KnownServer | None:
        """Return what the server turned out to do; None before it was tried out."""
        style = self.exchange.pool.endpoints[0].style
        return KnownServer(features=self.features, style=style) if self.features is not None else None

    def recall(self, known: KnownServer | None) -> None:
        """Ask the server as it is known to take it. Without anything known it is tried out again, with every field: it
        may accept today what it refused before."""
        endpoint = self.exchange.pool.endpoints[0]
        self.features = known.features if known is not None else None
        endpoint.style = known.style if known is not None else endpoint.first_style

    def sent_as(self, sampling: Sampling, stops: Stops) -> dict[str, Any]:
        """Return how an item with this sampling is sent, for the provenance of a score: which of its settings the API
        has no field for, and which fields the server refuses."""
        style = self.exchange.pool.endpoints[0].style
        return {
            "api": self.config.api,
            "length_field": style.length_field,
            "seed_bits": SEED_BITS,
            "not_sent": never_sent(sampling, stops),
            "most_stops": style.most_stops,
            "refused": sorted(style.without - {"n"}),
        }

    async def _watch_outage(self) -> None:
        """Ask a tiny question now and then while an outage lasts and no other question waits: else nothing would show
        that it is over. Keys that were refused are left alone, and the pool says when to try."""
        while True:
            await asyncio.sleep(OUTAGE_LOOK_S / self.clock.speed)
            idle = not self.exchange.flights and any(not key.dead for key in self.exchange.pool.keys)
            if idle and self.exchange.pool.outage():
                with contextlib.suppress(NoReplyError):
                    question = ProbeQuestion(self.config.identity, self.config.api, number=0, tokens=1)
                    await self.exchange.reply(JOB, question, fresh=True)
