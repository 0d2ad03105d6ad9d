"""The OpenAI routes of a job's engines for one run of a harness, behind a token of its own.

A request waits while an engine is being exchanged, so that a harness sees none of that, and it is counted: what was
refused, and which completions the token limit cut off, is not in what a harness writes.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from rwkv_daemon.harness.answers import KeptAnswer, KeptAnswers
from rwkv_daemon.harness.outputs.result import Traffic
from rwkv_daemon.workers.run_directory import EngineEndpoint, RunDir
from rwkvctl.http.response import READ_BYTES, CutError, NotHttpError, ResponseReader, request_bytes
from rwkvctl.http.server import JSON, Request, Response, bearer_is
from rwkvctl.settings import process_locks

ROUTES: Final = frozenset(
    {
        "/v1/completions", "/v1/chat/completions", "/v1/models", "/health", "/version", "/tokenize", "/detokenize",
        "/tokenizer_info", "/v1/tokenize", "/v1/detokenize", "/v1/tokenizer_info",
    }
)  # fmt: skip
COMPLETIONS: Final = frozenset({"/v1/completions", "/v1/chat/completions"})
KEPT: Final = COMPLETIONS | {"/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize"}
"""What is not asked again by the next attempt: some harnesses have every text tokenized, one after another."""
HASH_BYTES: Final = 12
AWAY_S: Final = 0.5
BUSY: Final = frozenset({429, 503})
"""What an engine answers while its queue is full, or while it stops: the request is sent again."""


class Usage(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Message(Struct, frozen=True):
    content: str | None = None


class Choice(Struct, frozen=True):
    """A reply: the text of a completion, or the message of a chat."""

    finish_reason: str | None = None
    text: str | None = None
    message: Message | None = None

    @property
    def reply(self) -> str:
        return (self.message.content if self.message else self.text) or ""


class Completion(Struct, frozen=True):
    """What the relay reads of an answer."""

    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None


class CompletionRequest(Struct, frozen=True):
    """What the relay reads of a request: one that only scores its prompt is cut off by nothing."""

    max_tokens: int | None = None
    echo: bool | None = None


@dataclass(slots=True)
class EngineRelay:
    """Forwards requests to the engines that the run directory names, to the one with the fewest open requests. `cut`
    and `ended` are hashes of the replies that the token limit cut off, and of those that it did not."""

    folder: RunDir
    token: str
    kept: KeptAnswers
    traffic: Traffic = field(default_factory=Traffic)
    open: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    cut: set[bytes] = field(default_factory=set)
    ended: set[bytes] = field(default_factory=set)
    """Requests that have no answer yet."""

    claims: dict[EngineEndpoint, contextlib.ExitStack] = field(default_factory=dict)

    def admit(self, request: Request) -> Response | None:
        """Refuse a request without the token of this run, before its body is read."""
        if bearer_is(request, self.token) or password_is(request, self.token):
            return None
        return refusal(401, "invalid_api_key", "this address is for one run of a harness, which has its own token")

    async def handle(self, request: Request) -> Response:
        """Answer a request of the harness, unless it hangs up before."""
        if request.path not in ROUTES:
            return refusal(404, "no_such_route", f"{request.method} {request.path} is not served here")
        self.waiting += 1
        asking, gone = asyncio.ensure_future(self._answered(request)), asyncio.ensure_future(request.gone.wait())
        try:
            await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else refusal(499, "gone", "the client has gone")
        finally:
            self.waiting -= 1
            asking.cancel()
            gone.cancel()

    async def served_as(self) -> str:
        """Return the name under which the engines serve the model."""
        _, answer = await self._asked(Request("GET", "/v1/models", {}, {}, b"", None, asyncio.Event()))
        assert isinstance(answer.body, bytes)
        return str(msgspec.json.decode(answer.body)["data"][0]["id"])

    async def _answered(self, request: Request) -> Response:
        """Return the answer that an earlier attempt had, or ask an engine; it is counted."""
        if request.path not in KEPT:
            engine, answer = await self._asked(request)
            self._count(engine, request, answer)
            return answer
        with self.kept.place(request.path, request.body) as place:
            if (known := self.kept.at(place)) is not None:
                answer = Response(body=known.body)
                self._count(known.engine, request, answer)
                return answer
            engine, answer = await self._asked(request)
            self._count(engine, request, answer)
        if answer.status == HTTPStatus.OK and answer.content_type.startswith(JSON):
            assert isinstance(answer.body, bytes)
            self.kept.keep(place, KeptAnswer(engine, answer.body))
        return answer

    async def _asked(self, request: Request) -> tuple[str, Response]:
        """Return (the engine that answered, its answer), however long the engines are away or busy."""
        while True:
            endpoint = self._least_busy()
            if endpoint is not None:
                with contextlib.suppress(OSError, CutError, NotHttpError):  # it has ended: another one comes
                    answer = await self._ask(endpoint, request)
                    if answer.status not in BUSY:
                        return endpoint.engine, answer
            await asyncio.sleep(AWAY_S)

    def _least_busy(self) -> EngineEndpoint | None:
        named = self.folder.read_engines().endpoints
        for endpoint in named:
            if endpoint not in self.claims:
                self.claims[endpoint] = claimed(endpoint)
        for endpoint in self.claims.keys() - set(named):
            self.claims.pop(endpoint).close()
        return min(named, key=lambda one: self.open[one.engine], default=None)

    async def _ask(self, endpoint: EngineEndpoint, request: Request) -> Response:
        """Send a request on a connection of its own, and read the whole answer. Raises OSError, CutError,
        NotHttpError."""
        self.open[endpoint.engine] += 1
        writer = None
        try:
            reader, writer = await asyncio.open_unix_connection(endpoint.socket)
            writer.write(request_bytes(request.method, request.path, {"host": "engine"}, request.body))
            await writer.drain()
            response = ResponseReader()
            body = b"".join([piece async for piece in pieces(reader, response)])
        finally:
            self.open[endpoint.engine] -= 1
            if writer is not None:
                writer.close()
        return Response(response.status, body, response.headers.get("content-type", "application/json"))

    def _count(self, engine: str, request: Request, answer: Response) -> None:
        traffic = self.traffic
        traffic.requests += request.path in COMPLETIONS
        traffic.tokenized += request.path in KEPT - COMPLETIONS
        traffic.refused += answer.status >= 400
        if engine and engine not in traffic.engines:
            traffic.engines.append(engine)
        if request.path not in COMPLETIONS:
            return
        try:
            assert isinstance(answer.body, bytes)
            found = msgspec.json.decode(answer.body, type=Completion)
            asked = msgspec.json.decode(request.body, type=CompletionRequest) if request.body else CompletionRequest()
        except msgspec.MsgspecError:  # a stream, or a list of tokens
            return
        if found.usage is not None:
            traffic.prompt_tokens += found.usage.prompt_tokens
            traffic.generated_tokens += found.usage.completion_tokens
        if not asked.echo and asked.max_tokens != 1:
            for choice in found.choices:
                is_cut = choice.finish_reason == "length"
                traffic.truncated += is_cut
                (self.cut if is_cut else self.ended).add(hash_of(choice.reply))

    def was_cut(self, reply: str) -> bool:
        """Whether the token limit cut off each answer with this text, whatever blanks the harness took from its
        ends."""
        found = hash_of(reply)
        return found in self.cut and found not in self.ended

    def close(self) -> None:
        """Let the engines know that they are not needed any more, and close the file of answers."""
        self.kept.close()
        for claim in self.claims.values():
            claim.close()
        self.claims.clear()


def hash_of(reply: str) -> bytes:
    return hashlib.sha256(reply.strip().encode(errors="replace")).digest()[:HASH_BYTES]


async def pieces(reader: asyncio.StreamReader, response: ResponseReader) -> AsyncIterator[bytes]:
    while not response.ended:
        yield response.receive(await reader.read(READ_BYTES))


def claimed(endpoint: EngineEndpoint) -> contextlib.ExitStack:
    """Return a context that tells the engine that it is needed, also between two requests and without a daemon: it asks
    the kernel who holds its liveness file."""
    stack = contextlib.ExitStack()
    if endpoint.folder:
        with contextlib.suppress(OSError):  # the engine has gone already, or the file system has no locks
            descriptor = os.open(Path(endpoint.folder, "live"), os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            process_locks.hold(descriptor, shared=True)
    return stack


def password_is(request: Request, token: str) -> bool:
    """Whether a request has the token as its password: what `requests` sends of a .netrc, in place of any other."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    try:
        _, _, password = base64.b64decode(given, validate=True).partition(b":")
    except ValueError:
        return False
    return scheme.lower() == "basic" and hmac.compare_digest(password, token.encode())


def refusal(status: int, code: str, message: str) -> Response:
    """Return an error in the form of OpenAI's API, which harnesses print."""
    return Response(
        status, msgspec.json.encode({"error": {"message": message, "type": "invalid_request", "code": code}})
    )
