"""Recipes as rows of a list, and what is said of the one under the cursor. Pure."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import to_builtins

from rwkvctl.cli.render import Cell, Role
from rwkvctl.cli.tables.judge_tables import payment_line
from rwkvctl.protocol.endpoints import WRITER
from rwkvctl.protocol.recipes import RecipeView
from rwkvctl.protocol.replies import EndpointsReply
from rwkvctl.protocol.states import RecipeState
from rwkvctl.protocol.views import JudgeView
from rwkvctl.text.quantities import count, several
from rwkvctl.tui.node import judge_columns
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

MARKS: Final[Mapping[RecipeState, tuple[str, Role]]] = {
    "waiting": ("◌", "info"), "making": ("▸", "ok"), "paused": ("‖", "warn"), "done": ("✓", "ok"),
    "failed": ("✗", "bad"), "stopped": ("‖", "dim"),
}  # fmt: skip
"""A sign and a role for each state; the word always stands beside them."""
Action = Literal["pause", "stop", "resume"]
EFFECTS: Final[Mapping[Action, str]] = {
    "pause": "nothing is queued and no rows are made until it is resumed; jobs that only it waits for are paused",
    "stop": "no rows are made; its jobs continue, also those that were paused with it (p pauses recipe and jobs)",
    "resume": "it is taken up; its jobs continue, and the writer may be paid",
}
"""What becomes of a recipe, in words."""
NAMED: Final = 8
"""Jobs that are named; of more than these the states are counted."""
AT_WORK: Final[frozenset[RecipeState]] = frozenset({"waiting", "making"})
NO_WRITER: Final = "no writer is configured: table [writer] in config.toml"


def key_of(row: RecipeView) -> str:
    """Return the name of a recipe, which keeps its row: `r3`."""
    return row.recipe


def state_cell(row: RecipeView) -> Cell:
    """Return the state with its sign."""
    mark, role = MARKS.get(row.state, ("?", "warn"))
    return Cell(f"{mark} {row.state}", role, row.state)


def takes(row: RecipeView) -> str:
    """Return the jobs whose samples a recipe takes, or the rows that it mixes."""
    return " ".join(row.jobs or row.mixes)


RECIPES: Final[tuple[Column[RecipeView], ...]] = (
    Column("RECIPE", lambda row: Cell(row.recipe, "bold"), 6, value=lambda row: int(row.recipe[1:] or 0), right=True),
    Column("NAME", lambda row: row.name, 16, least=10, grow=1, cut="middle"),
    Column("STATE", state_cell, 10),
    Column("ROWS", lambda row: count(row.rows) if row.state == "done" else "–", 9, least=7,
           value=lambda row: row.rows, right=True),
    Column("TAKES", takes, 14, least=8, grow=1, rank=1),
    Column("CREATED", lambda row: row.created[2:16].replace("T", " "), 14, rank=2),
    Column("DETAIL", lambda row: row.detail or "–", 30, least=14, grow=3),
)  # fmt: skip


def tally(rows: Sequence[RecipeView], *, more: bool) -> str:
    """Return how many recipes there are, at work, and paused: `12 recipes, 2 at work, 1 paused`. `more`: there are
    older ones that were not read."""
    working, paused = sum(row.state in AT_WORK for row in rows), sum(row.state == "paused" for row in rows)
    found = f"the newest {len(rows):,} recipes" if more else several(len(rows), "recipe")
    return found + (f", {working} at work" if working else "") + (f", {paused} paused" if paused else "")


def about(row: RecipeView, endpoints: EndpointsReply | None) -> list[Pieces]:
    """Return the lines on a recipe: what it does or waits for, what it has paid, and the jobs that it takes.
    `endpoints`: None until they are known."""
    mark, role = MARKS.get(row.state, ("?", "warn"))
    state: list[tuple[str, str]] = [(f" {mark} {row.state}", role)]
    state += [(f": {row.detail}", "" if role != "bad" else "bad")] if row.detail else []
    state += [(f": {several(row.rows, 'row')}", "bold")] if row.state == "done" else []
    lines: list[Pieces] = [state]
    lines += [[(" paid to  ", "dim"), (payment_line(to_builtins(one)), "")] for one in row.paid]
    if endpoints is not None and uses_writer(row):
        writer = next((item.service for item in endpoints.items if item.name == WRITER), None)
        lines += writer_lines(writer, is_paid=any(one.to == WRITER for one in row.paid))
    return lines + ([[(" takes    ", "dim"), (names, "")]] if (names := what_it_takes(row)) else [])


def what_it_takes(row: RecipeView) -> str:
    """Return the rows that a recipe mixes, or its jobs: how many there are in each state, and those not done first."""
    if row.parts:
        return ", ".join(f"{part.name} {part.state} {count(part.rows)} rows" for part in row.parts)
    if not row.sources:
        return takes(row)
    ordered = sorted(row.sources, key=lambda one: one.state == "done")
    named = [f"{one.job} {one.state} {count(one.done)}/{count(one.samples)}" for one in ordered[:NAMED]]
    states = Counter(one.state for one in row.sources)
    tallied = [f"{number:,} {state}" for state, number in states.items()] if len(ordered) > NAMED else []
    return ", ".join(named) + (f" … of {len(ordered):,} jobs: {', '.join(tallied)}" if tallied else "")


def uses_writer(row: RecipeView) -> bool:
    """Return whether a writer rewrites or splits samples of a recipe."""
    if any(one.rewrites for one in row.sources):
        return True
    try:
        said = tomllib.loads(row.toml)
    except ValueError:  # it was written for another version, or was not read yet
        return False
    pairs = said.get("pairs")
    rules = pairs.get("rules") if isinstance(pairs, dict) else None
    return "rewrite" in said or (isinstance(rules, list) and any(str(rule).startswith("fcs") for rule in rules))


def writer_lines(writer: JudgeView | None, *, is_paid: bool) -> list[Pieces]:
    """Return whether there is a writer, which limits it has until a recipe has paid it, and why it waits if it does."""
    if writer is None:
        return [[(" writer   ", "dim"), (NO_WRITER, "warn")]]
    limits = f"{writer.model}: nothing is paid yet; {judge_columns.budget(writer)}"
    said: list[Pieces] = [] if is_paid else [[(" writer   ", "dim"), (limits, "")]]
    return said + ([[(" waits    ", "dim"), (writer.parked, "warn")]] if writer.parked else [])


def pause_or_resume(row: RecipeView) -> Action:
    """Return what the key does with a recipe: one that does not go on by itself is resumed."""
    return "pause" if row.state in {"waiting", "making", "done"} else "resume"


def question(changes: "Sequence[tuple[RecipeView, Action]]") -> list[Pieces]:
    """Return the lines of the question before recipes are changed: what becomes of them, and the equal commands."""
    names = {action: [row.recipe for row, other in changes if other == action] for action in EFFECTS}
    wanted = {action: " ".join(some) for action, some in names.items() if some}
    title = " and ".join(f"{action} {some}" for action, some in wanted.items())
    commands = "; ".join(f"rwkvctl recipe {action} {row.recipe}" for row, action in changes)
    return [
        [(f"{title[:1].upper()}{title[1:]}?", "title")],
        [("", "")],
        *([(f"{action:<9}", "dim"), (EFFECTS[action], "")] for action in wanted),
        [("loses    ", "dim"), ("nothing: what is sampled and written is kept", "")],
        [("same as  ", "dim"), (commands, "info")],
    ]
