"""GPUs as rows, everything that is known of one of them, and what an operator may decide about it. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

from rwkvctl.cli.render import Cell, Role, clock, joined
from rwkvctl.cli.tables.gpu_tables import ROLES, whose
from rwkvctl.protocol.gpus import GpuAction, GpuHolderView, GpuView
from rwkvctl.text.quantities import count, duration, percent, size
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column


class GpuDecision(NamedTuple):
    """A decision about a GPU; `asks` is what must be given with it, empty for nothing."""

    action: GpuAction
    words: str
    asks: str = ""


DECISIONS: Final = (
    GpuDecision("reserve", "keep it free for other work", "what for"),
    GpuDecision("release", "end the reservation"),
    GpuDecision("drain", "let running work end, start nothing new", "why"),
    GpuDecision("undrain", "let it take new work again"),
    GpuDecision("quarantine", "take it out of use", "why"),
    GpuDecision("unquarantine", "let it take new work again, after the cause is fixed"),
    GpuDecision("forget", "remove it from the inventory: it is no longer in the node"),
)
ONLY_IN: Final[dict[str, frozenset[str]]] = {
    "release": frozenset({"reserved"}), "undrain": frozenset({"draining"}),
    "unquarantine": frozenset({"quarantined", "suspect", "cooldown"}),
}  # fmt: skip
assert {decision.action for decision in DECISIONS} == set(get_args(GpuAction))


def decisions(items: Sequence[GpuView]) -> list[GpuDecision]:
    """Return the decisions that are possible for all of these GPUs."""
    return [decision for decision in DECISIONS if all(is_open(decision, item) for item in items)]


def is_open(decision: GpuDecision, item: GpuView) -> bool:
    """Return whether a decision applies to a GPU in its present condition."""
    if decision.action == "forget":
        return item.use == "unknown"
    if decision.action == "release" and item.reserved_for:
        return True
    needed = ONLY_IN.get(decision.action)
    return item.condition in needed if needed else item.condition == "ok" or decision.action == "quarantine"


def flags(decision: GpuDecision, reason: str) -> list[str]:
    """Return the words of the equal command after the GPUs' names."""
    if not decision.asks:
        return []
    return ["--for" if decision.action == "reserve" else "--reason", reason]


def use_cell(item: GpuView) -> Cell:
    """Return the GPU's use as a cell with a sign before it."""
    sign = {"leased": "●", "busy": "▸", "zombie": "!", "unknown": "?", "waiting": "◌"}.get(item.use, "○")
    return Cell(f"{sign} {item.use}", ROLES.get(item.use, ""), item.use)


def condition_cell(item: GpuView) -> Cell:
    """Return the GPU's condition; any but `ok` is marked with `!`."""
    role: Role = ROLES.get(item.condition, "warn")
    return Cell(item.condition if item.condition == "ok" else f"! {item.condition}", role, item.condition)


def memory(item: GpuView) -> str:
    """Return used and total memory in GiB, `93/141`; `–` if either is unknown."""
    used, total = item.memory_used_bytes, item.memory_total_bytes
    return "–" if used is None or not total else f"{used / 2**30:.0f}/{total / 2**30:.0f}"


def holders(item: GpuView) -> str:
    """Return who holds memory on the GPU, besides rwkvctl's engines."""
    return whose({"holders": [{"user": one.user, "cls": one.cls} for one in item.holders]})


GPUS: Final[tuple[Column[GpuView], ...]] = (
    Column("GPU", lambda item: Cell(item.index, "bold"), 4, right=True),
    Column("USE", use_cell, 9),
    Column("CONDITION", condition_cell, 13),
    Column("GiB", memory, 8, value=lambda item: item.memory_used_bytes, right=True, live=True),
    Column("ENGINE", lambda item: " ".join(item.engines) or "–", 8, rank=2),
    Column("WHOSE", lambda item: holders(item) or "–", 10, least=8, rank=1),
    Column("WHY", lambda item: joined([item.reason, item.why]) or "–", 30, least=16, grow=1),
    Column("SINCE", lambda item: clock(item.since) or "–", 8, rank=3, value=lambda item: item.since),
)


def about(item: GpuView) -> list[Pieces]:
    """Return the detail lines of a GPU: device, use, condition, load, health, and the processes on it."""
    parts = {
        "device": f"{item.name}  {item.id}",
        "use": f"{item.use}{': ' + item.why if item.why else ''}",
        "condition": f"{item.condition}{': ' + item.reason if item.reason else ''}",
        "reserved": joined([item.reserved_for, item.probe_says]),
        "works": f"{percent(item.utilisation, 0)} % of its time, {count(item.power_w)}/{count(item.power_limit_w)} W, "
        f"{count(item.temperature_c)} °C, {count(item.clock_mhz)}/{count(item.clock_max_mhz)} MHz"
        + (f", idle for {duration(item.idle_s)}" if item.idle_s is not None else ""),
        "slowed by": joined(item.throttle),
        "health": f"{count(item.ecc_uncorrected)} uncorrected errors, {item.application_xids} XIDs of programs, "
        f"{item.failures} engines failed here recently",
    }
    lines: list[Pieces] = [[(f" {name:<10} ", "dim"), (text, "")] for name, text in parts.items() if text]
    return lines + [holder_line(holder) for holder in item.holders]


def holder_line(holder: GpuHolderView) -> Pieces:
    """Return a line on a process that holds GPU memory: class, pid, size, user, age and command."""
    facts = f"{size(holder.memory_bytes)}  {holder.user or '–'}  {duration(holder.age_s)}  {holder.command}"
    return [(f" {holder.cls:<10} ", "dim"), (f"pid {holder.pid}", "bold"), (f"  {facts}", "")]
