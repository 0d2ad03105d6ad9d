"""Things of the node as a client sees them: leases, engines, jobs, scores, samples; replies are made of these."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.states import Action, EngineState, JobState, Reason, RecipeState


class LeaseView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU, or the CPU as `cpu:0`, and what holds it. Telemetry is null where it is not known.

    `index` is NVML's, for people (`3`, or `3:1` for an instance of a divided card); `id` is the UUID. `why` explains
    the use and `reason` the condition, in a sentence each. `contended`: somebody else computes beside an engine of
    ours.
    """

    id: str
    index: str = ""
    name: str = ""
    use: str = "free"
    condition: str = "ok"
    why: str = ""
    reason: str = ""
    contended: bool = False
    engine: str = ""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilisation: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class EngineView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An engine process: one model, one numerics profile, one lease."""

    id: str
    model: str
    numerics: str
    lease: str
    state: EngineState
    pid: int = 0
    running: int = 0
    waiting: int = 0
    slots: int = 0
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    occupancy: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    jobs: tuple[str, ...] = ()
    detail: str = ""


class MetricView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One metric with its standard error and 95 % confidence interval; value null means it could not be computed.

    `unit` says what the value is: a "share" of one, "bits" or "perplexity" (lower is better), "points" of a hundred.
    """

    value: float | None
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    unit: str = "share"


class ScoreView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The score of one job. `metrics[primary]` is the headline; provenance says exactly what was measured.

    Of `n` samples `scored` have a verdict; `no_answer` and `timeouts` count as wrong; `unjudged` and `errors` have none
    and hold the score back. `completion_tokens` is the mean a sample. `warnings` are sentences to show with it.
    `measured_as`: where `model` is another name of the same weights, the one that its job has. `training`: of a set to
    train on, so it is in no matrix and no report. `source_job`: the job whose right samples were rewritten; such a
    score is null, as it measures nothing.
    """

    job: str
    model: str
    benchmark: str
    kind: str
    version: int
    primary: str
    metrics: dict[str, MetricView]
    n: int
    rows: int
    repeats: int
    scored: int = 0
    truncated: int = 0
    no_answer: int = 0
    timeouts: int = 0
    unjudged: int = 0
    errors: int = 0
    completion_tokens: float = 0.0
    chance: float | None = None
    partial: bool = False
    why_null: str = ""
    warnings: tuple[str, ...] = ()
    finished: str = ""
    session: str = ""
    measured_as: str = ""
    training: bool = False
    source_job: str = ""
    provenance: dict[str, object] = {}


class JobView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job. `done`/`total` count samples (row x repeat); `stages_done` counts stored completions.

    `eta_s`: seconds from now until it ends, of a waiting one too (`starts_s`, `expected_on`: when and on which lease it
    is expected to start); null if such a job has no history. `idle_s`: seconds without a sample, where that
    is far more than it usually takes for one; then there is no ETA. `running_score`: the mean so far of the samples
    that have a verdict, its interval counted by questions; null of a job that is over. `picks` are the settings that
    pick its rows: `rows=0:100 where=level=5`. `source_job`: the job whose right samples it rewrites; empty if it is
    no rewriting. `labels`: the rule by which the writer labels its rows; empty if it does not.
    """

    id: str
    model: str
    benchmark: str
    kind: str
    state: JobState
    session: str
    reason: Reason | Literal[""] = ""
    detail: str = ""
    version: int = 1
    priority: int = 0
    group: str = ""
    done: int = 0
    total: int = 0
    stages_done: int = 0
    stages_total: int = 0
    numerics: str = ""
    engine: str = ""
    attempt: int = 0
    failure: str = ""
    limit: int | None = None
    picks: str = ""
    weights: str = ""
    generation_key: str = ""
    source_job: str = ""
    labels: str = ""
    queued: str = ""
    started: str = ""
    finished: str = ""
    eta_s: float | None = None
    idle_s: float | None = None
    starts_s: float | None = None
    expected_on: str = ""
    samples_per_s: float | None = None
    running_score: MetricView | None = None
    score: ScoreView | None = None


class PaidView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the judge or the checker would be asked for a plan, before anything is.

    `calls` are expected: fewer than samples where it is known how many the rule grader accepts; `calls_most` is every
    sample asked as often as a reply may be unreadable. `tokens` and `cost` are of the expected calls: by the mean
    length of its latest replies where it has given some (`measured`), else by an example's prompt and the longest
    reply, or by what `basis` says. `cost` is null where no price is set, `budget_left` and `tokens_left` where there is
    no such budget.
    """

    role: str
    model: str
    calls: int
    calls_most: int
    tokens: int
    cost: float | None = None
    measured: bool = False
    basis: str = ""
    budget_left: float | None = None
    tokens_left: int | None = None


class RecipeAtWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recipe that waits for its jobs, whose rows are being made, or that is paused. `detail`: how far its rows are,
    what it waits for if that does not come by itself, or how it is resumed."""

    recipe: str
    name: str
    state: RecipeState
    detail: str = ""
    created: str


MOST_AT_WORK = 20


class PlanRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would happen to one (model, benchmark, kind), with one reason.

    `est_s`: how long one engine works on it; `basis` says what that rests on (the same work, a model of the same size,
    one of another size). `starts_s` and `ends_s`: seconds from now, behind what is queued already, on `lease`; `loads`:
    an engine must load first. All of them are null if such a job has no history.
    """

    model: str
    benchmark: str
    kind: str
    action: Action
    reason: Reason
    detail: str = ""
    rows: int | None = None
    samples: int | None = None
    weights: str = ""
    numerics: str = ""
    generation_key: str = ""
    job: str = ""
    est_s: float | None = None
    basis: str = ""
    starts_s: float | None = None
    ends_s: float | None = None
    lease: str = ""
    loads: bool = False


class ChangedJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `stop` or `resume` did to one job: its state now, whether that changed, or why not; and what of it still
    runs, if it has not ended yet."""

    job: str
    state: JobState | Literal[""]
    changed: bool
    error: str = ""
    still: str = ""


class PauseView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pause wider than one job. `scope`: queue, model, group, judge, or node (a drain: what runs goes on to its
    end)."""

    scope: str
    name: str = ""
    at: str
    who: str
    why: str = ""


class StageView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage of a sample: what was asked (the whole prompt, or the tail a later stage appended) and answered, how
    long that took, and of scored choices the log-likelihood of each."""

    stage: str
    prompt: str
    completion: str
    stop: str
    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    engine: str = ""
    logprobs: tuple[float, ...] = ()


class SampleView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One graded sample. Text is raw model output: a reader that draws it must make it safe. `row` counts the rows that
    the job asked; `row_id` names the row in every job: its id upstream, else NAME/INDEX, its place in the prepared set.
    It is empty where the rows are gone, were replaced, or were prepared by an older version."""

    number: int
    row: int
    repeat: int
    value: float | None
    reason: str
    expected: str = ""
    extracted: str | None = None
    detail: str = ""
    route: str = ""
    parts: dict[str, float] = {}
    judge: dict[str, object] = {}
    stages: tuple[StageView, ...] = ()
    row_id: str = ""


class SameView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The same row in another job, with its verdict there. `original`: the sample that was rewritten into this one."""

    job: str
    model: str
    kind: str
    version: int
    number: int
    value: float | None
    reason: str
    extracted: str | None = None
    finished: str = ""
    original: bool = False


class ModelView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint file and what its name and contents say. `broken` says why it does not load; `copying`: it is being
    copied, and so not hashed yet. `need_bytes` is the least memory an engine of it can do with, in the node's numerics.
    `previous` is the scored model that came before it, of its size, and `baseline` the one that is pinned for it, whose
    scores its own are compared with then; a model without a path is known by its scores only.
    A model behind an endpoint has the `api` of its server, and `endpoint:NAME` as its path.
    """

    name: str
    path: str
    size_bytes: int
    sha256: str = ""
    architecture: str = ""
    data_version: str = ""
    parameters_b: float | None = None
    date: str = ""
    context: int | None = None
    builtin: bool = False
    broken: str = ""
    copying: bool = False
    need_bytes: int = 0
    previous: str = ""
    baseline: str = ""
    api: str = ""


class BenchmarkView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A benchmark of the catalogue, and the rows that lie ready for it. `usual` are the kinds that run unnamed.

    `problem` says why its rows are not ready: they were never prepared, or (`damaged`) must be prepared again;
    `rows_complete` is how many it has in all (0: not known). `source` is where the rows that are there came from, and
    `upstream` where they would be fetched from. Without `schema_verified` no real row of it was seen when it was
    written. `training`: it runs only when it is named, and its scores are in no matrix and no report.
    """

    name: str
    title: str
    domain: str
    kinds: tuple[str, ...]
    usual: tuple[str, ...] = ()
    version: int
    split: str
    rows: int | None = None
    rows_sha256: str = ""
    ready: bool = False
    builtin: bool = False
    licence: str = ""
    profile: str = ""
    source: str = ""
    upstream: str = ""
    problem: str = ""
    damaged: bool = False
    prepared: str = ""
    rows_complete: int = 0
    schema_verified: bool = True
    training: bool = False


class SuiteKind(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of a benchmark in a suite. `rows`: how many are asked, null if they are not prepared, or are not those
    its settings mean (`problem`); `settings`: those that standing settings and the suite change; `search`: it searches
    for settings, of the suite's models for that."""

    benchmark: str
    kind: str
    rows: int | None = None
    problem: str = ""
    settings: dict[str, str] = {}
    search: bool = False


class SuiteView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A suite of the operator: what is measured together. `problem`: why it cannot be dispatched at present. Settings
    are searched for of models whose names match one of `search_models`, of each architecture and size only of the
    newest if `search_newest`. `objective`: what the best checkpoint is the best in; `hold_back`: a feedback shows some
    of the rows only."""

    name: str
    description: str = ""
    limit: int | None = None
    objective: tuple[str, ...] = ()
    hold_back: bool = False
    kinds: tuple[SuiteKind, ...] = ()
    search_models: tuple[str, ...] = ()
    search_newest: bool = False
    problem: str = ""


class FlipView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row on which one side did better. `after` is the cursor that finds it: `rwkvctl samples JOB --after AFTER`.
    `reason_a` and `reason_b` are the samples' own; `cut_a` and `cut_b`: the token limit cut the completion off.
    `row_id` names the row, as in a sample."""

    row: int
    value_a: float
    value_b: float
    sample_a: int
    sample_b: int
    after: int
    expected: str = ""
    answer_a: str | None = None
    answer_b: str | None = None
    reason_a: str = ""
    reason_b: str = ""
    cut_a: bool = False
    cut_b: bool = False
    row_id: str = ""


class ComparisonView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Side B against side A on one benchmark. `difference` is B - A; `p_holm` is adjusted over all that was compared.

    `why` says why there is no comparison. `differs` names what was not the same and forbids a comparison (`forced`: it
    was made all the same); `noted` what was not the same and does not matter to it, and what both sides picked rows by.
    `unpaired`: one side was given without samples, so nothing is known but the values and how many rows they are of.
    """

    benchmark: str
    kind: str
    verdict: Literal["better", "worse", "no difference shown", "not comparable"]
    why: str = ""
    metric: str = ""
    unit: str = "share"
    job_a: str = ""
    job_b: str = ""
    a: float | None = None
    b: float | None = None
    difference: MetricView | None = None
    rows: int = 0
    left_out: int = 0
    repeats_a: int = 0
    repeats_b: int = 0
    only_a: int = 0
    only_b: int = 0
    test: Literal["", "mcnemar", "bootstrap", "fisher"] = ""
    unpaired: bool = False
    p: float | None = None
    p_holm: float | None = None
    lower_is_better: bool = False
    forced: bool = False
    differs: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    flips: tuple[FlipView, ...] = ()


class ImportedView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one score that was found: `imported` (as `job`), `would-import`, `there` (as `job`, from an
    earlier import), `replaced` (as `job`, in the place of an earlier import), `would-replace` (`job`), or `refused` for
    what `problem` says. `metrics` are the source's own; `disagreements` name those
    that its samples do not give."""

    source: str
    outcome: Literal["imported", "would-import", "there", "replaced", "would-replace", "refused"]
    model: str = ""
    benchmark: str = ""
    kind: str = ""
    job: str = ""
    samples: int = 0
    duplicates: int = 0
    metrics: dict[str, float] = {}
    disagreements: tuple[str, ...] = ()
    problem: str = ""


class JudgeJobView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that is being judged."""

    job: str
    waiting: int = 0
    judged: int = 0
    unjudged: int = 0
    usage: dict[str, float] = {}
    parked: str = ""


class JudgeEndpointView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One endpoint of a judge; keys are masked. `counts` holds ok, 429, 5xx, timeout, failed and retries, and
    `unreadable`: replies that left a sample without a verdict. With any of these the endpoint fails."""

    name: str
    model: str = ""
    in_flight: int = 0
    rate: float = 0.0
    p50_s: float | None = None
    p95_s: float | None = None
    counts: dict[str, int] = {}
    usage: dict[str, float] = {}
    keys: tuple[dict[str, object], ...] = ()


class JudgeFlightView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request in flight: for which job and sample, since when, the how manyth attempt, and why the last failed."""

    job: str
    label: str = ""
    seconds: float = 0.0
    attempt: int = 1
    last_error: str = ""


class JudgeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The judge or the checker: what it does, what it has cost, and why it waits, if it does.

    `flights`: those in flight, the oldest first. `budget` (money) and `budget_tokens` are limits, 0 for none, `never`
    or `daily` reset. `from_cache` counts replies that were known, and cost nothing, since the daemon started.
    """

    role: str
    model: str
    parked: str = ""
    queue: int = 0
    in_flight: int = 0
    rate: float = 0.0
    outages: int = 0
    outage_s: float = 0.0
    usage: dict[str, float] = {}
    endpoints: tuple[JudgeEndpointView, ...] = ()
    jobs: tuple[JudgeJobView, ...] = ()
    flights: tuple[JudgeFlightView, ...] = ()
    budget: float = 0.0
    budget_tokens: int = 0
    budget_resets: str = ""
    from_cache: int = 0


class EndpointView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model behind an endpoint. `identity` is a hash of base URL, model and revision; `features` is what its server
    turned out to do, empty until it was tried out; `problem` says why it could not be. `service`: how it is doing, and
    what it has cost."""

    name: str
    base_url: str
    model: str
    revision: str = ""
    api: str
    identity: str
    features: dict[str, object] = {}
    problem: str = ""
    service: JudgeView


class FindingView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the checker says of one wrong answer; `reviewed` is what a person decided, if one has."""

    sample: int
    job: str
    model: str
    benchmark: str
    kind: str
    row: int
    repeat: int
    expected: str = ""
    extracted: str | None = None
    needs_review: bool = False
    reviewed: str = ""
    finding: dict[str, object] = {}


class PointView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One point of a search: its settings, how many rows it was asked, and its value there."""

    point: int
    settings: dict[str, str]
    rows: int
    value: float | None = None
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
