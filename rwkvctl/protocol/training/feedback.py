"""Feedback on a checkpoint of a watched folder: what was measured, against the baseline and the best checkpoint so far,
and what it gets wrong."""

from typing import Final, Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Number
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.training.watches import WatchedView
from rwkvctl.protocol.views import ComparisonView, MetricView

RowPartName = Literal["all", "search", "report"]
"""Of which rows a feedback is. A suite that holds rows back shows those of the part `search`; those of `report` are
held back."""

ALPHA: Final = 0.05
"""The error rate of each family of tests in a feedback."""
MOST_ERRORS: Final = 10
"""Error samples of a benchmark."""


class FeedbackRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/watches/{watch}/feedback`: on the checkpoint of this name or step (-1: any), or on the `best` so far;
    else on the newest that is measured. `page`: as Markdown, too."""

    watch: str
    checkpoint: str = ""
    step: Number = -1
    best: bool = False
    page: bool = False


class FeedbackReveal(FeedbackRequest, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/watches/reveal`: the feedback of the rows that are held back; the audit trail says who asked for it."""


class ErrorSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sample that is not right. `was_right`: the other checkpoint, or the baseline, did better on its row; `cut`: the
    token limit ended it. The texts of `question` and `output` are their ends; `command` shows the whole."""

    row: int
    reason: str
    command: str
    repeat: int = 0
    row_id: str = ""
    subject: str = ""
    was_right: bool = False
    cut: bool = False
    expected: str = ""
    answered: str | None = None
    question: str = ""
    output: str = ""


class BenchmarkFeedback(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark and kind of a checkpoint. `value` is the headline `metric` with its interval, null for the reason
    `why_null`. `baseline` and `best`: the comparisons with these (A), null if there is none; `best` is also null of the
    best checkpoint itself. `wrong`: rows that are not right, `lost`: those of them that `lost_against` has right.
    `collapsed`: how it failed altogether; empty if it did not."""

    benchmark: str
    kind: str
    job: str
    metric: str
    value: MetricView
    rows: int
    samples: int
    truncated: int = 0
    no_answer: int = 0
    chance: float | None = None
    why_null: str = ""
    collapsed: str = ""
    warnings: tuple[str, ...] = ()
    baseline: ComparisonView | None = None
    best: ComparisonView | None = None
    wrong: int = 0
    lost: int = 0
    lost_against: str = ""
    errors: tuple[ErrorSample, ...] = ()


class MissingScore(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a checkpoint without a score, and why it has none."""

    job: str
    benchmark: str
    kind: str
    state: str
    why: str = ""


class CheckpointScores(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A measured checkpoint in the overview, with its value of each objective, null where it has none."""

    name: str
    model: str
    state: str
    step: int | None = None
    values: tuple[MetricView | None, ...] = ()
    best: bool = False


class FeedbackReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.feedback/1"):
    """Feedback on a checkpoint. Of `asked` jobs `done` have ended with a score; `missing` are the others, `left_out`
    says what could not be queued at all. `part`: of which rows it is; `alpha`: the error rate of each family of tests.
    `objective`: benchmark and kind by which the best so far is found; `best`: the name of that checkpoint and
    `best_model` its model, empty for the reason `best_why`. `checkpoints`: all that are measured, in the order of their
    steps. `page`: the lines of the same in Markdown, if they were asked for; `looking`: how far it is, if it is not
    there yet."""

    watch: str
    name: str
    checkpoint: WatchedView
    part: RowPartName = "all"
    suite: str = ""
    alpha: float = ALPHA
    baseline: str = ""
    objective: tuple[str, ...] = ()
    best: str = ""
    best_model: str = ""
    best_why: str = ""
    asked: int = 0
    done: int = 0
    missing: tuple[MissingScore, ...] = ()
    left_out: str = ""
    items: tuple[BenchmarkFeedback, ...] = ()
    checkpoints: tuple[CheckpointScores, ...] = ()
    page: tuple[str, ...] = ()
    looking: str = ""
