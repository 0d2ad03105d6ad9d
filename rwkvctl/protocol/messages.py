"""Requests to the daemon, its replies, and the events it streams.

Every reply has `schema` (name and version), `as_of` (RFC 3339, UTC) and `node`. Unknown fields are ignored
on both sides and new fields have defaults, so a client one version older or newer works.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from rwkvctl.protocol.states import Action, EngineState, JobState, Reason

PROTOCOL: Final = 1
"""Version of the wire protocol, sent in the `rwkvctl-protocol` header of every request and response."""

ModelSelect = Literal["all", "param-extrema", "latest-data"]


class Selection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which models on which benchmarks: the filter flags of `queue` and `dispatch`, and what changes the work.

    `settings` holds `--set name=value` pairs; they and `limit`, `seed` and `numerics` are part of the generation key.
    """

    models: tuple[str, ...] = ()
    model_regex: tuple[str, ...] = ()
    model_select: ModelSelect = "all"
    only_jobs: tuple[str, ...] = ()
    skip_jobs: tuple[str, ...] = ()
    only_datasets: tuple[str, ...] = ()
    skip_datasets: tuple[str, ...] = ()
    min_param_b: float | None = None
    max_param_b: float | None = None
    domains: tuple[str, ...] = ()
    job_order: tuple[str, ...] = ()
    limit: int | None = None
    settings: dict[str, str] = {}
    seed: int = 0
    numerics: str = ""
    overwrite: bool = False
    skip_missing_dataset: bool = False
    priority: int = 0
    run_log_dir: str = ""


class InfoRequest(Struct, frozen=True):
    """`GET /v1/info`."""


class StatusRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/status`. With `session`, only that session's jobs are counted and listed."""

    session: str = ""
    limit: int = 20


class PlanRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/plan`: what a dispatch of the same selection would do."""

    selection: Selection = Selection()


class DispatchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/dispatch`. `plan_hash` refuses the dispatch if the plan is another one by now; `request_id` makes it
    safe to repeat: the same id gets the first answer again."""

    selection: Selection = Selection()
    plan_hash: str = ""
    request_id: str = ""


class JobsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs`: one page, newest first, after job number `before` (a cursor from `next`)."""

    state: str = ""
    session: str = ""
    limit: int = 100
    before: int = 0


class JobRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/{job}`."""

    job: str


class StopRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/stop`: named jobs, or all that are not finished."""

    jobs: tuple[str, ...] = ()
    all: bool = False
    request_id: str = ""


class ResumeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/resume`: stopped, failed and held jobs go on where they stand: named ones, a session's, or all."""

    jobs: tuple[str, ...] = ()
    session: str = ""
    all: bool = False
    request_id: str = ""


class SamplesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs/{job}/samples`: samples after `after` (the `next` of a page); `latest`: newest first."""

    job: str
    wrong: bool = False
    latest: bool = False
    limit: int = 100
    after: int = -1


class ScoresRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/scores`: the newest score of each (model, benchmark, kind); `all_versions` for the history."""

    model: str = ""
    benchmark: str = ""
    session: str = ""
    all_versions: bool = False
    limit: int = 1000


class ModelsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/models`: checkpoints under the weights folder, and the built-in one."""


class BenchmarksRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/benchmarks`: every benchmark, its kinds, and whether its rows are prepared."""


class LogsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/logs/{target}`: an NDJSON stream of LogChunk for a job (j12), an engine (e3) or `daemon`.

    Starts `tail` lines before the end, or at byte `offset` of attempt `attempt`; with `follow` it goes on until the job
    ends or the client hangs up.
    """

    target: str
    tail: int = 60
    attempt: int = 0
    offset: int = -1
    follow: bool = False


class EventsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/events`: an NDJSON stream of Event. `since`: first the stored events after that number (-1: only new
    ones), then live ones until the client hangs up (`follow` false: stop after the stored ones)."""

    since: int = -1
    follow: bool = True
    session: str = ""


class Reply(Struct, frozen=True, kw_only=True, tag_field="schema"):
    """What every reply carries besides its own fields; `schema` is written first."""

    as_of: str = ""
    node: str = ""


class InfoReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.info/1"):
    """Who answers, and which protocol versions it speaks."""

    version: str
    api_min: int
    api_max: int
    pid: int
    home: str
    started: str


class ErrorReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.error/1"):
    """A refusal (RFC 9457 in spirit): a stable code, one sentence, and what to do. `exit_code` is the CLI's."""

    code: str
    detail: str
    hint: str = ""
    status: int = 400
    exit_code: int = 1


class LeaseView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU, or the CPU as `cpu:0`, and what holds it. Telemetry is null where it is not known."""

    id: str
    name: str = ""
    use: str = "free"
    condition: str = "ok"
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
    """One metric with its standard error and 95 % confidence interval; value null means it could not be computed."""

    value: float | None
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


class ScoreView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The score of one job. `metrics[primary]` is the headline; provenance says exactly what was measured."""

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
    truncated: int = 0
    no_answer: int = 0
    errors: int = 0
    chance: float | None = None
    partial: bool = False
    why_null: str = ""
    finished: str = ""
    session: str = ""
    provenance: dict[str, object] = {}


class JobView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job. `done`/`total` count samples (row x repeat); `stages_done` counts stored completions."""

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
    done: int = 0
    total: int = 0
    stages_done: int = 0
    stages_total: int = 0
    numerics: str = ""
    engine: str = ""
    attempt: int = 0
    limit: int | None = None
    weights: str = ""
    generation_key: str = ""
    queued: str = ""
    started: str = ""
    finished: str = ""
    eta_s: float | None = None
    samples_per_s: float | None = None
    running_score: MetricView | None = None
    score: ScoreView | None = None


class StatusReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.status/1"):
    """The Overview: what holds what, what runs, what waits and why."""

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


class PlanRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would happen to one (model, benchmark, kind), with one reason."""

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


class PlanReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.plan/1"):
    """A plan in dispatch order. `hash` covers (generation key, action, reason) of every row."""

    hash: str
    rows: tuple[PlanRow, ...]
    counts: dict[str, int]
    computed_ms: float
    models: int
    benchmarks: int
    notes: tuple[str, ...] = ()


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
    """One job."""

    item: JobView


class ChangedJob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `stop` or `resume` did to one job: its state now, whether that changed, or why not."""

    job: str
    state: JobState | Literal[""]
    changed: bool
    error: str = ""


class ChangedReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.changed/1"):
    """The jobs a `stop` or `resume` named."""

    items: tuple[ChangedJob, ...]


class StageView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage of a sample: what was asked (the whole prompt, or the tail a later stage appended) and answered."""

    stage: str
    prompt: str
    completion: str
    stop: str
    prompt_tokens: int = 0
    generated_tokens: int = 0


class SampleView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One graded sample. Text is raw model output: a reader that draws it must make it safe."""

    number: int
    row: int
    repeat: int
    value: float | None
    reason: str
    expected: str = ""
    extracted: str | None = None
    detail: str = ""
    stages: tuple[StageView, ...] = ()


class SamplesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.samples/1"):
    """One page of samples; `next` is the cursor of the page after it, -1 at the end."""

    items: tuple[SampleView, ...]
    next: int = -1


class ScoresReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.scores/1"):
    """Scores, newest first."""

    items: tuple[ScoreView, ...]


class ModelView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint file and what its name and contents say."""

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


class ModelsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.models/1"):
    """Every model the planner sees."""

    items: tuple[ModelView, ...]


class BenchmarkView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A benchmark of the catalogue, and the rows that lie ready for it."""

    name: str
    title: str
    domain: str
    kinds: tuple[str, ...]
    version: int
    split: str
    rows: int | None = None
    rows_sha256: str = ""
    ready: bool = False
    builtin: bool = False
    licence: str = ""
    profile: str = ""


class BenchmarksReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.benchmarks/1"):
    """The catalogue."""

    items: tuple[BenchmarkView, ...]


class LogChunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a log. `offset` is the byte after it in its attempt's file: where a reader goes on."""

    source: str
    text: str
    attempt: int = 0
    offset: int = 0


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact of the node. Stored ones have a growing `seq`; progress and telemetry have none (0) and are not stored.

    kinds: `daemon`, `session`, `job.queued`, `job.state`, `job.progress`, `job.score`, `engine.state`, `engine.stats`,
    `lease`, `heartbeat`. `data` holds the JobView, EngineView or LeaseView as it is after the change.
    """

    kind: str
    at: str
    seq: int = 0
    job: str = ""
    engine: str = ""
    session: str = ""
    text: str = ""
    data: dict[str, object] = {}


Request = (
    InfoRequest
    | StatusRequest
    | PlanRequest
    | DispatchRequest
    | JobsRequest
    | JobRequest
    | StopRequest
    | ResumeRequest
    | SamplesRequest
    | ScoresRequest
    | ModelsRequest
    | BenchmarksRequest
)
Stream = LogsRequest | EventsRequest
AnyReply = (
    InfoReply
    | ErrorReply
    | StatusReply
    | PlanReply
    | DispatchReply
    | JobsReply
    | JobReply
    | ChangedReply
    | SamplesReply
    | ScoresReply
    | ModelsReply
    | BenchmarksReply
)

ROUTES: Final[dict[type[Struct], tuple[str, str]]] = {
    InfoRequest: ("GET", "/v1/info"),
    StatusRequest: ("GET", "/v1/status"),
    PlanRequest: ("POST", "/v1/plan"),
    DispatchRequest: ("POST", "/v1/dispatch"),
    JobsRequest: ("GET", "/v1/jobs"),
    JobRequest: ("GET", "/v1/jobs/{job}"),
    StopRequest: ("POST", "/v1/stop"),
    ResumeRequest: ("POST", "/v1/resume"),
    SamplesRequest: ("GET", "/v1/jobs/{job}/samples"),
    ScoresRequest: ("GET", "/v1/scores"),
    ModelsRequest: ("GET", "/v1/models"),
    BenchmarksRequest: ("GET", "/v1/benchmarks"),
    LogsRequest: ("GET", "/v1/logs/{target}"),
    EventsRequest: ("GET", "/v1/events"),
}
"""Where each request goes: fields named in braces are path segments, the rest is the query (GET) or the body (POST)."""

reply_decoder: Final = msgspec.json.Decoder(AnyReply)
event_decoder: Final = msgspec.json.Decoder(Event)
log_decoder: Final = msgspec.json.Decoder(LogChunk)
