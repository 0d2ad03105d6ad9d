"""Watched folders and their checkpoints as rows, and what may be done with them. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from rwkvctl.cli.render import Cell, Role
from rwkvctl.protocol.states import WatchedState
from rwkvctl.protocol.training.watches import FINAL_STEP, WatchedView, WatchView
from rwkvctl.text.quantities import count, several
from rwkvctl.text.sanitize import fit
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

MARKS: Final[Mapping[WatchedState, tuple[str, Role]]] = {
    "settling": ("◌", "info"), "ready": ("◔", "info"), "dispatched": ("▸", "ok"), "done": ("✓", "ok"),
    "superseded": ("–", "dim"), "parked": ("✗", "bad"), "vanished": ("?", "warn"),
}  # fmt: skip
"""A sign and a role for each state; the word always stands beside them."""
OPEN: Final[frozenset[WatchedState]] = frozenset({"settling", "ready", "dispatched"})
LEFT_OUT: Final[frozenset[WatchedState]] = frozenset({"superseded", "vanished"})
LONGEST_NAME: Final = 60
LONGEST_COMMAND: Final = 300
"""Characters of a command that a question shows; it leaves out a longer one."""
CheckpointAction = Literal["retry", "skip"]
EFFECTS: Final[Mapping[CheckpointAction, str]] = {
    "retry": "is read again if that failed, then measured even if the policy leaves it out",
    "skip": "is left out, and its jobs are stopped; once one of them has begun, it cannot be",
}
"""What becomes of checkpoints, in words."""


def number_in(row: WatchView, states: Collection[WatchedState]) -> int:
    """Return how many checkpoints of a folder are in one of these states."""
    return sum(row.counts.get(state, 0) for state in states)


def watch_state_cell(row: WatchView) -> Cell:
    """Return `watching`, `paused`, or that the folder cannot be read."""
    if row.state == "watching" and row.detail:
        return Cell("unreadable", "bad")
    return Cell(row.state, "warn" if row.state == "paused" else "ok")


def parked_cell(row: WatchView) -> Cell:
    parked = number_in(row, {"parked"})
    return Cell(count(parked), "bad" if parked else "dim")


def policy(row: WatchView) -> str:
    """Return which checkpoints are measured: `newest`, `all, every 500`."""
    return row.rules.policy + (f", every {row.rules.every:,}" if row.rules.every else "")


def measured(row: WatchView) -> str:
    """Return what is measured of each checkpoint: the suite, or the benchmarks that were named."""
    suite, benchmarks = row.selection.suite, row.selection.only_datasets
    return f"suite {suite}" if suite else " ".join(benchmarks) or "all that the filters select"


WATCHES: Final[tuple[Column[WatchView], ...]] = (
    Column("WATCH", lambda row: Cell(row.watch, "bold"), 5, value=lambda row: int(row.watch[1:] or 0), right=True),
    Column("STATE", watch_state_cell, 10),
    Column("SEEN", lambda row: count(sum(row.counts.values())), 6, right=True,
           value=lambda row: sum(row.counts.values())),
    Column("OPEN", lambda row: count(number_in(row, OPEN)), 6, right=True, value=lambda row: number_in(row, OPEN)),
    Column("DONE", lambda row: count(number_in(row, {"done"})), 6, right=True,
           value=lambda row: number_in(row, {"done"})),
    Column("PARKED", parked_cell, 6, right=True, value=lambda row: number_in(row, {"parked"})),
    Column("LEFT OUT", lambda row: count(number_in(row, LEFT_OUT)), 8, right=True, rank=3,
           value=lambda row: number_in(row, LEFT_OUT)),
    Column("FOLDER", lambda row: row.root, 24, least=12, grow=2, cut="middle"),
    Column("POLICY", policy, 16, least=8, rank=4),
    Column("MEASURES", measured, 18, least=8, grow=1, rank=2),
    Column("DETAIL", lambda row: Cell(row.detail, "bad"), 24, least=12, grow=2, rank=1),
)  # fmt: skip


def step_text(step: int | None) -> str:
    """Return `1,200`, `final`; a dash if the name says no step."""
    if step is None:
        return "–"
    return "final" if step == FINAL_STEP else f"{step:,}"


def checkpoint_state_cell(row: WatchedView) -> Cell:
    mark, role = MARKS.get(row.state, ("?", "warn"))
    return Cell(f"{mark} {row.state}", role, row.state)


def since(row: WatchedView) -> str:
    """Return when a checkpoint came into its state."""
    at = {"dispatched": row.dispatched, "ready": row.ready}.get(row.state, row.finished)
    return at or row.seen


def day_and_time(stamp: str) -> str:
    """Return `11-29 09:57` of an RFC 3339 stamp."""
    return stamp[5:16].replace("T", " ")


CHECKPOINTS: Final[tuple[Column[WatchedView], ...]] = (
    Column("CHECKPOINT", lambda row: Cell(row.name, "bold"), 18, least=14, grow=1, cut="middle"),
    Column("STEP", lambda row: step_text(row.step), 9, right=True,
           value=lambda row: -1 if row.step is None else row.step),
    Column("STATE", checkpoint_state_cell, 12),
    Column("JOBS", lambda row: count(len(row.jobs)) if row.jobs else "", 5, right=True, rank=2,
           value=lambda row: len(row.jobs)),
    Column("SINCE", lambda row: day_and_time(since(row)), 11, rank=3, value=since),
    Column("REASON", lambda row: row.reason, 30, least=14, grow=3),
)  # fmt: skip


def tally(rows: Sequence[WatchView]) -> str:
    """Return how many folders are watched, and what of them needs an operator: `2 folders, 1 parked, 1 unreadable`."""
    parked, unreadable = sum(number_in(row, {"parked"}) for row in rows), sum(bool(row.detail) for row in rows)
    paused = sum(row.state == "paused" for row in rows)
    said = [several(len(rows), "folder")]
    said += [f"{number:,} {word}" for number, word in
             ((parked, "parked"), (unreadable, "unreadable"), (paused, "paused")) if number]  # fmt: skip
    return ", ".join(said)


def title_of(row: WatchView, shown: int, baseline: str) -> str:
    """Return the title of the checkpoints of a folder, of which `shown` are listed, with its pinned baseline."""
    every = sum(row.counts.values())
    listed = f"{shown:,} of {several(every, 'checkpoint')}" if shown < every else several(every, "checkpoint")
    return f"{row.watch} {row.name}: {listed}, " + (f"baseline {baseline}" if baseline else "no baseline is pinned")


def about(row: WatchView, checkpoint: WatchedView | None) -> list[Pieces]:
    """Return the lines on a folder and the checkpoint under the cursor: why the one cannot be read, and the whole
    reason of the other's state."""
    lines: list[Pieces] = [[(f" {row.detail}", "bad")]] if row.detail else []
    if checkpoint is not None:
        role = MARKS.get(checkpoint.state, ("?", "warn"))[1]
        lines.append([(f" {checkpoint.name}: ", "dim"), (checkpoint.reason or checkpoint.state, role)])
    return lines


def older_contents(rows: Sequence[WatchedView]) -> frozenset[int]:
    """Return the ids of the rows whose file has other content by now: one of the same name was seen later."""
    newest = {row.name: row.id for row in sorted(rows, key=lambda row: row.id)}
    return frozenset(row.id for row in rows if newest[row.name] != row.id)


def question(watch: str, action: CheckpointAction, names: Sequence[str]) -> list[Pieces]:
    """Return the lines of the question before checkpoints are changed: what becomes of them, and the equal command if
    it can be read."""
    what = fit(names[0], LONGEST_NAME, "middle") if len(names) == 1 else several(len(names), "checkpoint")
    command = as_typed(["rwkvctl", "watch", action, watch, *names])
    return [
        [(f"{action.capitalize()} {what} of {watch}?", "title")],
        [("", "")],
        [(f"{action:<9}", "dim"), (EFFECTS[action], "")],
        *([[("same as  ", "dim"), (command, "info")]] if len(command) <= LONGEST_COMMAND else []),
    ]


def pin_question(row: WatchView, checkpoint: WatchedView, baseline: str) -> list[Pieces]:
    """Return the lines of the question before a checkpoint becomes the baseline of its folder, in the place of
    another one if there is one."""
    pattern = pattern_of(row)
    instead = f", and no longer to {baseline}" if baseline and baseline != checkpoint.model else ""
    command = as_typed(["rwkvctl", "baseline", "pin", checkpoint.model, "--for", pattern])
    return [
        [(f"Compare the checkpoints of {row.watch} with {fit(checkpoint.name, LONGEST_NAME, 'middle')}?", "title")],
        [("", "")],
        [("pin      ", "dim"), (f"differences of all models {pattern} refer to {checkpoint.model}{instead}", "")],
        [("same as  ", "dim"), (command, "info")],
    ]


def pattern_of(row: WatchView) -> str:
    """Return the pattern of the names of a folder's models."""
    return f"{row.name}-*"
