"""Logs as streams: the last lines, or from a time or an offset on, then what is added, each piece with its offset.

A job's log includes the events of the job and of its engines, and continues with its next attempt.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

from rwkv_daemon.changes import event_bus
from rwkv_daemon.changes.records import Records
from rwkv_daemon.logs.log_reader import LogPiece, read_piece, start_of_tail
from rwkv_daemon.logs.tailer import LogTail, LogTails
from rwkv_daemon.logs.timestamps import LogTimes, seconds, times_path
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.store.queries.engines import get_engine
from rwkv_daemon.store.queries.jobs import get_job
from rwkv_daemon.store.queries.pauses_attempts import StoredEvent, engine_events, job_events, named
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.requests import LogsRequest
from rwkvctl.protocol.states import ACTIVE, TERMINAL

HEARTBEAT_S = 15.0
"""A follower without new text gets an empty piece at this interval: it shows whether the client is still connected."""
NEXT_ATTEMPT_S = 1.0
BEGUN_S = 0.1
MOST_EVENTS = 200


async def stream(work: NodeWork, tails: LogTails, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """Stream the log of a job, an engine, or the daemon. Raises RefusedError."""
    target = request.target
    number = int(target[1:]) if target[1:].isdecimal() and len(target) < 18 else 0
    if target == "daemon":
        source = daemon_log(work.records, request)
    elif target.startswith("e") and await get_engine(work.records.store, number):
        source = engine_log(work, tails, number, request)
    elif target.startswith("j") and await get_job(work.records.store, number):
        source = job_log(work, tails, number, request)
    else:
        raise RefusedError("no-such-log", f"There is no job or engine {target}.", "", Exit.NOT_FOUND)
    async for chunk in source:
        yield chunk


async def daemon_log(records: Records, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """Yield the node's events as lines, followed by live ones if asked to."""
    kept = await event_bus.newest(records.store, max(0, min(request.tail, 10_000)))
    first = records.bus.last if not kept else kept[-1].seq
    for event in kept:
        if event.at >= request.since:
            yield told(event)
    live = event_bus.stream(records.bus, records.store, since=first, follow=request.follow, session="")
    async for event in live:
        if event.text or event.kind == "heartbeat":
            yield told(event)


def told(event: Event) -> LogChunk:
    """Return an event as a line of the daemon's log; a heartbeat becomes an empty piece."""
    text = "" if event.kind == "heartbeat" else f"{event.at} {named(event.job, event.text or event.kind)}\n"
    return LogChunk(source="daemon", text=text, at=event.at)


async def engine_log(work: NodeWork, tails: LogTails, number: int, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """Yield an engine's events and its log."""
    log = LogFollower(work, tails, f"e{number}", number)
    for chunk in earlier_events(await log.happened(), request):
        yield chunk
    async for chunk in log.pieces(request):
        yield chunk


def earlier_events(happened: Iterable[StoredEvent], request: LogsRequest) -> list[LogChunk]:
    """Return earlier events as lines; for a reader that continues, only those after `since`."""
    if request.offset >= 0:
        return [line_of(event) for event in happened if request.since and event.at > request.since]
    return [line_of(event) for event in happened if event.at >= request.since]


def line_of(event: StoredEvent) -> LogChunk:
    """Return a stored event of a job or engine as a line of its log."""
    return LogChunk(source="daemon", text=f"{event.at} {event.text}\n", at=event.at)


async def job_log(work: NodeWork, tails: LogTails, number: int, request: LogsRequest) -> AsyncIterator[LogChunk]:
    """Yield one attempt after the other, until the job ends. Events between two attempts, when no log is followed, or
    as the last one ends, are read from the store."""
    if request.follow:
        await until_begun(work.records, work.running, number)
    job = await get_job(work.records.store, number)
    assert job is not None
    attempt = request.attempt or job.attempt  # 0: not started yet; wait for its first log
    log = LogFollower(work, tails, f"j{number}", number, attempt)
    for chunk in earlier_events(await log.happened(), request):
        yield chunk
    while True:
        async for chunk in log.pieces(request):
            yield chunk
        if not request.follow:
            return
        while (following := await next_attempt(work.records, work.running, number, attempt)) == attempt:
            for chunk in [*map(line_of, await log.happened()), LogChunk(source=f"j{number}", text="", attempt=attempt)]:
                yield chunk
        for event in await log.happened():
            yield line_of(event)
        if not following:
            return
        attempt, request = following, whole(request)
        log = LogFollower(work, tails, f"j{number}", number, attempt, log.seen)


async def until_begun(records: Records, running: RunningJobs, number: int) -> None:
    """Wait while an attempt is stored and its runner not started yet: it would look like one that has ended."""
    deadline = time.monotonic() + HEARTBEAT_S
    while number not in running.runners and time.monotonic() < deadline:
        job = await get_job(records.store, number)
        if job is None or job.state != "starting":
            return
        await asyncio.sleep(BEGUN_S)


def whole(request: LogsRequest) -> LogsRequest:
    """Return the request for a following attempt's log, which is sent from its beginning."""
    return LogsRequest(target=request.target, offset=0, follow=request.follow, timestamps=request.timestamps)


async def next_attempt(records: Records, running: RunningJobs, number: int, attempt: int) -> int:
    """Return the attempt after this one, once it runs or has run; 0 if the job is over; the same one after a
    heartbeat's time. An attempt that is being started is waited for, as its log would look like that of one that has
    ended."""
    deadline = time.monotonic() + HEARTBEAT_S
    while time.monotonic() < deadline:
        handle = running.runners.get(number)
        if handle is not None and handle.attempt > attempt:
            return attempt + 1
        job = await get_job(records.store, number) if handle is None else None
        if job is not None and job.attempt > attempt and job.state not in ACTIVE:
            return attempt + 1
        if job is not None and job.state in TERMINAL:
            return 0
        await asyncio.sleep(NEXT_ATTEMPT_S)
    return attempt


@dataclass(slots=True)
class LogFollower:
    """One follower of one log file. `seen` is the last event that was sent with it."""

    work: NodeWork
    tails: LogTails
    source: str
    number: int
    attempt: int = 1
    seen: int = 0

    @property
    def is_job(self) -> bool:
        return self.source.startswith("j")

    @property
    def path(self) -> Path:
        if self.is_job:
            return self.work.records.folder(self.number).log(self.attempt)
        return self.work.records.engine_folder(self.number) / "log.txt"

    def lives(self) -> bool:
        """Return whether the engine or attempt that writes the log is still live."""
        if not self.is_job:
            return self.number in self.work.engines.live
        handle = self.work.running.runners.get(self.number)
        return handle is not None and handle.attempt == self.attempt

    def concerns(self, event: Event) -> bool:
        """Whether an event is sent with this log: of the job, or of an engine that it uses, but not of another job."""
        if self.source in {event.job, event.engine}:
            return True
        handle = self.work.running.runners.get(self.number) if self.is_job and event.engine and not event.job else None
        return handle is not None and int(event.engine[1:]) in {handle.engine, *handle.endpoints}

    async def happened(self) -> list[StoredEvent]:
        """Return the stored events since the last one that was sent: none is sent twice, and none is left out."""
        read = job_events if self.is_job else engine_events
        found = await read(self.work.records.store, self.number, MOST_EVENTS, self.seen)
        self.seen = found[-1].seq if found else self.seen
        return found

    async def pieces(self, request: LogsRequest) -> AsyncIterator[LogChunk]:
        """Yield the file from the requested place on, then what is added while it may grow."""
        times = LogTimes(times_path(self.path))
        offset = await asyncio.to_thread(self.begin, request, times)
        if not request.follow:
            end = await asyncio.to_thread(size_of, self.path)
            while offset < end and (piece := await asyncio.to_thread(read_at, self.path, offset)).data:
                offset = piece.end
                for chunk in self.chunks(piece, times, request):
                    yield chunk
            return
        with self.tails.follow(self.path, self.lives, self.concerns) as tail:
            async for news in self.live(tail, offset):
                for chunk in [line_of(news)] if isinstance(news, StoredEvent) else self.chunks(news, times, request):
                    yield chunk

    def begin(self, request: LogsRequest, times: LogTimes) -> int:
        """Return the byte to begin at. Called in a thread."""
        times.read()
        if request.offset >= 0:
            return request.offset
        return times.offset_at(seconds(request.since)) if request.since else start_of_tail(self.path, request.tail)

    async def live(self, tail: LogTail, offset: int) -> AsyncIterator[LogPiece | StoredEvent]:
        """Yield pieces as they come, with events among them; an empty piece once everything has been sent, and as a
        heartbeat. The event bus only tells that there are events; they are read from the store, as some come while
        nobody listens."""
        told = False
        while True:
            turned, over = tail.turned, tail.over
            if heard := {
                event.seq: StoredEvent(event.seq, event.at, event.text if self.is_job else named(event.job, event.text))
                for event in tail.said
                if event.seq > self.seen
            }:
                for event in sorted((heard | {event.seq: event for event in await self.happened()}).values()):
                    yield event
                self.seen = max(self.seen, *heard)
            piece = await tail.next(offset)
            if piece.data:
                offset = piece.end
                yield piece
            elif over:
                return
            elif not told:
                told = True
                yield piece
            else:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await turned.wait()
                except TimeoutError:
                    yield piece

    def chunks(self, piece: LogPiece, times: LogTimes, request: LogsRequest) -> list[LogChunk]:
        """Return a piece as it is sent: with a line for missing bytes before it, and with `timestamps` each part has
        its time."""
        found = []
        if piece.dropped:
            text = f"… {piece.dropped:,} bytes were dropped here: the log was over log_cap_bytes …\n"
            found.append(LogChunk(source="daemon", text=text, attempt=self.attempt, offset=piece.start))
        parts = [(piece, "")]
        if request.timestamps and piece.data:
            times.read()
            parts = list(times.split(piece, time.time()))
        for part, at in parts:
            text = part.data.decode(errors="replace")
            found.append(LogChunk(source=self.source, text=text, attempt=self.attempt, offset=part.end, at=at))
        return found


def read_at(path: Path, offset: int) -> LogPiece:
    """Return the piece of a closed file at an offset."""
    try:
        with path.open("rb") as file:
            return read_piece(file.fileno(), offset)
    except FileNotFoundError:
        return LogPiece(offset, b"")


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
