"""The runner's client for engines: one request, its stream of answers, and three named errors."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import msgspec

from rwkv_daemon.rules.exit_rules import engine_cause
from rwkv_daemon.runner.ask import Batch
from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.run_directory import DOOMED, EngineEndpoint
from rwkvctl.http.response import READ_BYTES, NotHttpError, ResponseReader, request_bytes
from rwkvctl.protocol.engine import Generated, Scored
from rwkvctl.settings import process_locks

BUSY_RETRY_S = 0.2
TAKEN_S = 10.0
"""An engine that has not accepted a connection or taken a request after so long is away; answers may take longer."""
RECORD_LOOKS, RECORD_LOOK_S = 50, 0.1
"""An engine whose connection broke has so long (RECORD_LOOKS times RECORD_LOOK_S) to be recorded as ended; else it
counts as alive."""


class EngineBusyError(Exception):
    """The engine's queue is full; try again in `retry_s`."""

    def __init__(self, retry_s: float) -> None:
        super().__init__(f"busy, try again in {retry_s} s")
        self.retry_s = retry_s


class EngineAwayError(Exception):
    """Nothing answers on the socket, so no request was in flight there."""


class EngineDiedError(Exception):
    """The connection broke while the engine held the batch: every unit without an answer is a suspect.

    `answering`: it had accepted the batch, and not only the connection. A killed engine still accepts connections until
    the kernel has closed its sockets.
    """

    def __init__(self, why: str, *, answering: bool) -> None:
        super().__init__(why)
        self.answering = answering


class EngineRefusedError(Exception):
    """The engine refuses the request: a bug of ours, or another version. Not retried."""


class EngineClient:
    """One engine. Requests may run side by side. Until it is closed, the engine knows that it is needed, also between
    two requests and without a daemon: it asks the kernel who holds its liveness file."""

    def __init__(self, endpoint: EngineEndpoint) -> None:
        self.endpoint = endpoint
        self.claims = contextlib.ExitStack()
        if endpoint.folder:
            with contextlib.suppress(OSError):  # the engine has gone already, or the file system has no locks
                claimed = os.open(Path(endpoint.folder, "live"), os.O_RDONLY | os.O_CLOEXEC)
                self.claims.callback(os.close, claimed)
                process_locks.hold(claimed, shared=True)
        self.died = False

    async def ask(self, batch: Batch) -> AsyncIterator[Generated | Scored]:
        """Yield the answers of a batch in the order in which they finish. Raises the errors above."""
        decoder: msgspec.json.Decoder[Generated | Scored]
        decoder = msgspec.json.Decoder(Scored if batch.route == "/v1/score" else Generated)
        response, answering = ResponseReader(), False
        try:
            async with self.asked(batch) as reader:
                begun = b""
                while response.in_head:
                    begun = response.receive(await reader.read(READ_BYTES))
                pieces = body(reader, response, begun)
                await check(response, pieces)
                answering = True
                async for line in lines(pieces):
                    yield read(decoder, line)
        except (OSError, NotHttpError) as error:
            raise EngineDiedError(str(error) or type(error).__name__, answering=answering) from error
        if batch.waiting:
            raise EngineDiedError("the answer ended early", answering=True)

    @contextlib.asynccontextmanager
    async def asked(self, batch: Batch) -> AsyncIterator[asyncio.StreamReader]:
        """Send a batch on a connection of its own, and yield what the answer is read from. Raises EngineAwayError."""
        try:
            async with asyncio.timeout(TAKEN_S):
                reader, writer = await asyncio.open_unix_connection(self.endpoint.socket)
        except OSError as error:
            raise EngineAwayError(str(error)) from error
        try:
            writer.write(request_bytes("POST", batch.route, {"host": "engine"}, batch.body))
            try:
                async with asyncio.timeout(TAKEN_S):
                    await writer.drain()
            except TimeoutError as error:
                raise EngineAwayError("it does not take the request") from error
            yield reader
        finally:
            writer.close()

    async def ended_from_outside(self) -> bool:
        """Whether it was killed from outside, so that no sample is to blame: by the record of its shim, which is
        written when it has ended. A kill by the daemon, which is announced in the engine's folder, does not count. A
        relay does not end because of a sample."""
        if self.endpoint.relay:
            return True
        record = Path(self.endpoint.folder, "record.json")
        for _ in range(RECORD_LOOKS if self.endpoint.folder else 0):
            found = worker_process.read_record(record)
            if found is None:
                return False
            if found.done or not worker_process.is_same(found.shim, found.shim_start):
                final = worker_process.read_record(record)
                return engine_cause(final) == "outside" and not record.with_name(DOOMED).exists()
            await asyncio.sleep(RECORD_LOOK_S)
        return False

    def close(self) -> None:
        self.claims.close()


async def body(reader: asyncio.StreamReader, response: ResponseReader, begun: bytes) -> AsyncIterator[bytes]:
    """Yield the pieces of a response's body; `begun` came with its head."""
    yield begun
    while not response.ended:
        yield response.receive(await reader.read(READ_BYTES))


async def lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a body, without empty ones. Bytes are split at line feeds only: a text may hold any other
    character that some readers take for a line end."""
    begun: list[bytes] = []
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            begun.append(line)
            if joined := b"".join(begun):
                yield joined
            begun.clear()
        begun.append(rest)
    if last := b"".join(begun):
        yield last


def read(decoder: "msgspec.json.Decoder[Generated | Scored]", line: bytes) -> Generated | Scored:
    """Decode one answer. Raises EngineRefusedError if it is none of this version's."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineRefusedError(f"an answer of the engine cannot be read: {error}") from error


async def check(response: ResponseReader, pieces: AsyncIterator[bytes]) -> None:
    """Accept a 200 response. Raises EngineBusyError for 429, EngineAwayError for 503, EngineRefusedError for any other
    status."""
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise EngineBusyError(float(response.headers.get("retry-after", BUSY_RETRY_S)))
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise EngineAwayError("the engine is stopping")
    if response.status != HTTPStatus.OK:
        text = b"".join([piece async for piece in pieces]).decode(errors="replace")
        raise EngineRefusedError(f"the engine answered {response.status}: {text[:500]}")
