"""The console in a browser: textual-serve on this machine's loopback, protected by a secret that only its terminal
shows. Every user of a machine can reach its loopback, and so can a web page by DNS rebinding. So requests are refused
without the secret, under another host name than the loopback's, or from the page of another origin. Each browser window
has a console process of its own; all end with the server."""

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
    """Return whether a log record is worth a line in the terminal; complaints about requests that are not HTTP are
    not."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


log: Final = logging.getLogger("rwkvctl.serve")
log.addFilter(is_ours)


class ServeError(RwkvctlError):
    """Raised when the console's port cannot be opened."""


def origin_is_ours(origin: str, host: str) -> bool:
    """Return whether a websocket is opened by a page of this server."""
    return origin == f"http://{host}"


class Size(msgspec.Struct, frozen=True):
    """The size of a window in cells."""

    width: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)]
    height: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)]


MESSAGES: Final[dict[str, Any]] = {
    "stdin": tuple[str, str], "resize": tuple[str, Size], "ping": tuple[str, float | str | None],
    "blur": tuple[str, ...], "focus": tuple[str, ...],
}  # fmt: skip


def understood(text: str) -> bool:
    """Return whether a message is one that textual-serve knows, since it does not check them itself."""
    try:
        kind = msgspec.json.decode(text, type=list[msgspec.Raw])
        name = msgspec.json.decode(kind[0], type=str) if kind else ""
        msgspec.json.decode(text, type=MESSAGES[name])
    except (msgspec.MsgspecError, UnicodeError, KeyError, RecursionError):
        return False
    return True


class ConsoleSocket:
    """A window's websocket that ends at the first message that is not understood."""

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
    """textual-serve's server with access control, and a page that loads nothing from other hosts."""

    def __init__(self, command: str, port: int) -> None:
        super().__init__(command, host=LOOPBACK, port=port, title="rwkvctl")
        self.secret = secrets.token_urlsafe(24)
        self.open: set[web.WebSocketResponse] = set()
        self.windows = 0

    @property
    def cookie(self) -> str:
        """Return the name of the cookie; it holds the port, since browsers share cookies between the ports of a
        host."""
        return f"rwkvctl-{self.port}"

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self.guard)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing, unlike textual-serve: `run` passes the address to `say`."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the sockets of all consoles, which ends them."""
        for socket in list(self.open):
            await socket.close()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests without the secret, under another host name, or for a websocket from the page of another
        origin."""
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
        """Return the page; it works behind any forwarded port."""
        context = {
            "font_size": 16, "app_websocket_url": f"ws://{request.host}/ws",
            "config": {"static": {"url": "/static/"}}, "application": {"name": self.title},
        }  # fmt: skip
        page = aiohttp_jinja2.render_string("app_index.html", request, context).replace(REMOTE_FONT, "")
        headers = HEADERS | {"Content-Security-Policy": POLICY.format(host=request.host)}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a console for this window. Raises HTTPBadRequest for a bad size, HTTPServiceUnavailable above
        MOST_CONSOLES."""
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
            await super()._process_messages(ConsoleSocket(websocket), app_service)  # type: ignore[arg-type]
        finally:
            self.open.discard(websocket)

    async def run(self, say: Callable[[str], None]) -> None:
        """Serve until a signal arrives or the terminal closes; `say` gets the address. Raises ServeError."""
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
    """Return the command line of one console, with terminal settings that do not depend on this terminal's."""
    words = ["env", "-u", "TMUX", "-u", "NO_COLOR", "TERM=xterm-256color", "COLORTERM=truecolor"]
    return "exec " + shlex.join([*words, *module_command("rwkvctl.cli", "tui", *flags)])


def serve(port: int, flags: Sequence[str], say: Callable[[str], None]) -> None:
    """Serve the console with these flags until this process is told to end."""
    asyncio.run(ConsoleServer(console_command(flags), port).run(say))
