"""The engine's protocol for runners, over a Unix socket, answered from a server elsewhere.

A request is taken whole or not at all: 400 for one that is none, 429 while too much waits, 503 while the relay stops.
Answers stream back a line each, in finishing order. A client that hangs up takes back what it waits for.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.remote.answers import Answerer, SampleAnswer
from rwkvctl.http.server import NDJSON, Request, Response
from rwkvctl.protocol.engine import GenerateItem, ScoreItem

log = logging.getLogger("rwkvctl")

MOST_WAITING: Final = 4096
MOST_BYTES: Final = 32 * 1024 * 1024
"""Questions, and bytes of their requests, that may wait; a request alone may have more bytes, not more questions."""
RETRY_AFTER_S: Final = 1
DRAIN_S: Final = 2.0

_encode = msgspec.json.Encoder().encode
_generate_item = msgspec.json.Decoder(GenerateItem)
_score_item = msgspec.json.Decoder(ScoreItem)


class BadItemsError(ValueError):
    """A request's body holds no items, or one that cannot be read."""


@dataclass(slots=True, eq=False)
class RelayedRequest:
    """One request: how many questions are open, and the answers that were not sent yet."""

    size: int
    open: int = 0
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
    """Takes requests and answers them in tasks of `tasks`, as long as it is not `stopping`."""

    answerer: Answerer
    tasks: asyncio.TaskGroup
    requests: set[RelayedRequest] = field(default_factory=set)
    stopping: bool = False

    async def handle(self, request: Request) -> Response:
        """Answer one request of a runner."""
        match request.method, request.path:
            case "POST", "/v1/generate":
                return self._take(request, self._samples)
            case "POST", "/v1/score":
                return self._take(request, self._scores)
            case _:
                return refusal(404, "no_such_route", f"{request.method} {request.path} is not served here")

    def _samples(self, line: bytes) -> tuple[int, list[SampleAnswer]]:
        item = _generate_item.decode(line)
        if not 1 <= item.n <= MOST_WAITING:
            raise BadItemsError(f"n is {item.n}; it must be between 1 and {MOST_WAITING}")
        return item.n, self.answerer.samples_of(item)

    def _scores(self, line: bytes) -> tuple[int, list[SampleAnswer]]:
        item = _score_item.decode(line)
        return len(item.continuations), self.answerer.scores_of(item)

    def _take(self, request: Request, answers_of: Callable[[bytes], tuple[int, list[SampleAnswer]]]) -> Response:
        if self.stopping:
            return refusal(503, "stopping", "the model's service stops")
        taken = RelayedRequest(len(request.body))
        try:
            work = [answers_of(line) for line in lines_of(request.body)]
        except (BadItemsError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return refusal(400, "bad_item", str(error))
        taken.open = sum(questions for questions, _ in work)
        if taken.open > MOST_WAITING:
            return refusal(400, "too_many", f"a request may ask {MOST_WAITING} questions at most")
        if self._is_full(taken):
            headers = {"retry-after": str(RETRY_AFTER_S)}
            return refusal(429, "queue_full", f"{self.waiting} questions wait", headers)
        self._begin(taken, work, request.gone)
        return Response(body=taken.lines(), content_type=NDJSON)

    @property
    def waiting(self) -> int:
        """Questions that are open."""
        return sum(taken.open for taken in self.requests)

    def _is_full(self, taken: RelayedRequest) -> bool:
        held = sum(one.size for one in self.requests)
        too_much = self.waiting + taken.open > MOST_WAITING or held + taken.size > MOST_BYTES
        return bool(self.requests) and too_much

    def _begin(self, taken: RelayedRequest, work: list[tuple[int, list[SampleAnswer]]], gone: asyncio.Event) -> None:
        self.requests.add(taken)
        for questions, answers in work:
            taken.unsent += len(answers)
            for answer in answers:
                share = questions // len(answers)
                taken.tasks.append(self.tasks.create_task(self._answer(taken, answer, share)))
        self.tasks.create_task(self._end_with(taken, gone))

    async def _answer(self, taken: RelayedRequest, answer: SampleAnswer, questions: int) -> None:
        try:
            taken.answers.put_nowait(_encode(await answer()) + b"\n")
        except Exception:  # one item that cannot be answered must not end the relay
            log.exception("an item cannot be answered")
            taken.answers.put_nowait(b"\n")
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
