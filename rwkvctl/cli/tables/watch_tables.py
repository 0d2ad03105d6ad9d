"""Tables of watched folders: replies of the daemon as rows to draw."""

from collections.abc import Iterable, Mapping
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table, clock
from rwkvctl.protocol.training.watches import FINAL_STEP, WatchRules
from rwkvctl.text.quantities import several

STATES: Final[Mapping[str, Role]] = {
    "parked": "bad", "vanished": "warn", "settling": "info", "ready": "info", "dispatched": "ok", "done": "ok",
    "superseded": "dim",
}  # fmt: skip
"""The states, those first that an operator is to see."""


def watches(items: Iterable[Record]) -> Table:
    """Return a table of watched folders, one line each."""
    columns = [
        Column("WATCH"), Column("STATE"), Column("SEEN", right=True), Column("PARKED", right=True),
        Column("OPEN", right=True), Column("DONE", right=True), Column("LEFT OUT", right=True),
        Column("FOLDER", cut="middle"), Column("NAME", cut="end", wide=True), Column("POLICY", wide=True),
        Column("WHO", wide=True), Column("CREATED", wide=True), Column("DETAIL", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for item in items:
        counts = item.get("counts", {})
        some = [sum(counts.get(state, 0) for state in states) for states in COUNTED]
        parked = Cell(f"{some[1]:,}", "bad" if some[1] else "", str(some[1]))
        rows.append([
            item["watch"], state_cell(item), *number_cells(some[:1]), parked, *number_cells(some[2:]), item["root"],
            item["name"], policy(item), item.get("who", ""), moment(item.get("created", "")),
            item.get("detail", ""),
        ])  # fmt: skip
    return Table(columns, rows, "no folder is watched; see `rwkvctl help watch add`", name="watch")


COUNTED: Final = (
    tuple(STATES),
    ("parked",),
    ("settling", "ready", "dispatched"),
    ("done",),
    ("superseded", "vanished"),
)


def number_cells(numbers: Iterable[int]) -> list[Cell]:
    return [Cell(f"{number:,}", plain=str(number)) for number in numbers]


def state_cell(item: Record) -> Cell:
    """`watching`, `paused`, or that the folder cannot be read."""
    if item["state"] == "watching" and item.get("detail"):
        return Cell("unreadable", "bad")
    return Cell(item["state"], "warn" if item["state"] == "paused" else "ok")


def policy(item: Record) -> str:
    """Return the policy of a watch in words: `newest`, `all, every 500`."""
    rules = item.get("rules", {})
    every = f", every {rules['every']:,}" if rules.get("every") else ""
    return f"{rules.get('policy', WatchRules().policy)}{every}"


def counted(item: Record) -> str:
    """`14 seen: 1 parked, 1 settling, 11 done, 1 superseded`."""
    counts = item.get("counts", {})
    each = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts.get(state))
    paused = ", paused" if item["state"] == "paused" else ""
    return f"{sum(counts.values()):,} seen{': ' if each else ''}{each}{paused}"


def rules(item: Record) -> list[str]:
    """What a watch measures, and when, as lines."""
    said, found, standard = item.get("selection", {}), item.get("rules", {}), WatchRules()
    of_suite = f"suite {said['suite']}" if said.get("suite") else "every benchmark that its filters select"
    what = ", ".join(said.get("only_datasets", ())) or of_suite
    limit = f", {said['limit']:,} rows" if said.get("limit") else ""
    which = f"{', '.join(found['match'])}: " if found.get("match") else ""
    marker = found.get("marker")
    ready = f"with {marker}" if marker else f"still for {found.get('settle_s', standard.settle_s):,} s"
    most = f", at most {several(found['most_waiting'], 'waiting job')}" if found.get("most_waiting") else ""
    return [
        f"measures {what}{limit}, priority {found.get('priority', standard.priority)}, as {item['name']}-…",
        f"{which}{policy(item)}, {ready}{most}",
    ]


def checkpoints(items: Iterable[Record]) -> Table:
    """Return a table of the checkpoints of a watched folder."""
    columns = [
        Column("CHECKPOINT"), Column("STEP", right=True), Column("STATE"), Column("JOBS", right=True),
        Column("SINCE"), Column("REASON", cut="end"), Column("MODEL", cut="end", wide=True), Column("SEEN", wide=True),
        Column("SHA-256", wide=True), Column("SESSION", wide=True),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["name"],
            step_cell(item.get("step")),
            Cell(item["state"], STATES.get(item["state"], "")),
            f"{len(item.get('jobs', ())) or ''}",
            moment(since(item)),
            item.get("reason", ""),
            item.get("model", ""),
            moment(item.get("seen", "")),
            item.get("sha256", "")[:12],
            item.get("session", ""),
        ]
        for item in items
    ]
    return Table(columns, rows, "no checkpoint is there", name="checkpoint")


def since(item: Record) -> str:
    """Return when a checkpoint came into its state."""
    if item["state"] == "dispatched":
        return str(item.get("dispatched", ""))
    return str(item.get("finished") or (item.get("ready") if item["state"] == "ready" else "") or item.get("seen", ""))


def moment(at: str) -> Cell:
    return Cell(clock(at) if at else "", plain=at)


def step_cell(step: int | None) -> Cell:
    """`1,200`, `final`; empty if the name says none."""
    if step is None:
        return Cell("")
    return Cell("final") if step == FINAL_STEP else Cell(f"{step:,}", plain=str(step))
