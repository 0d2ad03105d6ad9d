"""The engine's HTTP routes: generate, score, health, stats, cancel, tail. Answers are NDJSON, a line once known.

Errors have one shape: {"code", "detail", "hint"}. A request is taken whole or not at all.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from rwkv_engine.core import Cancel, Engine
from rwkv_engine.errors import ItemError, QueueFullError
from rwkv_engine.gauges import resident_bytes
from rwkv_engine.requests import Compiler
from rwkv_engine.tail import follow
from rwkv_engine.tasks import AnyTask, GenerateTask, Result
from rwkvctl.httpd import NDJSON, Request, Response
from rwkvctl.protocol.engine import EngineHealth, EngineStats, GenerateItem, ScoreItem

RETRY_AFTER_S = 1
ITEMS, TAIL = "/v1/requests/", "/tail"
_encode = msgspec.json.Encoder().encode
_generate_items = msgspec.json.Decoder(GenerateItem)
_score_items = msgspec.json.Decoder(ScoreItem)


@dataclass(eq=False, slots=True)
class _Answers:
    """Results of one HTTP request on their way from the engine's thread to its connection; `expected` are to come."""

    loop: asyncio.AbstractEventLoop
    expected: int = 0
    queue: asyncio.Queue[Result | None] = field(default_factory=asyncio.Queue)

    def sink(self, result: Result) -> None:
        """Called on the engine's thread."""
        self.loop.call_soon_threadsafe(self.queue.put_nowait, result)

    def end(self) -> None:
        self.queue.put_nowait(None)

    async def lines(self) -> list[bytes]:
        """The results that are there, at least one, as lines; none once the end has come."""
        result = await self.queue.get()
        lines: list[bytes] = []
        while result is not None:
            lines.append(_encode(result) + b"\n")
            result = None if self.queue.empty() else self.queue.get_nowait()
        self.expected -= len(lines)
        return lines


@dataclass(slots=True)
class Service:
    """Answers requests for one engine. `open` are the answer queues of requests in flight with their tasks."""

    engine: Engine
    compiler: Compiler
    health: EngineHealth
    notes: tuple[str, ...] = ()
    started_s: float = field(default_factory=time.monotonic)
    open: dict[_Answers, list[AnyTask]] = field(default_factory=dict)

    async def handle(self, request: Request) -> Response:
        """The handler of the HTTP server."""
        match request.method, request.path:
            case "POST", "/v1/generate":
                return self._take(request, lambda line, a: self.compiler.generate(_generate_items.decode(line), a.sink))
            case "POST", "/v1/score":
                return self._take(request, lambda line, a: self.compiler.score(_score_items.decode(line), a.sink))
            case "GET", "/v1/health":
                return Response(body=_encode(self.health))
            case "GET", "/v1/stats":
                return Response(body=_encode(self.stats()))
            case "GET", path if path.startswith(ITEMS) and path.endswith(TAIL):
                return self._tail(request, path.removeprefix(ITEMS).removesuffix(TAIL))
            case "DELETE", path if path.startswith(ITEMS):
                return self._delete(path.removeprefix(ITEMS))
            case _:
                routes = "POST /v1/generate, /v1/score; GET /v1/health, /v1/stats, /v1/requests/ID/tail; "
                routes += "DELETE /v1/requests/ID"
                return refusal(404, "no_such_route", f"{request.method} {request.path} is not served here", routes)

    def _take(self, request: Request, compile_line: Callable[[bytes, _Answers], AnyTask]) -> Response:
        answers = _Answers(asyncio.get_running_loop())
        try:
            tasks = compile_all(request.body, lambda line: compile_line(line, answers))
            self.engine.submit(tasks)
        except ItemError as error:
            return refusal(400, "bad_item", str(error), "mend that item; nothing of the request was started")
        except QueueFullError as error:
            hint = f"wait for {RETRY_AFTER_S} s and send at most {error.limit} items at once; /v1/stats says the room"
            return refusal(429, "queue_full", str(error), hint, {"retry-after": str(RETRY_AFTER_S)})
        answers.expected = sum(map(answers_of, tasks))
        self.open[answers] = tasks
        asyncio.ensure_future(request.gone.wait()).add_done_callback(lambda _: self._left(answers))
        return Response(body=self._stream(answers), content_type=NDJSON)

    async def _stream(self, answers: _Answers) -> AsyncIterator[bytes]:
        """Lines as results come, until all are there or the client has gone."""
        while answers.expected > 0 and (lines := await answers.lines()):
            yield b"".join(lines)

    def _left(self, answers: _Answers) -> None:
        """The request has ended, well or not: cancel what is left of it."""
        tasks = self.open.pop(answers)
        if answers.expected > 0:
            self._cancel(tasks)
        answers.end()

    def _cancel(self, tasks: Sequence[AnyTask], error: str = "") -> None:
        ours = set(map(id, tasks))
        self.engine.cancel(Cancel(lambda task: id(task) in ours, error))

    def _delete(self, item_id: str) -> Response:
        """Cancel every item of that id, whatever request it came with; what it has not answered becomes an error."""
        found = self._find(item_id)
        if not found:
            return refusal(404, "no_such_request", f"no item {item_id!r} is in flight", "it may have finished")
        self._cancel(found, "cancelled")
        return Response(body=_encode({"cancelled": len(found)}))

    def _tail(self, request: Request, item_id: str) -> Response:
        """Stream what the item's samples generate, until they end."""
        found = self._find(item_id)
        if not found:
            return refusal(404, "no_such_request", f"no item {item_id!r} is in flight", "it may have finished")
        pieces = follow(found[0], lambda: list(self.engine.scheduler.running.values()), request.gone)
        return Response(body=pieces, content_type=NDJSON)

    def _find(self, item_id: str) -> list[AnyTask]:
        """The tasks of that id in requests that are open."""
        return [task for tasks in self.open.values() for task in tasks if task.id == item_id and not task.ended]

    def stats(self) -> EngineStats:
        """The engine's figures now."""
        scheduler, counters = self.engine.scheduler, self.engine.scheduler.counters
        now_s = time.monotonic()
        prefill, decode = self.engine.rates.per_second(now_s, counters.prefill_tokens, counters.decode_tokens)
        return EngineStats(
            slots=scheduler.limits.slots,
            running=len(scheduler.running),
            waiting=self.engine.waiting,
            room=self.engine.room,
            steps=self.engine.steps,
            prefill_tokens=counters.prefill_tokens,
            decode_tokens=counters.decode_tokens,
            prefill_tokens_per_s=prefill,
            decode_tokens_per_s=decode,
            occupancy=self.engine.occupancy if scheduler.running else 0.0,
            cache_hits=scheduler.cache.hits,
            cache_misses=scheduler.cache.misses,
            kept=len(scheduler.kept),
            finished=counters.finished,
            uptime_s=now_s - self.started_s,
            rss_bytes=resident_bytes(),
            notes=self.notes,
        )


def answers_of(task: AnyTask) -> int:
    """How many lines a task answers with."""
    return len(task.keys) if isinstance(task, GenerateTask) else 1


def compile_all(body: bytes, compile_line: Callable[[bytes], AnyTask]) -> list[AnyTask]:
    """One task a line. Raises ItemError that names the line."""
    tasks: list[AnyTask] = []
    for number, line in zip(itertools.count(1), body.split(b"\n"), strict=False):
        if not line.strip():
            continue
        try:
            tasks.append(compile_line(line))
        except (ItemError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ItemError(f"line {number}: {error}") from error
    if not tasks:
        raise ItemError("the body holds no item")
    return tasks


def refusal(status: int, code: str, detail: str, hint: str, headers: dict[str, str] | None = None) -> Response:
    """An error in the one shape all of them have."""
    return Response(status, _encode({"code": code, "detail": detail, "hint": hint}), headers=headers or {})
