"""Answers on a kept-open TCP connection: the time of one, with and without TCP_NODELAY, and beside that of http.server.

    python bench/kept_connections.py [REQUESTS]

The client is http.client on the same machine. Without the option a body waits for the acknowledgement of its head,
which the kernel delays by 40 ms. The peer is the standard library's server with HTTP/1.1, which has the same client.
"""

import asyncio
import http.client
import http.server
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from figures import header, line

from rwkvctl.http import server as httpd
from rwkvctl.http.listeners import bind_tcp

BODY = b"x" * 200
REQUESTS = 200


def main() -> None:
    header()
    requests = int(sys.argv[1]) if sys.argv[1:] else REQUESTS
    with ours(nodelay=True) as port:
        now = each_ms(port, requests)
    with ours(nodelay=False) as port:
        without = each_ms(port, requests)
    with peer() as port:
        theirs = each_ms(port, requests)
    line("an answer of rwkvctl's server", now, "ms", None)
    line("the same without TCP_NODELAY", without, "ms", None)
    line("  ratio to it", without / now, "x", None)
    line("an answer of http.server", theirs, "ms", None)
    line("  ratio to it", theirs / now, "x", None)


def each_ms(port: int, requests: int) -> float:
    """Return the median time of an answer in ms, without the first ones, which the kernel acknowledges at once."""
    connection, times = http.client.HTTPConnection("127.0.0.1", port), list[float]()
    for _ in range(requests):
        begun = time.perf_counter()
        connection.request("POST", "/", b"{}")
        assert connection.getresponse().read() == BODY
        times.append(1000 * (time.perf_counter() - begun))
    connection.close()
    return median(times[requests // 4 :])


@contextmanager
def ours(*, nodelay: bool) -> Iterator[int]:
    """Yield the port of rwkvctl's server, in a thread."""
    listening, port, stop = threading.Event(), list[int](), list[object]()

    async def answer(_: httpd.Request) -> httpd.Response:
        return httpd.Response(body=BODY)

    async def streams(sock: socket.socket, tls: object) -> object:
        reader, writer = await made(sock, tls)  # type: ignore[arg-type]
        asyncio.get_running_loop().call_soon(sock.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        return reader, writer

    async def serve() -> None:
        ended, server, listener = asyncio.Event(), httpd.Server(answer), bind_tcp("127.0.0.1", 0)
        port.append(listener.getsockname()[1])
        stop.extend((asyncio.get_running_loop(), ended))
        accepting = await server.start(listener)
        listening.set()
        await ended.wait()
        accepting.close()
        await server.close()

    made = httpd.streams
    if not nodelay:
        httpd.streams = streams  # type: ignore[assignment]
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    listening.wait()
    try:
        yield port[0]
    finally:
        loop, ended = stop
        loop.call_soon_threadsafe(ended.set)  # type: ignore[attr-defined]
        thread.join()
        httpd.streams = made


@contextmanager
def peer() -> Iterator[int]:
    """Yield the port of the standard library's server."""

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


if __name__ == "__main__":
    main()
