"""The funnel of a recipe as rows: a row for each stage, one below for each reason why something was dropped; and what
lies behind a row. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell
from rwkvctl.protocol.recipes import FunnelStageView, RecipeView
from rwkvctl.text.quantities import count
from rwkvctl.tui.samples.filter import NOTHING, SampleFilter
from rwkvctl.tui.widgets.table_columns import Column

ORIGINALS: Final = frozenset({"sample", "right", "verdicts"})
"""Stages that count samples of the jobs that sample."""
REWRITINGS: Final = frozenset({"rewrite", "check again"})
"""Stages that count the same after the writer has rewritten them."""
SPLIT: Final = "split"
"""The stage that counts completions of which variants are made."""
REASONS: Final[Mapping[str, SampleFilter]] = {
    "wrong": SampleFilter().typing("reason:=wrong"),
    "no answer": SampleFilter().typing('reason:="no answer"'),
    "timeout of the grader": SampleFilter().typing("reason:=timeout"),
    "not judged": SampleFilter().typing("reason:=unjudged"),
    "error of the grader": SampleFilter().typing("reason:=error"),
    "cut off": SampleFilter(kind="cut off").typing("reason:=right"),
    "error": SampleFilter().typing("reason:=error"),
    "failed": SampleFilter().typing("reason:=error"),
    "form": SampleFilter().typing("reason:=form"),
    "not copied faithfully": SampleFilter().typing("reason:=unfaithful"),
}
"""Which samples of a job a stage drops for a reason."""


class FunnelRow(NamedTuple):
    """A stage; or with a reason, how many of the stage were dropped because of it."""

    place: int
    stage: FunnelStageView
    reason: str = ""

    @property
    def key(self) -> str:
        return f"{self.place} {self.reason}"

    @property
    def dropped(self) -> int:
        return self.stage.dropped[self.reason] if self.reason else sum(self.stage.dropped.values())


class Behind(NamedTuple):
    """What enter shows of a row: samples of one of `jobs`, narrowed; the `jobs` themselves where nothing narrows them;
    what a `command` prints; or why there is nothing to show."""

    jobs: tuple[str, ...] = ()
    narrowed: SampleFilter | None = None
    command: tuple[str, ...] = ()
    why_nothing: str = ""


def rows_of(recipe: RecipeView) -> list[FunnelRow]:
    """Return the stages in their order, each with its reasons below it, the commonest first."""
    return [
        row
        for place, stage in enumerate(recipe.funnel)
        for row in (FunnelRow(place, stage), *(FunnelRow(place, stage, reason) for reason in stage.dropped))
    ]


def of_stage(value: int, row: FunnelRow) -> str:
    return "" if row.reason else count(value)


COLUMNS: Final[tuple[Column[FunnelRow], ...]] = (
    Column("STAGE", lambda row: Cell(row.stage.name, "dim" if row.reason else "bold"), 22, least=14, grow=1),
    Column("OF", lambda row: "" if row.reason else row.stage.unit, 11, rank=2),
    Column("IN", lambda row: of_stage(row.stage.rows_in, row), 10, least=8, right=True,
           value=lambda row: row.stage.rows_in),
    Column("OUT", lambda row: of_stage(row.stage.rows_out, row), 10, least=8, right=True,
           value=lambda row: row.stage.rows_out),
    Column("DROPPED", lambda row: Cell(count(row.dropped), "" if row.reason else "dim"), 10, least=8, right=True,
           value=lambda row: row.dropped),
    Column("BECAUSE", lambda row: Cell(row.reason, "warn"), 28, least=16, grow=2),
)  # fmt: skip


def behind(row: FunnelRow, recipe: RecipeView) -> Behind:
    """Return what lies behind a row of a recipe's funnel."""
    stage, reason = row.stage.name, row.reason
    if stage == "clean" and reason:
        return Behind(command=("recipe", "show", recipe.recipe, "--dropped"))
    if stage not in ORIGINALS | REWRITINGS | {SPLIT}:
        return Behind(why_nothing=f"No list shows what the stage {stage} counts: it counts {row.stage.unit}.")
    jobs = jobs_of(stage, recipe)
    if not jobs:
        return Behind(why_nothing=f"The jobs of the stage {stage} were deleted.")
    if not reason:
        return Behind(jobs)
    if stage == SPLIT:  # it counts problems, of each of which the job has three samples
        return Behind(jobs, NOTHING)
    narrowed = REASONS.get(reason)
    if narrowed is None:
        return Behind(why_nothing=f"No list shows only these ({reason}); enter on the stage shows its jobs.")
    return Behind(jobs, narrowed)


def jobs_of(stage: str, recipe: RecipeView) -> tuple[str, ...]:
    """Return the jobs whose samples a stage counts. Before a recipe is done, its first stage counts the jobs that still
    sample: a rewriting takes the place of its job."""
    sources = recipe.sources
    if stage == SPLIT:
        found = [one.job for one in sources if one.variants]
    elif stage in REWRITINGS:
        found = [one.job for one in sources if one.rewrites and not one.variants]
    elif recipe.state == "done":
        found = [one.rewrites or one.job for one in sources if not one.variants]
    else:
        found = [one.job for one in sources if not one.rewrites]
    return tuple(dict.fromkeys(found))


def job_lines(jobs: Sequence[str], recipe: RecipeView) -> list[str]:
    """Return jobs of a recipe as lines of a menu: the name, and what it measured of which model. The model of a job
    that was rewritten is not known."""
    known = {one.rewrites: f"{one.benchmark} {one.kind}" for one in recipe.sources}
    known |= {one.job: f"{one.model} {one.benchmark} {one.kind}" for one in recipe.sources}
    return [f"{job}  {known[job]}" for job in jobs]
