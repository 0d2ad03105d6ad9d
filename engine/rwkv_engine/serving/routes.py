"""The engine's own HTTP routes: generate, score, health, stats, cancel, tail. Answers are NDJSON, a line once known.

Errors have one shape: {"code", "detail", "hint"}. A request is taken whole or not at all. What OpenAI's API has is
served by `rwkv_engine.openai`.
"""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from rwkv_engine.errors import ItemError, QueueFullError
from rwkv_engine.openai.routes import OpenAI
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.tasks import AnyTask, Sink
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.follow_item import follow
from rwkv_engine.serving.gauges import resident_bytes
from rwkv_engine.serving.in_flight import RequestInFlight, RequestsInFlight
from rwkv_engine.serving.live_sample import live_sample
from rwkvctl.http.server import NDJSON, PIECE_BYTES, Request, Response
from rwkvctl.protocol.engine import Constraint, EngineHealth, EngineStats, GenerateItem, ScoreItem

RETRY_AFTER_S = 1
ITEMS, TAIL = "/v1/requests/", "/tail"
GROUPS, NOW = "/v1/groups/", "/now"
_encode = msgspec.json.Encoder().encode
_generate_items = msgspec.json.Decoder(GenerateItem)
_score_items = msgspec.json.Decoder(ScoreItem)


class _Constrained(msgspec.Struct):
    constraint: Constraint | None = None


_constrained = msgspec.json.Decoder(_Constrained)


@dataclass(slots=True)
class Service:
    """Answers requests for one engine. Over TCP every one but `/health` needs the `api_key`, if there is one."""

    engine: Engine
    compiler: Compiler
    health: EngineHealth
    notes: tuple[str, ...] = ()
    api_key: str = ""
    started_s: float = field(default_factory=time.monotonic)
    requests: RequestsInFlight = field(init=False)
    openai: OpenAI = field(init=False)

    def __post_init__(self) -> None:
        self.requests = RequestsInFlight(self.engine)
        self.openai = OpenAI(self.requests, self.compiler, self.health, self.api_key)

    async def handle(self, request: Request) -> Response:
        """Answer a request: the OpenAI routes first, then the engine's own."""
        if response := self.openai.refused(request) or await self.openai.handle(request):
            return response
        if request.path == "/v1/generate":
            await self.compiler.grammars.prepare(constraints_in(request.body))
        return self._native(request)

    def _native(self, request: Request) -> Response:
        match request.method, request.path:
            case "POST", "/v1/generate":
                return self._take(
                    request, lambda line, sink: self.compiler.generate(_generate_items.decode(line), sink)
                )
            case "POST", "/v1/score":
                return self._take(request, lambda line, sink: self.compiler.score(_score_items.decode(line), sink))
            case "GET", "/v1/health":
                return Response(body=_encode(self.health))
            case "GET", "/v1/stats":
                return Response(body=_encode(self.stats()))
            case "GET", path if path.startswith(ITEMS) and path.endswith(TAIL):
                return self._tail(request, path.removeprefix(ITEMS).removesuffix(TAIL))
            case "GET", path if path.startswith(GROUPS) and path.endswith(NOW):
                return self._now(request, path.removeprefix(GROUPS).removesuffix(NOW))
            case "DELETE", path if path.startswith(ITEMS):
                return self._delete(path.removeprefix(ITEMS))
            case _:
                return self._not_found(request)

    def _not_found(self, request: Request) -> Response:
        """Answer 404 for an unknown route: over TCP as OpenAI clients expect it, over the Unix socket in the engine's
        own form."""
        sentence = f"{request.method} {request.path} is not served here"
        if request.peer is None:
            return self.openai.not_found(sentence)
        routes = "POST /v1/generate, /v1/score, /v1/completions, /v1/chat/completions; GET /v1/health, /v1/stats, "
        routes += "/v1/models, /v1/requests/ID/tail, /v1/groups/GROUP/now; DELETE /v1/requests/ID"
        return refusal(404, "no_such_route", sentence, routes)

    def _take(self, request: Request, compile_line: Callable[[bytes, Sink], AnyTask]) -> Response:
        def compiled(sink: Sink, _: object) -> list[AnyTask]:
            return compile_all(request.body, lambda line: compile_line(line, sink))

        try:
            in_flight = self.requests.launch(request.gone, compiled)
        except ItemError as error:
            return refusal(400, "bad_item", str(error), "correct that item; nothing of the request was started")
        except QueueFullError as error:
            hint = (
                f"wait for {RETRY_AFTER_S} s and send at most {error.limit} items at once; /v1/stats has the free room"
            )
            return refusal(429, "queue_full", str(error), hint, {"retry-after": str(RETRY_AFTER_S)})
        return Response(body=lines(in_flight), content_type=NDJSON)

    def _delete(self, item_id: str) -> Response:
        """Cancel every item of an id, whatever request it came with; what it has not answered becomes an error."""
        found = self.requests.find(item_id)
        if not found:
            return refusal(404, "no_such_request", f"no item {item_id!r} is in flight", "it may have finished")
        self.requests.cancel(found, "cancelled")
        return Response(body=_encode({"cancelled": len(found)}))

    def _tail(self, request: Request, item_id: str) -> Response:
        """Stream what the item's samples generate, until they end."""
        found = self.requests.find(item_id)
        if not found:
            return refusal(404, "no_such_request", f"no item {item_id!r} is in flight", "it may have finished")
        return Response(body=follow(found[0], request.gone), content_type=NDJSON)

    def _now(self, request: Request, group: str) -> Response:
        """Return a sample of a group that is being generated."""
        asked = request.query
        try:
            name, step = (asked.get("id", ""), int(asked.get("index", "0"))), int(asked.get("step", "0"))
        except ValueError:
            return refusal(400, "bad_request", "index and step must be whole numbers", "leave them out for the first")
        return Response(body=_encode(live_sample(self.requests.of_group(group), name, step, self.compiler.tokenizer)))

    def stats(self) -> EngineStats:
        """Return the figures that `GET /v1/stats` reports: queue, token rates, prefix cache and memory."""
        scheduler, counters = self.engine.scheduler, self.engine.scheduler.counters
        now_s = time.monotonic()
        prefill, decode = self.engine.rates.per_second(now_s, counters.prefill_tokens, counters.decode_tokens)
        return EngineStats(
            slots=scheduler.slots,
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
            cached_tokens=scheduler.cache.saved_tokens,
            cache_bytes=sum(tiers.on_device for tiers in scheduler.tiers),
            cache_host_bytes=sum(tiers.on_host for tiers in scheduler.tiers),
            spills=sum(tiers.spills for tiers in scheduler.tiers),
            shrunk=self.engine.shrunk,
            notes=(*self.notes, *self.openai.notes()),
        )


async def lines(in_flight: RequestInFlight) -> AsyncIterator[bytes]:
    """Yield results as lines as they come, until all are there or the client has gone; many at once are given in
    pieces."""
    while results := await in_flight.results():
        piece = bytearray()
        for result in results:
            piece += _encode(result) + b"\n"
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)


def constraints_in(body: bytes) -> Iterator[Constraint | None]:
    """Yield the constraints of a request's items; faults of a line are left to be reported when the line is
    compiled."""
    for line in body.split(b"\n") if b'"constraint"' in body else ():
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield _constrained.decode(line).constraint


def compile_all(body: bytes, compile_line: Callable[[bytes], AnyTask]) -> list[AnyTask]:
    """Return one task for each line. Raises ItemError that names the line."""
    tasks: list[AnyTask] = []
    for number, line in zip(itertools.count(1), body.split(b"\n"), strict=False):
        if not line.strip():
            continue
        try:
            tasks.append(compile_line(line))
        except (ItemError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ItemError(f"line {number}: {error}") from error
    if not tasks:
        raise ItemError("the body holds no item")
    return tasks


def refusal(status: int, code: str, detail: str, hint: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response: {"code", "detail", "hint"}."""
    return Response(status, _encode({"code": code, "detail": detail, "hint": hint}), headers=headers or {})
