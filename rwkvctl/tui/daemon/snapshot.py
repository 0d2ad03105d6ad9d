"""The node at an earlier second: the GPUs from the daemon's history, what ran, and what had just happened. Pure."""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from rwkvctl.cli.render import Cell, clock
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.gpus import GpuHistoryReply, GpuTrack
from rwkvctl.protocol.record import JobLogView
from rwkvctl.protocol.views import LeaseView
from rwkvctl.text.quantities import duration
from rwkvctl.tui.daemon.state import USES_KEPT, ConsoleState
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

DAY_S: Final = 86400
"""What the daemon records."""

BEFORE_S: Final = USES_KEPT
"""Seconds before the chosen one that are fetched, for the sparks."""

MISSED: Final = 10
"""A second that was not recorded is as the last one before it, so many seconds back."""

UNSAID: Final = "reason not recorded"
SCALE_CELLS: Final = 24


class Snapshot(NamedTuple):
    """An earlier second (since 1970): the devices and events as a state of their own, and the jobs that ran."""

    at: int
    picture: ConsoleState
    jobs: tuple[JobLogView, ...] = ()


JOBS: Final[tuple[Column[JobLogView], ...]] = (
    Column("JOB", lambda row: Cell(row.job, "bold"), 6, right=True),
    Column("MODEL", lambda row: row.model, 18, least=12, grow=1, cut="model"),
    Column("BENCHMARK", lambda row: row.benchmark, 16, least=10, grow=1, cut="middle"),
    Column("KIND", lambda row: row.kind, 12, least=6, rank=3, cut="middle"),
    Column("STARTED", lambda row: clock(row.started), 8, value=lambda row: row.started),
    Column("ENDED", lambda row: clock(row.finished) or "still running", 8, value=lambda row: row.finished),
    Column("WHO", lambda row: row.user or "–", 8, rank=4),
    Column("ENDED AS", lambda row: Cell(row.result or row.state, "" if row.result else "dim"), 22, least=12, grow=1,
           rank=1),
)  # fmt: skip


def picture(now: ConsoleState, reply: GpuHistoryReply, events: Sequence[Event], at: int) -> ConsoleState:
    """Return the node's state at the second `at`: devices as recorded, and the events up to then, newest first."""
    found = ConsoleState(problem="", node=now.node, heard_at=float(at))
    for track in reply.items:
        known = now.leases.get(track.id, LeaseView(id=track.id, index=track.index))
        found.leases[track.id] = lease_at(track, known, at - reply.since)
        found.uses[track.id] = deque((use or 0.0 for use in track.utilisation), maxlen=USES_KEPT)
    found.events.extend(reversed(events))
    return found


def lease_at(track: GpuTrack, known: LeaseView, place: int) -> LeaseView:
    """Return a device as recorded `place` seconds after the start of its track; its use is `unknown` if nothing was
    recorded."""
    place = min(place, len(track.use) - 1)
    place = next((n for n in range(place, max(-1, place - MISSED), -1) if track.use[n]), -1)
    if place < 0:
        empty = LeaseView(id=known.id, index=known.index, name=known.name)
        return msgspec.structs.replace(empty, use="unknown", why="no data recorded at that time")
    return LeaseView(
        id=known.id, index=known.index, name=known.name, use=track.use[place], condition=track.condition[place],
        memory_total_bytes=known.memory_total_bytes, memory_used_bytes=track.memory_used_bytes[place],
        utilisation=track.utilisation[place], power_w=track.power_w[place], temperature_c=track.temperature_c[place],
        why=UNSAID if track.use[place] in {"zombie", "unknown"} else "",
    )  # fmt: skip


def bar(at: int, now: float, jobs: int, *, wide: bool) -> Pieces:
    """Return the line that marks the past: the second shown, how long ago it was, and its place in the last day."""
    ago = max(0.0, now - at)
    place = round((SCALE_CELLS - 1) * (1 - min(1.0, ago / DAY_S)))
    scale = "┄" * place + "●" + "┄" * (SCALE_CELLS - 1 - place)
    said: list[tuple[str, str]] = [
        (" PAST ", "badge"), (f" {stamp_ms(at)[5:19].replace('T', ' ')} UTC", "bold"),
        (f" · {duration(ago)} ago · {jobs} jobs ran ", "warn"),
    ]  # fmt: skip
    if wide:
        said += [(" −24h ", "dim"), (scale, "info"), (" now ", "dim")]
    return [
        *said,
        (" ← →", "accent"),
        (" minute", "dim"),
        (" ⇧", "accent"),
        (" ten", "dim"),
        (" End", "accent"),
        (" live", "dim"),
    ]


def stamp_ms(at: float) -> str:
    """Return a time as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def within(at: float, now: float) -> int:
    """Return a time if history may cover it. Raises ValueError with a sentence if it is too long ago or in the
    future."""
    if at > now:
        raise ValueError("that time is in the future; give a time like 02:58, or an age like -2h")
    if at < now - DAY_S:
        raise ValueError("GPU data is kept for 24 hours only; for older events press E, then &")
    return int(at)
