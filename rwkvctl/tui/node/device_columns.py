"""Devices as rows: a GPU, or the CPU, with what holds it and how busy it is. Pure."""

from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, Role, short_model
from rwkvctl.protocol.views import EngineView, LeaseView
from rwkvctl.text.quantities import bar, percent
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.shell.status_line import engines_on, is_warm, needs_somebody, thousands
from rwkvctl.tui.widgets.chart import spark
from rwkvctl.tui.widgets.table_columns import Column

FULL: Final = 0.95
"""Memory above this share may not be enough for the next batch."""

SHORT: Final = 18
"""Cells for a model's name between its engine and its jobs: enough for what tells most."""

WORDS: Final[dict[str, tuple[str, Role]]] = {
    "free": ("○ free", "dim"), "leased": ("▸ run", "ok"), "busy": ("▸ busy", "info"), "waiting": ("◌ wait", "info"),
    "zombie": ("! zombie", "bad"), "unknown": ("? unknown", "warn"), "warm": ("○ warm", "info"),
}  # fmt: skip
LOADING: Final[dict[str, tuple[str, Role]]] = {
    "starting": ("◌ start", "info"), "loading": ("◌ load", "info"), "unloading": ("◌ unload", "info"),
}  # fmt: skip


class Device(NamedTuple):
    """A lease, its engines, the jobs they serve, and how busy it was."""

    lease: LeaseView
    engines: tuple[EngineView, ...] = ()
    jobs: tuple[str, ...] = ()
    uses: tuple[float, ...] = ()


def devices_of(state: ConsoleState) -> list[Device]:
    """Return the devices of all leases in the daemon's order, each with what runs on it."""
    return [device_of(lease, state) for lease in state.leases.values()]


def device_of(lease: LeaseView, state: ConsoleState) -> Device:
    """Return a device with what runs on it."""
    engines = engines_on(lease, state)
    names = {engine.id for engine in engines}
    jobs = tuple(job.id for job in state.running if job.engine in names)
    return Device(lease, engines, jobs, tuple(state.uses.get(lease.id, ())))


def index(row: Device) -> str:
    """Return the number by which a GPU is known; the lease's id if it has none."""
    return row.lease.index or row.lease.id


def memory_share(row: Device) -> float:
    """Return the used share of the device's memory from 0 to 1; 0 if it is unknown."""
    used, total = row.lease.memory_used_bytes, row.lease.memory_total_bytes
    return used / total if used and total else 0.0


def gib(row: Device) -> str:
    """`93/141`, or what is used where there is no limit."""
    used, total = row.lease.memory_used_bytes, row.lease.memory_total_bytes
    if used is None:
        return "–"
    return f"{used / 2**30:.0f}/{total / 2**30:.0f}" if total else f"{used / 2**30:.1f}"


def figure(value: float | None) -> str:
    """Return a value rounded to a whole number; `–` for None."""
    return "–" if value is None else f"{value:.0f}"


def state_cell(row: Device) -> Cell:
    """Return what a device does, or what is wrong with it."""
    lease = row.lease
    if lease.condition != "ok":
        return Cell(f"! {lease.condition}", "bad" if needs_somebody(lease) else "warn", lease.condition)
    word = next((LOADING[engine.state] for engine in row.engines if engine.state in LOADING), None)
    use = "warm" if lease.use == "leased" and is_warm(row.engines) and not row.jobs else lease.use
    text, role = word or WORDS.get(use, (use, ""))
    return Cell(text, role, use)


def worker(row: Device) -> str:
    """Return the engine with its model and its jobs, or why there is none."""
    if not row.engines:
        return row.lease.why or row.lease.reason or "–"
    first = row.engines[0]
    more = f" +{len(row.engines) - 1}" if len(row.engines) > 1 else ""
    jobs = f" {','.join(row.jobs)}" if row.jobs else ""
    return f"{first.id}{more} {short_model(safe_line(first.model), SHORT)}{jobs}"


def batch(row: Device) -> str:
    """Return how many sequences the engines compute at once, and how many slots they have."""
    if not row.engines:
        return "–"
    return f"{sum(engine.running for engine in row.engines)}/{sum(engine.slots for engine in row.engines)}"


def cache(row: Device) -> float | None:
    """Return the share of prompts whose prefix was in the engines' cache."""
    hits = sum(engine.cache_hits for engine in row.engines)
    asked = hits + sum(engine.cache_misses for engine in row.engines)
    return hits / asked if asked else None


def speed(row: Device) -> float:
    """Return the decode and prefill tokens/s of the device's engines together."""
    return sum(engine.decode_tokens_per_s + engine.prefill_tokens_per_s for engine in row.engines)


def use_role(row: Device) -> Role:
    """Return the role of a device's use; work of other users beside an engine is marked."""
    return "warn" if row.lease.contended else "info"


COLUMNS: Final[tuple[Column[Device], ...]] = (
    Column("GPU", lambda row: Cell(index(row), "bold"), 5, right=True),
    Column("USE", lambda row: Cell(bar(row.lease.utilisation or 0.0, 10), use_role(row)), 10, rank=7, live=True,
           value=lambda row: row.lease.utilisation),
    Column("%", lambda row: percent(row.lease.utilisation, 0), 4, value=lambda row: row.lease.utilisation, right=True,
           name="percent", live=True),
    Column("60 s", lambda row: Cell(spark(row.uses, 12), use_role(row)), 12, rank=5, live=True),
    Column("MEMORY", lambda row: Cell(bar(memory_share(row), 8), "warn" if memory_share(row) > FULL else "info"), 8,
           rank=6, live=True, value=memory_share),
    Column("GiB", gib, 8, value=lambda row: row.lease.memory_used_bytes, right=True, live=True),
    Column("W", lambda row: figure(row.lease.power_w), 4, value=lambda row: row.lease.power_w, right=True, live=True,
           rank=4),
    Column("°C", lambda row: figure(row.lease.temperature_c), 3, value=lambda row: row.lease.temperature_c, right=True,
           rank=3, live=True, name="celsius"),
    Column("STATE", state_cell, 9),
    Column("ENGINE", worker, 18, least=16, grow=1, cut="middle"),
    Column("BATCH", batch, 9, value=lambda row: sum(engine.running for engine in row.engines), right=True, rank=2,
           live=True),
    Column("CACHE%", lambda row: percent(cache(row), 0), 6, value=cache, right=True, rank=8, live=True, name="cache"),
    Column("TOK/S", lambda row: thousands(speed(row)) if row.engines else "–", 7, value=speed, right=True, rank=1,
           live=True, name="speed"),
)  # fmt: skip
