"""Rows of processes that hold GPUs, the evidence on one of them, and rows of ended ones. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, clock
from rwkvctl.cli.tables.zombie_tables import OUTCOMES, PARTS, ROLES
from rwkvctl.protocol.zombies import ReapedView, RuleView, ZombieView
from rwkvctl.text.quantities import duration, size
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

SIGNS: Final = {"orphan": "!", "defunct": "!", "ghost": "!", "stuck": "!", "ours": "▸"}
WHATS: Final[dict[str, str]] = {
    "ours": "an engine of this daemon, at work or warm",
    "orphan": "left behind by an engine of ours that ended: K reaps it",
    "foreign": "our user's, but not started by this daemon: never ended from here",
    "other-user": "another user's: never ended from here",
    "container": "of a container: never ended from here",
    "protected": "protected: never ended from here",
    "defunct": "dead, but not collected by its parent; it cannot be killed",
    "stuck": "stuck in the kernel; it cannot be killed",
    "ghost": "listed by the driver, but there is no such process",
}
"""What the classes mean."""

PLAN: Final = (
    "a last check, SIGTERM, a wait, SIGKILL; then the driver is asked whether the memory is free, and everything is "
    "recorded. K shows the steps first"
)


class ProcessRow(NamedTuple):
    """A process on one GPU, and how deep it stands under the others in the tree."""

    item: ZombieView
    depth: int = 0


def key(row: ProcessRow) -> str:
    """Return the key of a row. It holds the start time, because the system reuses pids."""
    return f"{row.item.gpu}/{row.item.pid}/{row.item.start_ticks}"


def flat(items: Iterable[ZombieView]) -> list[ProcessRow]:
    """Return rows in the order of the daemon: by GPU."""
    return [ProcessRow(item) for item in items]


def tree(items: Sequence[ZombieView]) -> list[ProcessRow]:
    """Each under its parent, where that holds a GPU, too."""
    pids = {item.pid for item in items}
    below: dict[int, list[ZombieView]] = {}
    for item in items:
        below.setdefault(item.parent if item.parent in pids else 0, []).append(item)
    found: list[ProcessRow] = []
    seen: set[int] = set()
    todo = [ProcessRow(item) for item in reversed(below.get(0, []))]
    while todo:
        row = todo.pop()
        found.append(row)
        if row.item.pid not in seen:  # a process on two GPUs has its children once
            seen.add(row.item.pid)
            todo += [ProcessRow(item, row.depth + 1) for item in reversed(below.get(row.item.pid, []))]
    return found


def what(row: ProcessRow) -> str:
    """The attempt of ours that it belongs to, and its command."""
    branch = "  " * (row.depth - 1) + "└ " if row.depth else ""
    return branch + " ".join(word for word in (row.item.attempt, row.item.command) if word)


def class_cell(row: ProcessRow) -> Cell:
    """Return the class as a cell, with a sign if the process needs attention."""
    return Cell(f"{SIGNS.get(row.item.cls, ' ')} {row.item.cls}", ROLES.get(row.item.cls, ""), row.item.cls)


PROCESSES: Final[tuple[Column[ProcessRow], ...]] = (
    Column("GPU", lambda row: Cell(row.item.index, "bold"), 4, right=True),
    Column("PID", lambda row: Cell(str(row.item.pid), "bold"), 7, value=lambda row: row.item.pid, right=True),
    Column("USER", lambda row: row.item.user or "–", 8, least=6),
    Column("MEMORY", lambda row: size(row.item.memory_bytes), 9, value=lambda row: row.item.memory_bytes, right=True),
    Column("STILL", lambda row: "–" if row.item.still_s is None else duration(row.item.still_s), 6, rank=3, right=True,
           value=lambda row: row.item.still_s, live=True),
    Column("AGE", lambda row: duration(row.item.age_s) if row.item.age_s else "–", 6, right=True, live=True,
           value=lambda row: row.item.age_s),
    Column("PARENT", lambda row: str(row.item.parent or "–"), 7, rank=5, right=True, value=lambda row: row.item.parent),
    Column("CLASS", class_cell, 12, value=lambda row: row.item.cls),
    Column("WHAT", what, 24, least=20, grow=1),
    Column("VERDICT", lambda row: row.item.verdict, 60, least=60, rank=9, grow=3),
)  # fmt: skip

REAPED: Final[tuple[Column[ReapedView], ...]] = (
    Column("ENDED", lambda row: Cell(f"{row.at[5:10]} {clock(row.at)}", "dim"), 14, value=lambda row: row.at),
    Column("PID", lambda row: str(row.pid), 7, value=lambda row: row.pid, right=True),
    Column("OUTCOME", lambda row: Cell(row.outcome, OUTCOMES.get(row.outcome, "")), 11),
    Column("BY", lambda row: row.by or "–", 10, least=8),
    Column("WHAT", lambda row: row.text, 30, grow=1),
)


def census(items: Iterable[ZombieView]) -> list[tuple[str, int]]:
    """Return how many processes of each class; one that holds several GPUs counts once."""
    classes = {item.pid: item.cls for item in items}
    order = [name for name in WHATS if name in classes.values()]
    return [(name, sum(cls == name for cls in classes.values())) for name in order]


def evidence(item: ZombieView) -> list[Pieces]:
    """Return the lines on a process: its class, the evidence by rule, and what can be done."""
    lines: list[Pieces] = [[(f" {item.verdict or WHATS.get(item.cls, item.cls)}.", ROLES.get(item.cls, ""))]]
    part = ""
    for rule in item.rules:
        if rule.part != part:
            part = rule.part
            lines.append([(f" {PARTS[part].lower()}", "title")])
        lines.append(rule_line(rule))
    if item.cls == "orphan":
        lines.append([(" plan ", "title"), (PLAN, "")])
    return lines


def rule_line(rule: RuleView) -> Pieces:
    """One rule: of the class the one that holds counts, of the others those that do not."""
    mark, role = ("✓", "ok") if rule.holds else ("·", "dim") if rule.part == "class" else ("✗", "bad")
    return [(f"  {mark} ", role), (f"{rule.name:<13}", role if role == "bad" else ""), (f" {rule.value}", "dim")]


def why_not(item: ZombieView) -> str:
    """Why the console does not end this process; empty if it may."""
    if item.cls == "orphan":
        return ""
    if item.cls == "foreign":
        who = f"pid {item.pid} was not started by this daemon, so the console never ends it: ask its owner"
        return who + (f"; `{item.command_line}` in a shell ends it, at your own risk." if item.command_line else ".")
    return f"Not ended from here: {item.verdict or WHATS.get(item.cls, item.cls)}."


def question(items: Sequence[ZombieView], plan: Sequence[str], waiting: int) -> list[Pieces]:
    """What reaping these means: each of them, what will be done, what that frees, and what it loses."""
    pids = list(dict.fromkeys(item.pid for item in items))
    title = f"Reap process {pids[0]}?" if len(pids) == 1 else f"Reap {len(pids)} processes?"
    freed = sum(item.memory_bytes or 0 for item in items)
    gpus = " and ".join(dict.fromkeys(f"GPU {item.index}" for item in items))
    queue = f"; {waiting} queued job{'s wait' if waiting > 1 else ' waits'} for memory" if waiting else ""
    return [
        [(title, "title")],
        *[named(item) for item in items],
        [("", "")],
        *[[("will     " if not number else "         ", "dim"), (step, "")] for number, step in enumerate(plan)],
        [("frees    ", "dim"), (f"{size(freed) if freed else 'what the driver holds for it'} on {gpus}{queue}", "")],
        [("loses    ", "dim"), (f"nothing: {lost(items)}", "")],
        *[[("same as  ", "dim"), (command, "info")] for command in dict.fromkeys(map(command_of, items))],
    ]


def named(item: ZombieView) -> Pieces:
    """Return a process as one line of a question."""
    of = f"left by {item.attempt}" if item.attempt else item.command
    facts = f"  GPU {item.index}   {size(item.memory_bytes)}   {of}   started {duration(item.age_s)} ago"
    return [(f"pid {item.pid}", "bold"), (facts, "")]


def lost(items: Sequence[ZombieView]) -> str:
    """Return the words that say why no sample is lost: the attempts that left these processes had ended."""
    names = " and ".join(dict.fromkeys(item.attempt for item in items if item.attempt)) or "its attempt"
    return f"{names} ended before; every sample that was finished is stored"


def command_of(item: ZombieView) -> str:
    """Return the equal command line."""
    return f"rwkvctl reap {item.pid} --start {item.start_ticks} --yes"
