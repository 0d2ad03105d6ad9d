"""Replies of the daemon. Every one has `schema` (name and version), `as_of` (RFC 3339, UTC) and `node`.

`stale_since` is given where the store does not answer: since then it has not, and what is told was true at `as_of`.
"""

from msgspec import Struct

from rwkvctl.protocol.views import (
    BenchmarkView,
    ChangedJob,
    ComparisonView,
    EndpointView,
    EngineView,
    FindingView,
    ImportedView,
    JobView,
    JudgeView,
    LeaseView,
    MetricView,
    ModelView,
    PaidView,
    PauseView,
    PlanRow,
    PointView,
    RecipeAtWork,
    SameView,
    SampleView,
    ScoreView,
    SuiteView,
)


class Reply(Struct, frozen=True, kw_only=True, tag_field="schema"):
    """What every reply carries besides its own fields; `schema` is written first."""

    as_of: str = ""
    node: str = ""
    stale_since: str = ""


class InfoReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.info/1"):
    """Who answers, and which protocol versions it speaks.

    `temporary_folder`: where its engines put temporary files; empty if none can be written, and then no engine starts.
    """

    version: str
    api_min: int
    api_max: int
    pid: int
    home: str
    started: str
    temporary_folder: str = ""


class ErrorReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.error/1"):
    """A refusal (RFC 9457 in spirit): a stable code, one sentence, and what to do. `exit_code` is the CLI's. `retry`:
    the same request may be answered later, as it is."""

    code: str
    detail: str
    hint: str = ""
    status: int = 400
    exit_code: int = 1
    retry: bool = False


class StatusReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.status/1"):
    """The Overview: what holds what, what runs, what waits and why.

    `eta_s`: when everything that is queued will be done, null while `not_estimated` jobs
    have no history. `pauses`: what is paused by somebody, wider than single jobs. `recipes`: those
    that are not over, paused ones first, at most 20; `recipe_counts`: how many there are in each
    state. Both are empty where one session is asked for. `trouble`: why nothing can be stored now.
    """

    version: str
    uptime_s: float
    counts: dict[str, int]
    leases: tuple[LeaseView, ...]
    engines: tuple[EngineView, ...]
    running: tuple[JobView, ...]
    waiting: tuple[JobView, ...]
    recent: tuple[JobView, ...] = ()
    disk_free_bytes: int = 0
    last_event: int = 0
    notes: tuple[str, ...] = ()
    eta_s: float | None = None
    not_estimated: int = 0
    home: str = ""
    pauses: tuple[PauseView, ...] = ()
    recipes: tuple[RecipeAtWork, ...] = ()
    recipe_counts: dict[str, int] = {}
    trouble: str = ""


class PlanReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.plan/1"):
    """A plan in dispatch order. `hash` covers (generation key, action, reason) of every row, and no estimate.

    `eta_s`: when these rows and all that is queued before them will be done; null while
    `not_estimated` jobs have no history. `paid`: what the judge and the checker would be asked.

    `total`: how many rows the plan has. One page of more holds the rows alone: `hash` is empty, and so are `counts` and
    `actions` (rows by reason and by action) and whatever else is said of all rows; a request with `rows` false asks for
    those. `next` is `after` of the next page, 0 on the last one.
    """

    hash: str
    rows: tuple[PlanRow, ...]
    counts: dict[str, int]
    computed_ms: float
    models: int
    benchmarks: int
    notes: tuple[str, ...] = ()
    eta_s: float | None = None
    not_estimated: int = 0
    paid: tuple[PaidView, ...] = ()
    actions: dict[str, int] = {}
    total: int = 0
    next: int = 0


class DispatchReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.dispatch/1"):
    """The jobs a dispatch queued, and what it left alone. `repeated`: this request id was answered before."""

    session: str
    jobs: tuple[str, ...]
    plan: PlanReply
    repeated: bool = False


class JobsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.jobs/1"):
    """One page of jobs; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[JobView, ...]
    counts: dict[str, int]
    next: int = 0


class JobReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.job/1"):
    """One job. `configuration` is all that is asked and how: stages with their sampling and stops, repeats, few-shot
    examples; empty while a job has no keys. `suite` and `note` are those of its dispatch."""

    item: JobView
    configuration: dict[str, object] = {}
    suite: str = ""
    note: str = ""


class NowReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.now/1"):
    """One of `count` samples that are being generated, the one at `place`: the ends of its prompt and of its text so
    far, as the model wrote them. `note`: why there is none."""

    count: int = 0
    place: int = 0
    sample: str = ""
    row: int = 0
    repeat: int = 0
    stage: str = ""
    prompt: str = ""
    text: str = ""
    tokens: int = 0
    max_tokens: int = 0
    engine: str = ""
    note: str = ""


class SoFarReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.so-far/1"):
    """A job against job `other`, which has a score, on the `rows` that both have verdicts of. `difference` is this job
    minus the other. `differs`: what was not the same in both; `note`: why there is no comparison, or `looking`, that
    there is none yet: ask again."""

    other: str = ""
    model: str = ""
    rows: int = 0
    value: float | None = None
    before: float | None = None
    difference: MetricView | None = None
    p: float | None = None
    test: str = ""
    differs: tuple[str, ...] = ()
    note: str = ""
    looking: bool = False


class ChangedReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.changed/1"):
    """What a change did to each job that was named.

    Of very many jobs only those are items that still run; `changed` and `unchanged` count all that were looked at.
    `left`: how many are still to be looked at. The daemon goes on with them whether or not anybody asks again; who
    asks again, with the same request id, hears how far it has come.
    """

    items: tuple[ChangedJob, ...]
    changed: int = 0
    unchanged: int = 0
    left: int = 0


class SamplesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.samples/1"):
    """One page of samples; `next` is the cursor of the page after it, -1 at the end. `looking`: the time was over
    before as many were found as were asked for; there may be more after `next`. `looked`: how many samples were looked
    at for it, where not all are wanted."""

    items: tuple[SampleView, ...]
    next: int = -1
    looked: int = 0
    looking: bool = False


class OutlineReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.outline/1"):
    """Samples in a few characters each: the same place of `numbers`, `rows`, `repeats` and `verdicts` is one sample.

    A letter of `verdicts` is a reason: `a` is the first of `reasons`. `cut` are the numbers of those that the token
    limit cut off, `doubted` of those whose verdict the checker doubts and nobody has looked at. `subject_of` are places
    in `subjects`; both are empty where there are none. `next` is the cursor of the page after it, -1 at the end.
    `looked`: how many samples were looked at; `looking`: the time was over before as many were as were asked for.
    """

    numbers: tuple[int, ...]
    rows: tuple[int, ...]
    repeats: tuple[int, ...]
    verdicts: str
    reasons: tuple[str, ...]
    cut: tuple[int, ...] = ()
    doubted: tuple[int, ...] = ()
    subjects: tuple[str, ...] = ()
    subject_of: tuple[int, ...] = ()
    next: int = -1
    looked: int = 0
    looking: bool = False


class SameReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.same/1"):
    """One sample in other jobs: the one that it rewrites, then those of the newest job first."""

    items: tuple[SameView, ...]


class ExchangeReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.exchange/1"):
    """What a judge is asked about a sample, made anew from the row and the answer, and what it said. `problem`: why the
    question cannot be shown."""

    rule: str = ""
    asked: tuple[tuple[dict[str, str], ...], ...] = ()
    said: dict[str, object] = {}
    problem: str = ""


class ScoresReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.scores/1"):
    """One page of scores, newest first; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[ScoreView, ...]
    next: int = 0


class ModelsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.models/1"):
    """Every model the planner sees."""

    items: tuple[ModelView, ...]


class BenchmarksReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.benchmarks/1"):
    """Every benchmark of the catalogue."""

    items: tuple[BenchmarkView, ...]


class SuitesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.suites/1"):
    """The suites of `benchmarks.toml`, in the order of the file, with what each measures on this node."""

    items: tuple[SuiteView, ...]


class CompareReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.compare/1"):
    """Two sides compared. Unlike metrics are never averaged: `counts` says how many benchmarks got which verdict.
    `only_a` and `only_b` name benchmarks (`NAME KIND`) of which only one side has a score. `looking`, for who asked for
    `partial` replies: how far it is; `items` are then those that are done, still without a verdict."""

    a: str
    b: str
    alpha: float
    items: tuple[ComparisonView, ...]
    counts: dict[str, int]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    looking: str = ""


class ImportReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.import/1"):
    """What an import found. `ignored` counts files that hold no results."""

    path: str
    dry_run: bool
    items: tuple[ImportedView, ...]
    counts: dict[str, int]
    session: str = ""
    ignored: int = 0


class JudgeReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.judge/1"):
    """The judge and the checker; none where none is configured. `calibrations`: how far each rule's judge can be
    trusted, as sentences."""

    judges: tuple[JudgeView, ...]
    calibrations: tuple[str, ...] = ()


class EndpointsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.endpoints/1"):
    """The models behind endpoints, in the order of the configuration."""

    items: tuple[EndpointView, ...]


class ReviewReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.review/1"):
    """One page of findings; `next` is the cursor of the page after it, -1 at the end."""

    items: tuple[FindingView, ...]
    next: int = -1


class SearchReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.search/1"):
    """The points of a search, best first."""

    job: str
    points: tuple[PointView, ...]


class PromotionReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.promotion/1"):
    """The point that searches share as their best, and the session that measures it, if one was asked for."""

    model: str
    settings: dict[str, str]
    objective: float
    searches: tuple[str, ...]
    benchmarks: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    session: str = ""
    jobs: tuple[str, ...] = ()
