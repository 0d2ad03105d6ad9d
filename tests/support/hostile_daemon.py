"""A daemon whose every answer is hostile: each text of each reply of the protocol, new ones by themselves."""

import asyncio
import itertools
import json
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
from msgspec import inspect

from rwkvctl.http import listeners, server
from rwkvctl.protocol.deletion import DeleteRequest, PruneRequest, UndeleteRequest
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.gpus import GpuChange, GpuProbe, GpusChangedReply
from rwkvctl.protocol.notify import NotifyTest, NotifyTestReply
from rwkvctl.protocol.operation import (
    DrainRequest,
    HoldRequest,
    PauseRequest,
    PausesReply,
    PriorityRequest,
    ReleaseRequest,
)
from rwkvctl.protocol.replies import ChangedReply, ErrorReply, JudgeReply, PromotionReply, ReviewReply
from rwkvctl.protocol.requests import (
    EventsRequest,
    JudgeRetry,
    LogsRequest,
    RegradeRequest,
    ResumeRequest,
    ReviewMark,
    SearchSelect,
    StopRequest,
)
from rwkvctl.protocol.routes import PROTOCOL, ROUTES, AnyReply

Next = Callable[[], str]

ELSE: Final[dict[type[msgspec.Struct], type[msgspec.Struct]]] = {
    StopRequest: ChangedReply, ResumeRequest: ChangedReply, PauseRequest: PausesReply,
    DrainRequest: PausesReply, HoldRequest: ChangedReply, ReleaseRequest: ChangedReply,
    PriorityRequest: ChangedReply, DeleteRequest: ChangedReply, UndeleteRequest: ChangedReply,
    PruneRequest: ChangedReply, RegradeRequest: ChangedReply, JudgeRetry: JudgeReply,
    ReviewMark: ReviewReply, SearchSelect: PromotionReply, NotifyTest: NotifyTestReply,
    GpuChange: GpusChangedReply, GpuProbe: GpusChangedReply,
}  # fmt: skip
"""Replies that are not named after their requests."""

IDS: Final = frozenset({"id", "job", "jobs", "previous_job"})
"""Fields that hold ids, which the daemon alone makes."""
MOMENTS: Final = re.compile(r"as_of|at|since|until|started|ended|queued|written|begun|changed_at|first|last")
LAST: Final = frozenset({"looking", "left", "stale_since", "next", "last_event", "seq"})
"""Fields that would lead on to another page, or say that the same is to be asked again."""


def reply_of(request: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """What a request is answered with. Raises KeyError for a new one of which that is not known here."""
    name = request.__name__.removesuffix("Request") + "Reply"
    return next((reply for reply in get_args(AnyReply) if reply.__name__ == name), None) or ELSE[request]


def made(struct: type[msgspec.Struct], text: Next) -> dict[str, Any]:
    """A message of which every field holds something, and every text of others comes from `text`."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    found = fields_of(info, text)
    config = struct.__struct_config__
    return ({config.tag_field: config.tag} if config.tag_field else {}) | found


def fields_of(info: inspect.StructType, text: Next) -> dict[str, Any]:
    """The fields of a struct; where one names a key of another, it is that key."""
    found = {field.encode_name: field.default if field.name in LAST else value_of(field.type, field.name, text)
             for field in info.fields}  # fmt: skip
    if {"primary", "metrics"} <= found.keys():
        found["primary"] = next(iter(found["metrics"]))
    if "verdicts" in found:
        found |= {"verdicts": "a", "subject_of": [0]}
    return found


def value_of(kind: Any, name: str, text: Next) -> Any:
    """Something that a field of this type and name may hold."""
    match kind:
        case inspect.StructType():
            return fields_of(kind, text)
        case inspect.UnionType():
            return value_of(next(part for part in kind.types if not isinstance(part, inspect.NoneType)), name, text)
        case inspect.ListType() | inspect.VarTupleType() | inspect.CollectionType():
            return [value_of(kind.item_type, name, text)]
        case inspect.TupleType():
            return [value_of(part, name, text) for part in kind.item_types]
        case inspect.DictType():
            return {text(): value_of(kind.value_type, name, text)}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.5
    if name in IDS:
        return "j1"
    return "2026-11-21T05:13:34.000Z" if MOMENTS.fullmatch(name) else text()


def is_at(request: server.Request, method: str, path: str) -> bool:
    """Whether a request goes to a route."""
    return method == request.method and bool(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.path))


class HostileDaemon:
    """Answers every request with texts from `text`, or with an error of such texts. `sent` holds the documents. With
    `patience`, that request of them is the one at which Ctrl-C is pressed."""

    def __init__(self, text: Next) -> None:
        self.text, self.fails = text, False
        self.sent: list[Any] = []
        self.patience = 0

    async def handle(self, request: server.Request) -> server.Response:
        """Answer a request by its route, or with a 409 error if `fails`; send SIGINT once `patience` has counted down
        to 0."""
        self.patience -= 1
        if self.patience == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        kind = next(known for known, route in ROUTES.items() if is_at(request, *route))
        if self.fails:
            refused = made(ErrorReply, self.text) | {"status": 409, "exit_code": 5}
            return self.response(refused, 409)
        if kind in {EventsRequest, LogsRequest}:
            return server.Response(body=self.stream(kind), content_type=server.NDJSON, headers=self.headers())
        return self.response(made(reply_of(kind), self.text))

    def response(self, document: Any, status: int = 200) -> server.Response:
        """A document, its texts in ASCII where UTF-8 cannot hold them."""
        self.sent.append(document)
        return server.Response(status, encoded(document), headers=self.headers())

    async def stream(self, kind: type[msgspec.Struct]) -> AsyncIterator[bytes]:
        """One event or piece of a log, and the end."""
        document = made(Event, self.text) | {"seq": 7} if kind is EventsRequest else made(LogChunk, self.text)
        self.sent.append(document)
        yield encoded(document) + b"\n"

    def headers(self) -> dict[str, str]:
        return {"rwkvctl-protocol": str(PROTOCOL)}


def encoded(document: Any) -> bytes:
    """JSON as the daemon writes it, as UTF-8; a lone surrogate, which that cannot hold, as an escape."""
    text = json.dumps(document, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def cycling(texts: tuple[str, ...]) -> Next:
    """One text after the other, again and again."""
    return itertools.cycle(texts).__next__


@contextmanager
def serving(path: Path, handle: Any) -> Iterator[None]:
    """Serve on a socket from a thread until the block ends."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        web = server.Server(handle)
        listening = await web.start(listeners.bind_unix(path))
        ready.set()
        await stop.wait()
        listening.close()
        await web.close()
        path.unlink(missing_ok=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(120)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(120)
        loop.close()
