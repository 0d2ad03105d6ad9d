"""The console in a browser: textual-serve on this machine's loopback, behind a secret that only its terminal shows.

Every user of a machine reaches its loopback, and so does any page in a browser by a trick with names (DNS rebinding).
So nothing is answered without the secret of the address, under another name than the loopback's, or to the socket of
another page. Each browser window has a console of its own, as a process; all end with this one.
"""

import asyncio
import hmac
import logging
import secrets
import shlex
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Final

import aiohttp_jinja2
import msgspec
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.server import Server

from rwkvctl.http.browser_origin import names_loopback
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings.module_command import module_command

LOOPBACK: Final = "127.0.0.1"
MOST_CONSOLES: Final = 4
MOST_CELLS: Final = 1000
"""Columns or rows of a window."""
SHUTDOWN_S: Final = 3.0
REMOTE_FONT: Final = "https://fonts.googleapis.com/css?family=Roboto%20Mono"
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_ours(record: logging.LogRecord) -> bool:
    """Whether something is worth a line in the terminal: what strangers send that is no HTTP is not."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


log: Final = logging.getLogger("rwkvctl.serve")
log.addFilter(is_ours)


class ServeError(RwkvctlError):
    """The console cannot be served."""


def origin_is_ours(origin: str, host: str) -> bool:
    """Whether a socket is opened by a page of ours."""
    return origin == f"http://{host}"


class Size(msgspec.Struct, frozen=True):
    """Of a window, in cells."""

    width: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)]
    height: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)]


MESSAGES: Final[dict[str, Any]] = {
    "stdin": tuple[str, str], "resize": tuple[str, Size], "ping": tuple[str, float | str | None],
    "blur": tuple[str, ...], "focus": tuple[str, ...],
}  # fmt: skip


def understood(text: str) -> bool:
    """Whether a message is one of those that textual-serve knows; it trusts them."""
    try:
        kind = msgspec.json.decode(text, type=list[msgspec.Raw])
        name = msgspec.json.decode(kind[0], type=str) if kind else ""
        msgspec.json.decode(text, type=MESSAGES[name])
    except (msgspec.MsgspecError, UnicodeError, KeyError, RecursionError):
        return False
    return True


class Understood:
    """A window's socket without what nobody understands: it ends there."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        async for message in self.socket:
            if message.type is WSMsgType.TEXT and not understood(message.data):
                await self.socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"that is no message of a console")
                return
            yield message

    async def send_json(self, data: Any) -> None:
        await self.socket.send_json(data)


class ConsoleServer(Server):
    """textual-serve's server with a guard before it and without anything from other hosts in its page."""

    def __init__(self, command: str, port: int) -> None:
        super().__init__(command, host=LOOPBACK, port=port, title="rwkvctl")
        self.secret = secrets.token_urlsafe(24)
        self.open: set[web.WebSocketResponse] = set()
        self.windows = 0

    @property
    def cookie(self) -> str:
        """Browsers do not tell ports apart."""
        return f"rwkvctl-{self.port}"

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self.guard)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Says nothing: the verb does."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the sockets of all consoles, which ends them."""
        for socket in list(self.open):
            await socket.close()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer nobody but who knows the secret, under our own name."""
        if not names_loopback(request.host):
            raise web.HTTPForbidden(text="This console is served to this machine alone.")
        if hmac.compare_digest(request.query.get("token", "").encode(), self.secret.encode()):
            answer = web.Response(status=303, headers={"Location": "/"} | HEADERS)
            answer.set_cookie(self.cookie, self.secret, httponly=True, samesite="Strict", path="/")
            return answer
        if not hmac.compare_digest(request.cookies.get(self.cookie, "").encode(), self.secret.encode()):
            raise web.HTTPForbidden(text="Open the address that `rwkvctl tui --serve` printed; it holds a secret.")
        if request.path == "/ws" and not origin_is_ours(request.headers.get("Origin", ""), request.host):
            raise web.HTTPForbidden(text="Another page may not open this console.")
        return await handler(request)

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page, whatever port it is seen under."""
        context = {
            "font_size": 16, "app_websocket_url": f"ws://{request.host}/ws",
            "config": {"static": {"url": "/static/"}}, "application": {"name": self.title},
        }  # fmt: skip
        page = aiohttp_jinja2.render_string("app_index.html", request, context).replace(REMOTE_FONT, "")
        headers = HEADERS | {"Content-Security-Policy": POLICY.format(host=request.host)}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A console for this window."""
        for side in ("width", "height"):
            text = request.query.get(side, "80")
            if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST_CELLS):
                raise web.HTTPBadRequest(text=f"{side} must be a number from 1 to {MOST_CELLS}.")
        if self.windows >= MOST_CONSOLES:
            raise web.HTTPServiceUnavailable(text=f"{MOST_CONSOLES} consoles are open already; close one.")
        self.windows += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self.windows -= 1

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: Any) -> None:
        self.open.add(websocket)
        try:
            await super()._process_messages(Understood(websocket), app_service)  # type: ignore[arg-type]
        finally:
            self.open.discard(websocket)

    async def run(self, say: Callable[[str], None]) -> None:
        """Serve until a signal comes, or the terminal goes. `say` is told the address. Raises ServeError."""
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        runner = web.AppRunner(await self._make_app(), access_log=None, logger=log, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, self.port).start()
            self.port = runner.addresses[0][1]
            say(f"http://{LOOPBACK}:{self.port}/?token={self.secret}")
            await stop.wait()
        except OSError as error:
            raise ServeError(f"port {self.port} cannot be used: {error.strerror}; name another with --port.") from error
        finally:
            await runner.cleanup()


def console_command(flags: Sequence[str]) -> str:
    """The command line of one console: a terminal of its own kind, whatever this one is."""
    words = ["env", "-u", "TMUX", "-u", "NO_COLOR", "TERM=xterm-256color", "COLORTERM=truecolor"]
    return "exec " + shlex.join([*words, *module_command("rwkvctl.cli", "tui", *flags)])


def serve(port: int, flags: Sequence[str], say: Callable[[str], None]) -> None:
    """Serve the console with these flags until this process is told to end."""
    asyncio.run(ConsoleServer(console_command(flags), port).run(say))
