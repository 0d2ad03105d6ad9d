"""What a server does with what it is sent, found by a few requests of at most 16 tokens.

No field that a server accepts is known to have an effect: only a stop that stops, a number of samples that come, and a
seed that repeats a text at temperature 1 and changes with the seed are counted as honoured.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from msgspec import Struct

from rwkv_daemon.remote.dispatcher import Exchange, NoReplyError
from rwkv_daemon.remote.prompt_logprobs import ScoreQuestion
from rwkv_daemon.remote.request import Question
from rwkv_daemon.remote.request_style import FEW_STOPS, RequestStyle
from rwkv_daemon.remote.sample_reply import read_sample
from rwkv_daemon.remote.server_reply import CHAT, COMPLETIONS, ServerReply, estimated_tokens, json_object
from rwkvctl.protocol.endpoints import Api
from rwkvctl.settings.endpoints import EndpointModel

JOB: Final = "probe"
LIST: Final = "Continue the list of numbers in words: one, two, three, four, five, six,"
INVENTION: Final = "Invent the name of a town that nobody has heard of, and say what is odd about it:"
"""Prompts whose reply hardly varies, and varies much."""
OTHER_STOPS: Final = tuple(f"<stop {number}>" for number in range(FEW_STOPS))
TOKENS: Final = 16
URGENT: Final = 1_000_000
"""The priority of the probe: whoever waits for it waits for a few tokens."""
LOOK_S, PATIENCE_S, LONGEST_S = 0.1, 60.0, 120.0
"""How often a request is looked at; how long it waits during an outage; and how long else."""

Support = Literal["yes", "no", "refused", "unknown"]


class ProbeError(Exception):
    """The server cannot be probed now. The message says why."""


class ServerFeatures(Struct, frozen=True, kw_only=True):
    """What a server honours ("yes"), ignores ("no") or refuses. `model` is the name that it gives itself; `refused` are
    fields that it is not sent. `no_logprobs` says why there are no log-probabilities of prompts."""

    model: str
    usage: bool
    stop: Support
    n: Support
    seed: Support
    length_field: str
    refused: tuple[str, ...] = ()
    prompt_logprobs: bool = False
    no_logprobs: str = ""


class KnownServer(Struct, frozen=True, kw_only=True):
    """What a server turned out to do, and how it is asked since: with this it need not be tried out again."""

    features: ServerFeatures
    style: RequestStyle


@dataclass(frozen=True, slots=True)
class ProbeQuestion:
    """A tiny request with some further fields. Equal ones differ by `number`."""

    identity: str
    api: Api
    number: int
    prompt: str = LIST
    tokens: int = TOKENS
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return "probe"

    @property
    def route(self) -> str:
        return CHAT if self.api == "chat" else COMPLETIONS

    @property
    def schema(self) -> str:
        return ""

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(self.more)

    def droppable(self, _style: RequestStyle) -> frozenset[str]:
        """Return the fields that the server may refuse, which the probe finds out."""
        return self.optional

    @property
    def prompt_tokens(self) -> int:
        return estimated_tokens(len(self.prompt))

    @property
    def max_tokens(self) -> int:
        return self.tokens

    def key(self, _model: str) -> str:
        plain = json.dumps([self.identity, "probe", self.api, self.prompt, self.number, self.more], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()

    def body(self, model: str, style: RequestStyle, room: int) -> dict[str, Any]:
        """Return the JSON body of the request."""
        turns = [{"role": "user", "content": self.prompt}]
        asked = {"messages": turns} if self.api == "chat" else {"prompt": self.prompt}
        more = {name: value for name, value in self.more.items() if style.takes(name)}
        if style.most_stops and "stop" in more:
            more["stop"] = more["stop"][: style.most_stops]
        return {"model": model, **asked, style.length_field: room, **more}

    def read(self, body: bytes) -> ServerReply:
        """Return a reply whose text is what the probe wants to know of it, as JSON. Raises BadReplyError."""
        reply = read_sample(body, chat=self.api == "chat", prompt_chars=len(self.prompt))
        document = json_object(body)
        counts = isinstance(document.get("usage"), dict) and bool(document["usage"].get("completion_tokens"))
        known = {"text": reply.text, "choices": len(document["choices"]), "usage": counts}
        return replace(reply, text=json.dumps(known))


@dataclass(slots=True)
class ServerProbe:
    """Probes one server through its exchange, which must be running."""

    config: EndpointModel
    exchange: Exchange
    asked: int = 0

    async def features(self) -> ServerFeatures:
        """Return what the server does. Raises ProbeError."""
        self.exchange.queue.priorities[JOB] = URGENT
        try:
            plain = await self._ask({"temperature": 0})
        except NoReplyError as error:
            raise ProbeError(f"{self.config.name} {error.status}: {error}") from error
        known = json.loads(plain.text)
        stop = await self._stop(known["text"])
        seed = await self._seed()
        n = await self._n()
        logprobs = await self._logprobs()
        style = self.exchange.pool.endpoints[0].style
        return ServerFeatures(
            model=plain.model,
            usage=known["usage"],
            stop=stop,
            n=n,
            seed=seed,
            length_field=style.length_field,
            refused=tuple(sorted(style.without)),
            prompt_logprobs=not logprobs,
            no_logprobs=logprobs,
        )

    async def _stop(self, text: str) -> Support:
        """Ask for the same text with a stop in its middle, beside more others than every server takes."""
        words = re.sub("</?think>", " ", text).split()
        stop = words[len(words) // 2] if words else ""
        found = await self._tried({"temperature": 0, "stop": [stop, *OTHER_STOPS]} if stop else {})
        if found is None or not self._sent("stop"):
            return "refused"
        return "unknown" if not stop else "no" if stop in found["text"] else "yes"

    async def _seed(self) -> Support:
        """Ask twice with one seed and once with another, at temperature 1."""
        texts = []
        for seed in (1, 1, 2):
            found = await self._tried({"temperature": 1.0, "seed": seed}, INVENTION)
            if found is None or not self._sent("seed"):
                return "refused"
            texts.append(found["text"])
        if texts[0] != texts[1]:
            return "no"
        return "yes" if texts[0] != texts[2] else "unknown"

    async def _n(self) -> Support:
        """Ask for two samples, and in the same request for what a server may refuse."""
        extras: dict[str, Any] = {"n": 2, "top_k": 20, "presence_penalty": 0.1, "frequency_penalty": 0.1, "top_p": 0.9}
        found = await self._tried(extras, separately=True)
        if found is None or not self._sent("n"):
            return "refused"
        return "yes" if found["choices"] > 1 else "no"

    async def _logprobs(self) -> str:
        """Return why there are no log-probabilities of prompts; empty if there are."""
        if self.config.api == "chat":
            return 'a chat server gives none; set api = "completions"'
        try:
            await self._reply(ScoreQuestion(self.config.identity, LIST, len(LIST) // 2, "probe"))
        except NoReplyError as error:
            self._must_be_refused(error)
            return str(error)
        return ""

    async def _tried(
        self, more: dict[str, Any], prompt: str = LIST, *, separately: bool = False
    ) -> dict[str, Any] | None:
        """Return the reply to a request with some fields; None if they are refused without being named: then they are
        not sent any more. `separately`: find out which of them it is."""
        try:
            return dict(json.loads((await self._ask(more, prompt)).text))
        except NoReplyError as error:
            self._must_be_refused(error)
        fields = set(more) - {"temperature"}
        if separately:
            found = [await self._tried({name: more[name]}) for name in sorted(fields)]
            return dict(zip(sorted(fields), found, strict=True)).get("n")
        self._drop(fields)
        return None

    def _must_be_refused(self, error: NoReplyError) -> None:
        """Raise ProbeError for an error that says nothing about the server's features."""
        if error.status != "refused":
            raise ProbeError(f"{self.config.name} {error.status}: {error}") from error

    def _drop(self, fields: Iterable[str]) -> None:
        endpoint = self.exchange.pool.endpoints[0]
        endpoint.style = replace(endpoint.style, without=endpoint.style.without | set(fields))

    def _sent(self, name: str) -> bool:
        return self.exchange.pool.endpoints[0].style.takes(name)

    async def _ask(self, more: dict[str, Any], prompt: str = LIST) -> ServerReply:
        self.asked += 1
        return await self._reply(ProbeQuestion(self.config.identity, self.config.api, self.asked, prompt, more=more))

    async def _reply(self, question: Question) -> ServerReply:
        """Return the reply. Raises NoReplyError; ProbeError if none is to be expected now."""
        clock = self.exchange.clock
        request = asyncio.ensure_future(self.exchange.reply(JOB, question, fresh=True))
        begun = clock.now()
        try:
            while not request.done():
                await asyncio.wait([request], timeout=LOOK_S)
                if not request.done() and (why := self._hopeless(question, clock.now() - begun)):
                    raise ProbeError(f"{self.config.name} cannot be asked: {why}")
        finally:
            if request.cancel():
                await asyncio.wait([request])
        return request.result()[0]

    def _hopeless(self, question: Question, waited_s: float) -> str:
        """Return why a request need not be waited for any longer; empty if it may still bring a reply."""
        exchange = self.exchange
        obstacle, pending = exchange.obstacle(JOB), exchange.flights.get(question.key(exchange.model))
        if not obstacle:
            busy = f"no reply within {LONGEST_S:g} s, beside {len(exchange.in_flight)} requests in flight"
            return busy if waited_s > LONGEST_S else ""
        tried = pending is not None and bool(pending.last_error)
        outage = bool(exchange.pool.outage()) and not all(key.dead for key in exchange.pool.keys)
        return obstacle if tried or not outage or waited_s > PATIENCE_S else ""
