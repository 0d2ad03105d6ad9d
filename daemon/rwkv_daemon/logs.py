"""Log files as streams: the last lines, then what is added, by byte offset so that a reader can go on where it was."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from rwkv_daemon import events
from rwkv_daemon.node import Node
from rwkv_daemon.store.engines import get_engine
from rwkv_daemon.store.jobs import get_job
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.messages import LogChunk, LogsRequest
from rwkvctl.protocol.states import TERMINAL

CHUNK_BYTES = 64 * 1024
LOOK_S = 0.25


async def stream(node: Node, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """The log of a job (with its engine's life), an engine, or the daemon. Raises RefusedError."""
    target = request.target
    if target == "daemon":
        kept = await events.newest(node.store, min(request.tail, 10_000))
        for event in kept[max(len(kept) - max(request.tail, 0), 0) :]:
            yield LogChunk(source="daemon", text=f"{event.at} {event.text or event.kind}\n")
        return
    number = int(target[1:]) if target[1:].isdecimal() and len(target) < 18 else 0
    if target.startswith("e") and await get_engine(node.store, number):
        async for chunk in follow(
            node.engine_folder(number) / "log.txt", target, 1, request, engine_lives(node, number)
        ):
            yield chunk
    elif target.startswith("j") and await get_job(node.store, number):
        async for chunk in job_log(node, number, request):
            yield chunk
    else:
        raise RefusedError("no-such-log", f"There is no job or engine {target}.", "", Exit.NOT_FOUND)


class Lives:
    """Asked between looks: may there be more?"""

    def __init__(self, node: Node, engine: int = 0, job: int = 0) -> None:
        self.node, self.engine, self.job = node, engine, job

    async def __call__(self) -> bool:
        if self.engine:
            return self.engine in self.node.engines
        job = await get_job(self.node.store, self.job)
        return job is not None and job.state not in TERMINAL


def engine_lives(node: Node, number: int) -> Lives:
    return Lives(node, engine=number)


async def job_log(node: Node, number: int, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """One attempt after the other, each headed by what became of the job then."""
    lives = Lives(node, job=number)
    job = await get_job(node.store, number)
    assert job is not None
    attempt = request.attempt or max(job.attempt, 1)
    for event in await job_events(node, number):
        yield LogChunk(source="daemon", text=f"{event}\n")
    while True:
        path = node.folder(number).log(attempt)
        async for chunk in follow(path, f"j{number}", attempt, request, lives, until_attempt=attempt + 1):
            yield chunk
        job = await get_job(node.store, number)
        if not request.follow or job is None or job.attempt <= attempt:
            return
        attempt = job.attempt


async def job_events(node: Node, number: int) -> list[str]:
    """What happened to a job and to the engines it used, one line each."""
    rows = await node.store.all(
        "SELECT at, text FROM event WHERE job = ?1 OR engine IN "
        "(SELECT DISTINCT CAST(SUBSTR(engine, 2) AS INTEGER) FROM completion WHERE job = ?1) ORDER BY seq",
        (number,),
    )
    return [f"{row['at']} {row['text']}" for row in rows if row["text"]]


async def follow(
    path: Path, source: str, attempt: int, request: LogsRequest, lives: Lives, *, until_attempt: int = 0
) -> AsyncIterator[LogChunk]:
    """A file from an offset or its last lines on, and what is added while it may grow."""
    offset = request.offset if request.offset >= 0 else await asyncio.to_thread(start_of_tail, path, request.tail)
    while True:
        alive = await lives()
        data = await asyncio.to_thread(read_from, path, offset)
        if data:
            offset += len(data)
            yield LogChunk(source=source, text=data.decode(errors="replace"), attempt=attempt, offset=offset)
            continue
        job = await get_job(lives.node.store, lives.job) if until_attempt else None
        if not request.follow or not alive or (job is not None and job.attempt >= until_attempt):
            return
        await asyncio.sleep(LOOK_S)


def read_from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return whole_characters(file.read(CHUNK_BYTES))
    except FileNotFoundError:
        return b""


def whole_characters(data: bytes) -> bytes:
    """Without a UTF-8 character that is cut off at the end, unless there is nothing else."""
    for length in range(1, min(4, len(data))):
        lead = data[-length]
        if lead < 0x80:
            break
        if lead >= 0xC0:
            needs = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[:-length] if length < needs else data
    return data


def start_of_tail(path: Path, lines: int) -> int:
    """The byte where the last `lines` lines begin. Reads backwards: logs are long."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            if lines <= 0:
                return end
            position = max(end - 1, 0)  # a line feed that ends the file begins no line
            while position > 0:
                step = min(CHUNK_BYTES, position)
                position -= step
                file.seek(position)
                block = file.read(step)
                index = len(block)
                while (index := block.rfind(b"\n", 0, index)) >= 0:
                    lines -= 1
                    if not lines:
                        return position + index + 1
            return 0
    except FileNotFoundError:
        return 0
