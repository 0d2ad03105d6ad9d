"""The engine's protocol for runners, over a Unix socket, answered from a server elsewhere.

A request is taken whole or not at all: 400 for one that is none, 429 while too much waits, 503 while the relay stops.
Answers stream back a line each, in finishing order. A client that hangs up takes back what it waits for.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.remote.answers import Answerer, SampleAnswer
from rwkvctl.http.server import NDJSON, Request, Response
from rwkvctl.protocol.engine import GenerateItem, ScoreItem

MOST_WAITING: Final = 2048
MOST_BYTES: Final = 32 * 1024 * 1024
"""Questions, and bytes of their requests, that may wait. Beyond that, a job has one request at a time, so that jobs
which fill the queue do not keep others out. 2048 questions of 2 KB take 26 MB."""
RETRY_AFTER_S: Final = 1
DRAIN_S: Final = 2.0

_encode = msgspec.json.Encoder().encode
_generate_item = msgspec.json.Decoder(GenerateItem)
_score_item = msgspec.json.Decoder(ScoreItem)


class BadItemsError(ValueError):
    """A request's body holds no items, or one that cannot be read."""


@dataclass(frozen=True, slots=True)
class RelayedItem:
    """One item of a request: its job, how many questions it takes, and what gives its answers."""

    job: str
    questions: int
    answers: list[SampleAnswer]


@dataclass(slots=True, eq=False)
class RelayedRequest:
    """One request: its job, how many questions are open, and the answers that were not sent yet."""

    job: str
    size: int
    open: int
    unsent: int = 0
    answers: "asyncio.Queue[bytes]" = field(default_factory=asyncio.Queue)
    tasks: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the answers as they come."""
        while self.unsent:
            line = await self.answers.get()
            self.unsent -= 1
            yield line


@dataclass(slots=True)
class Relay:
    """Takes requests and answers them in tasks of `tasks`, as long as the exchange is not stopping."""

    answerer: Answerer
    tasks: asyncio.TaskGroup
    requests: set[RelayedRequest] = field(default_factory=set)

    async def handle(self, request: Request) -> Response:
        """Answer one request of a runner."""
        match request.method, request.path:
            case "POST", "/v1/generate":
                return self._take(request, self._samples)
            case "POST", "/v1/score":
                return self._take(request, self._scores)
            case _:
                return refusal(404, "no_such_route", f"{request.method} {request.path} is not served here")

    def _samples(self, line: bytes) -> RelayedItem:
        item = _generate_item.decode(line)
        if not 1 <= item.n <= MOST_WAITING:
            raise BadItemsError(f"n is {item.n}; it must be between 1 and {MOST_WAITING}")
        return RelayedItem(item.group, item.n, self.answerer.samples_of(item))

    def _scores(self, line: bytes) -> RelayedItem:
        item = _score_item.decode(line)
        return RelayedItem(item.group, len(item.continuations), self.answerer.scores_of(item))

    def _take(self, request: Request, read: Callable[[bytes], RelayedItem]) -> Response:
        if self.answerer.exchange.stopping:
            return refusal(503, "stopping", "the model's service stops")
        try:
            items = [read(line) for line in lines_of(request.body)]
        except (BadItemsError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return refusal(400, "bad_item", str(error))
        taken = RelayedRequest(items[0].job, len(request.body), sum(item.questions for item in items))
        if taken.open > MOST_WAITING:
            return refusal(400, "too_many", f"a request may ask {MOST_WAITING} questions at most")
        if self._is_full(taken):
            headers = {"retry-after": str(RETRY_AFTER_S)}
            return refusal(429, "queue_full", f"{self.waiting} questions wait", headers)
        self._begin(taken, items, request.gone)
        return Response(body=taken.lines(), content_type=NDJSON)

    @property
    def waiting(self) -> int:
        """How many questions of all requests have no answer yet. A job's first request may exceed `MOST_WAITING`."""
        return sum(taken.open for taken in self.requests)

    def _is_full(self, taken: RelayedRequest) -> bool:
        held = sum(one.size for one in self.requests)
        too_much = self.waiting + taken.open > MOST_WAITING or held + taken.size > MOST_BYTES
        return too_much and any(one.job == taken.job for one in self.requests)

    def _begin(self, taken: RelayedRequest, items: list[RelayedItem], gone: asyncio.Event) -> None:
        self.requests.add(taken)
        for item in items:
            taken.unsent += len(item.answers)
            for answer in item.answers:
                share = item.questions // len(item.answers)
                taken.tasks.append(self.tasks.create_task(self._answer(taken, answer, share)))
        self.tasks.create_task(self._end_with(taken, gone))

    async def _answer(self, taken: RelayedRequest, answer: SampleAnswer, questions: int) -> None:
        try:
            taken.answers.put_nowait(_encode(await answer()) + b"\n")
        finally:
            taken.open -= questions

    async def _end_with(self, taken: RelayedRequest, gone: asyncio.Event) -> None:
        """Drop what is open of a request once its client has all answers or has hung up."""
        try:
            await gone.wait()
        finally:
            self.requests.discard(taken)
            for task in taken.tasks:
                task.cancel()

    async def drained(self) -> None:
        """Wait until the answers that are there have been sent, `DRAIN_S` at most."""
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        while self.requests and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)


def lines_of(body: bytes) -> list[bytes]:
    """Return the lines of a body. Raises BadItemsError if there is none."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    if not lines:
        raise BadItemsError("the body holds no item")
    return lines


def only_ours(request: Request) -> Response | None:
    """Refuse a client that is not a process of our own user."""
    if request.peer is not None and request.peer.uid == os.geteuid():
        return None
    return refusal(403, "not_yours", "this socket is for the daemon's own user")


def refusal(status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    return Response(status, _encode({"code": code, "detail": detail}), headers=headers or {})
