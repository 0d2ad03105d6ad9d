"""The runs behind one cell of the matrix, newest first, each with what differs from the one before. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rwkvctl.cli.render import Cell
from rwkvctl.cli.tables.comparison_tables import probability
from rwkvctl.protocol.views import ComparisonView, ScoreView
from rwkvctl.scoreboard.book import Score, score_of
from rwkvctl.text.quantities import count
from rwkvctl.tui.daemon.state import seconds
from rwkvctl.tui.scores.columns import difference, plus_minus, sign, value
from rwkvctl.tui.widgets.table_columns import Column

SHA_SHOWN: Final = 6


class ScoredRun(NamedTuple):
    """One run and the one before it; `against` is the comparison of the two, None while it is unknown."""

    view: ScoreView
    before: str = ""
    against: ComparisonView | None = None

    @property
    def score(self) -> Score:
        """Return the run's score in the form that the matrix uses."""
        return score_of(self.view)


def runs_of(
    views: Sequence[ScoreView], kind: str, compared: Mapping[tuple[str, str], ComparisonView]
) -> list[ScoredRun]:
    """Return the runs of a kind, newest first."""
    own = [view for view in views if view.kind == kind]
    before = [*(view.job for view in own[1:]), ""]
    return [ScoredRun(view, job, compared.get((job, view.job))) for view, job in zip(own, before, strict=False)]


def said(run: ScoredRun) -> str:
    """Return a run's score with the reach of its interval, `74.9 ±2.3`; `–` if there is no value."""
    read = run.score.read()
    half = plus_minus(read) if read else ""
    return (value(read) if read else "–") + (f" ±{half}" if half else "")


def rate(view: ScoreView) -> float | None:
    """Return tokens/s from start to end; None for an interrupted run, since the pause would count as work."""
    known, tokens = view.provenance, view.provenance.get("generated_tokens")
    took = seconds(view.finished) - seconds(str(known.get("started", "")))
    alone = known.get("attempts") == 1 and isinstance(tokens, int) and known.get("started")
    return tokens / took if alone and isinstance(tokens, int) and tokens and took > 0 else None


def prompt(view: ScoreView) -> str:
    """Return the prompt profile and its version, `demo-v1/1`; empty if the score does not record them."""
    known = part(view, "configuration")
    return f"{known.get('profile', '')}/{known.get('profile_version', '')}".strip("/")


def sampling(view: ScoreView) -> str:
    """Return the settings that differ from the benchmark's own, and the limit on rows if there was one."""
    changed = [f"{name}={text}" for name, text in part(view, "settings").items()]
    limit = view.provenance.get("limit")
    return " ".join([*changed, *([f"limit={limit}"] if limit else [])]) or "default settings"


def engine(view: ScoreView) -> str:
    """Return the versions of the engines that generated the samples."""
    engines: Any = view.provenance.get("engines") or []
    return " ".join(sorted({str(one.get("engine_version", "")) for one in engines}))


def part(view: ScoreView, name: str) -> Mapping[str, Any]:
    """Return a table of the provenance; empty if it has none."""
    known = view.provenance.get(name)
    return known if isinstance(known, dict) else {}


def versus(run: ScoredRun) -> Cell:
    """Return `▼ -3.2 p .0002`, or the differences that rule out a comparison."""
    if not run.before:
        return Cell("first", "dim")
    if run.against is None:
        return Cell("…", "dim")
    mark, role = sign(run.against)
    if run.against.difference is None:
        return Cell(f"{mark} {'; '.join(run.against.differs) or run.against.why}", "dim")
    noted = f"  {'; '.join(run.against.noted)}" if run.against.noted else ""
    return Cell(f"{mark} {difference(run.against)} p {probability(run.against.p)}{noted}", role)


def cut_off(run: ScoredRun) -> Cell:
    """Return the number of samples cut off at the token limit."""
    if "imported" in run.view.provenance and not run.view.scored and not run.view.errors:
        return Cell("–", "dim")  # it came without samples
    return Cell(count(run.view.truncated), "warn" if run.view.truncated else "dim")


def value_of(run: ScoredRun) -> float | None:
    """Return the headline value to sort by; None if there is none."""
    read = run.score.read()
    return read.value if read else None


COLUMNS: Final[tuple[Column[ScoredRun], ...]] = (
    Column("RUN", lambda run: Cell(run.view.job, "bold"), 6, right=True,
           value=lambda run: int(run.view.job[1:]) if run.view.job[1:].isdecimal() else 0),
    Column("FINISHED", lambda run: run.view.finished[2:16].replace("T", " "), 14, least=14, rank=5,
           value=lambda run: run.view.finished),
    Column("SCORE ±CI", said, 11, right=True, value=value_of),
    Column("N", lambda run: count(run.view.n), 6, right=True, rank=3, value=lambda run: run.view.n),
    Column("CUT", cut_off, 5, right=True, rank=4, value=lambda run: run.view.truncated),
    Column("TOK/S", lambda run: count(rate(run.view)), 8, right=True, rank=7, value=lambda run: rate(run.view)),
    Column("PROMPT", lambda run: prompt(run.view), 14, least=10, rank=6, cut="middle"),
    Column("SETTINGS", lambda run: sampling(run.view), 30, least=24, rank=8, grow=1),
    Column("SEED", lambda run: str(run.view.provenance.get("seed", "")), 6, right=True, rank=10),
    Column("ENGINE", lambda run: engine(run.view), 7, rank=11),
    Column("WEIGHTS", lambda run: str(run.view.provenance.get("weights_sha256", ""))[:SHA_SHOWN], 7, rank=9),
    Column("CHANGE FROM PREVIOUS RUN (A)", versus, 60, least=34, grow=3),
)  # fmt: skip


def pair_of_runs(runs: Sequence[ScoredRun], targets: Sequence[str]) -> list[str]:
    """Return the older and the newer of two runs, or of one and the one before it; empty if there is no such pair."""
    found = {run.view.job: run for run in runs}
    if len(targets) == 2:
        return sorted(targets, key=list(found).index, reverse=True)
    before = found[targets[0]].before if len(targets) == 1 else ""
    return [before, targets[0]] if before else []
