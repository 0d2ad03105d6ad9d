"""HTTP for the daemon: bytes to typed requests, typed replies to bytes, streams as newline-delimited JSON."""

import re
import time
import typing
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rwkv_daemon.api import field_errors, prometheus_text, rate_limits, router
from rwkv_daemon.api.authentication import ApiClient, Authenticator
from rwkv_daemon.api.rate_limits import BURST_S, RateLimiter
from rwkv_daemon.api.text_limits import LONGEST, too_long
from rwkv_daemon.changes import audit, caller, event_bus
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.logs import log_streams
from rwkv_daemon.node import Node
from rwkv_daemon.rules import roles
from rwkv_daemon.rules.roles import Role
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.events import number_at
from rwkv_daemon.store.queries.jobs import remembered_reply
from rwkv_daemon.store.read_lanes import READER, LaneReader, LateError, ReadLane
from rwkv_daemon.store.wall_time import now
from rwkvctl.http.server import NDJSON, Request, Response, Server
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import ErrorReply
from rwkvctl.protocol.requests import EventsRequest, LogsRequest
from rwkvctl.protocol.routes import PROTOCOL, ROUTES, AnyReply, AnyRequest, StreamRequest
from rwkvctl.protocol.service import MetricsReply, MetricsRequest

HEADER: Final = "rwkvctl-protocol"
VERSION: Final = {HEADER: str(PROTOCOL)}
REFUSALS, REFUSALS_PER_S = 30, 1 / 60


@dataclass(frozen=True, slots=True)
class Route:
    """A request type and the pattern of its path."""

    method: str
    pattern: re.Pattern[str]
    request: type[msgspec.Struct]


def routes() -> list[Route]:
    """Return the routes of the protocol, with their paths as patterns."""
    found = [
        Route(method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), request)
        for request, (method, path) in ROUTES.items()
    ]
    return [*found, Route("GET", re.compile(re.escape(prometheus_text.PATH)), MetricsRequest)]


@dataclass(slots=True)
class Api:
    """The daemon's request handler for the clients of one authenticator."""

    node: Node
    authenticator: Authenticator
    meter: RateLimiter = field(default_factory=RateLimiter)
    refusals: RateLimiter = field(default_factory=RateLimiter)
    table: list[Route] = field(default_factory=routes)

    async def __call__(self, request: Request) -> Response:
        """Answer one request. Every error becomes an ErrorReply."""
        allowed: Any = None
        try:
            client = await self.authenticator.client(request)
            caller.CALLER.set(client.actor)
            READER.set(LaneReader(ReadLane.REQUESTS, client.who))
            self.measure(client)
            check_version(request)
            wanted = decode(self.table, request)
            await self.permit(client, wanted)
            allowed = wanted
            return await self.node.request_state.last_replies.in_time(
                self.node.records.health, self.permitted(request, wanted)
            )
        except RefusedError as error:
            return refusal(self.stamp, error)
        except LateError as error:
            late = RefusedError("too-long", f"The request took too long: {error}.", "Ask for less, or try again later.")
            return refusal(self.stamp, late, status=503)
        except StoreError as error:
            return self.without_store(allowed, error)
        except Exception as error:  # noqa: BLE001 - logged, and answered: a silent connection helps nobody
            log.exception("%s %s cannot be answered", request.method, request.path)
            mistake = RefusedError(
                "internal", f"Internal error of the daemon ({type(error).__name__}).", "See its log."
            )
            return refusal(self.stamp, mistake, status=500)

    async def permitted(self, request: Request, wanted: Any) -> Response:
        """Answer a request if the client may send it. Raises RefusedError, StoreError."""
        if isinstance(wanted, (LogsRequest, EventsRequest)):
            return await self.stream(request, wanted)
        if roles.changes(type(wanted)):
            return Response(200, msgspec.json.encode(self.stamp(await self.changed(wanted))), headers=VERSION)
        reply = await router.answer(self.node, wanted)
        if isinstance(reply, MetricsReply) and request.path == prometheus_text.PATH:
            return Response(200, prometheus_text.text(reply.items).encode(), prometheus_text.CONTENT_TYPE, VERSION)
        reply = self.stamp(reply)
        content = msgspec.json.encode(reply)
        if not roles.names_files(wanted):  # replies about files depend on who asks
            self.node.request_state.last_replies.keep(wanted, reply, len(content))
        return Response(200, content, headers=VERSION)

    def without_store(self, wanted: Any, error: StoreError) -> Response:
        """Return the last reply, marked as old, while the store is away; else an error. The client may ask again:
        nothing was changed, or a repetition with the same id will say that it was."""
        known = None
        if wanted is not None and not roles.changes(type(wanted)):
            known = router.remembered(self.node, wanted)
        if known is not None:
            return Response(200, msgspec.json.encode(self.stamp(known)), headers=VERSION)
        why = self.node.records.trouble or f"the store cannot be used: {error}"
        again = RefusedError("store-trouble", f"{why[0].upper()}{why[1:]}.", "Ask again later; see `rwkvctl doctor`.")
        return refusal(self.stamp, again, status=503, retry=True)

    def unwelcome(self, request: Request) -> Response | None:
        """Return the refusal for a client that the authenticator does not admit; None if it is admitted."""
        try:
            self.authenticator.check(request)
        except RefusedError as error:
            return refusal(self.stamp, error)
        return None

    def measure(self, client: ApiClient) -> None:
        """Count the request against its client's limit. Raises RefusedError if it exceeds the limit; admins have
        none."""
        rate = self.node.records.config.settings.requests_per_s
        if client.role is Role.ADMIN or not rate:
            return
        if not self.meter.allows(client.who, time.monotonic(), rate=rate, burst=rate * BURST_S):
            text = f"{client.actor.name} sends more than {rate:g} requests a second."
            raise RefusedError("too-many-requests", text, "Try again in a second.", Exit.REFUSED)

    async def permit(self, client: ApiClient, wanted: AnyRequest | StreamRequest) -> None:
        """Raise RefusedError if the client may not send the request, and write the attempt to the audit trail. Of a
        client that keeps trying only some attempts are stored; the log has the others."""
        try:
            roles.refuse(wanted, client.role, client.actor)
        except RefusedError as error:
            if self.refusals.allows(client.who, time.monotonic(), rate=REFUSALS_PER_S, burst=REFUSALS):
                writing = audit.close(self.node.records.store, audit.entry_of(wanted), f"refused: {error.code}")
                await self.node.request_state.last_replies.in_time(self.node.records.health, writing)
            raise

    async def changed(self, wanted: AnyRequest) -> AnyReply:
        """Answer a request that changes something, and write it to the audit trail whatever comes of it."""
        if not self.node.records.up.is_set():
            raise StoreError("the daemon is still starting")
        entry = audit.entry_of(wanted)
        repeated = await remembered_reply(self.node.records.store, getattr(wanted, "request_id", "")) is not None
        with audit.opened(entry):
            try:
                reply = await router.answer(self.node, wanted)
            except RefusedError as error:
                await audit.close(self.node.records.store, entry, f"refused: {error.code}")
                raise
            if not entry.written and not getattr(reply, "left", 0):  # else the client only asks for the progress
                await audit.close(self.node.records.store, entry, "repeated" if repeated else audit.outcome_of(reply))
        return reply

    def stamp(self, reply: AnyReply) -> AnyReply:
        """Return the reply with this node's name, and with the current time where it has none."""
        return msgspec.structs.replace(reply, as_of=reply.as_of or now(), node=self.node.records.hostname)

    async def stream(self, request: Request, wanted: LogsRequest | EventsRequest) -> Response:
        """Return a stream. Its first item is fetched before the status is sent, so that a refusal has its own
        status."""
        if isinstance(wanted, EventsRequest) and wanted.limit > 0:
            return Response(200, lines(event_bus.page(self.node.records.store, wanted), request), NDJSON, VERSION)
        if isinstance(wanted, EventsRequest):
            since = await number_at(self.node.records.store, wanted.after) if wanted.after else wanted.since
            source: AsyncIterator[Any] = event_bus.stream(
                self.node.records.bus, self.node.records.store, since=since, follow=wanted.follow,
                session=wanted.session, only_stored=wanted.stored,
            )  # fmt: skip
            return Response(200, lines(source, request), NDJSON, VERSION)
        chunks = log_streams.stream(self.node.work, self.node.tails, wanted)
        try:
            first = await anext(chunks)
        except StopAsyncIteration:
            return Response(200, b"", NDJSON, VERSION)
        return Response(200, lines(chunks, request, first), NDJSON, VERSION)


async def lines(source: AsyncIterator[Any], request: Request, first: Any = None) -> AsyncIterator[bytes]:
    """Yield items as lines of JSON until the source ends or the client hangs up."""
    if first is not None:
        yield msgspec.json.encode(first) + b"\n"
    try:
        async for item in source:
            if request.gone.is_set():
                return
            yield msgspec.json.encode(item) + b"\n"
    except StoreError as error:  # the status has been sent: the client learns of it when it asks again
        raise ConnectionAbortedError(str(error)) from error


def check_version(request: Request) -> None:
    """Raise RefusedError if the client speaks another protocol version; a client that names none (curl) is accepted."""
    spoken = request.headers.get(HEADER, str(PROTOCOL))
    if spoken not in {str(PROTOCOL - 1), str(PROTOCOL)}:
        raise RefusedError(
            "version-skew",
            f"The client speaks protocol {spoken[:20]}, this daemon {PROTOCOL}.",
            "Install the same version of rwkvctl on both sides.",
            Exit.VERSION_SKEW,
        )


def decode(table: list[Route], request: Request) -> Any:
    """Return the typed request. Raises RefusedError if there is no such route or a field is wrong."""
    found = [(route, match) for route in table if (match := route.pattern.fullmatch(request.path))]
    if not found:
        raise RefusedError("no-such-route", f"There is no {request.path}.", "See docs/json.md.", Exit.NOT_FOUND)
    for route, match in found:
        if route.method == request.method:
            wanted = typed(route.request, request, match.groupdict())
            if said := too_long(wanted):
                raise RefusedError("bad-request", f"{request.path}: {said}", "", Exit.USAGE)
            return wanted
    raise RefusedError("wrong-method", f"{request.path} does not take {request.method}.")


def typed(kind: type[msgspec.Struct], request: Request, path: dict[str, str]) -> msgspec.Struct:
    """Return a request with fields from the path, the query (GET) or the body (POST). Unknown fields are ignored: newer
    clients send them."""
    try:
        if request.method == "POST":
            found = msgspec.json.decode(request.body or b"{}", type=kind)
        else:
            hints = typing.get_type_hints(kind)
            values = {name: query_value(hints[name], text) for name, text in request.query.items() if name in hints}
            found = msgspec.convert(values | path, kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        sentence = field_errors.sentence(error)[:LONGEST]
        raise RefusedError("bad-request", f"{request.path}: {sentence}.", "", Exit.USAGE) from error
    if wrong := field_errors.no_moment(found):
        raise RefusedError("bad-request", f"{request.path}: {wrong}.", "", Exit.USAGE)
    return found


def query_value(hint: Any, text: str) -> Any:
    """Return a query parameter as a value of the field's type. A flag may be `wrong`, `wrong=1` or `wrong=true`;
    several values are separated by commas."""
    if hint is bool:
        return text.lower() not in {"0", "false", "no"}
    if typing.get_origin(hint) is tuple:
        return text.split(",") if text else []
    return text


STATUS: Final = {
    "no-such-route": 404,
    "no-such-job": 404,
    "no-such-log": 404,
    "no-such-sample": 404,
    "no-such-score": 404,
    "no-search": 404,
    "wrong-method": 405,
    "plan-changed": 409,
    "version-skew": 426,
    "token": 401,
    "role": 403,
    "too-many-requests": 429,
}


def refusal(stamp: Any, error: RefusedError, status: int = 0, *, retry: bool = False) -> Response:
    """Return the HTTP response for a refusal; the status follows from the error's code (400 where none is known) unless
    given."""
    code = status or STATUS.get(error.code, 400)
    reply = ErrorReply(
        code=error.code, detail=error.detail, hint=error.hint, status=code, exit_code=int(error.exit_code), retry=retry
    )
    log.info("refused: %s", error)
    return Response(code, msgspec.json.encode(stamp(reply)), headers=VERSION)


def http_server(node: Node, authenticator: Authenticator, *, over_tls: bool) -> Server:
    """Return the HTTP server whose clients `authenticator` identifies."""
    most = (rate_limits.connections_over_tls if over_tls else rate_limits.connections)(rate_limits.open_files())
    api = Api(node, authenticator)
    return Server(
        api,
        max_body_bytes=rate_limits.LONGEST_BODY_BYTES,
        at_once=rate_limits.HANDLED_AT_ONCE,
        max_connections=most,
        admit=api.unwelcome,
        share=rate_limits.share(most, followers=0) if over_tls else rate_limits.share(most),
    )
