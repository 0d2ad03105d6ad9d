"""What a client asks the daemon. New fields have defaults and unknown ones are ignored: neighbouring versions work."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Billions, Count, Moment, Number, Rank, Seed, Share, Steps

ModelSelect = Literal["all", "param-extrema", "latest-data"]


class NamedCheckpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint anywhere on the node, with the name it is to have; without one its file's."""

    path: str
    name: str = ""


class Selection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which models on which benchmarks: the filter flags of `queue` and `dispatch`, and what changes the work.

    `checkpoints`, where there are any, are the models to choose from instead of those under the weights folder; `files`
    are such beside them, and `models` names each by its path, so that a daemon that does not know them refuses.
    `hold_missing`: what has no rows on the node is queued and held until they are prepared; otherwise it is left out.
    `settings` holds `--set name=value` pairs; they and `limit`, `seed` and `numerics` are part of the generation key.
    `group`: of its jobs only so many run at once as the configuration's table [groups] says. `suite`: only what this
    suite of the operator measures, with its settings, unless this selection says others; the other filters leave out
    some of it. `note`: what an operator wants to read of these jobs in the job log. `harness`: the outside harness that
    measures; `only_datasets` are tasks of it then.
    """

    models: tuple[str, ...] = ()
    model_regex: tuple[str, ...] = ()
    model_select: ModelSelect = "all"
    only_jobs: tuple[str, ...] = ()
    skip_jobs: tuple[str, ...] = ()
    only_datasets: tuple[str, ...] = ()
    skip_datasets: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    checkpoints: tuple[NamedCheckpoint, ...] = ()
    files: tuple[NamedCheckpoint, ...] = ()
    min_param_b: Billions | None = None
    max_param_b: Billions | None = None
    domains: tuple[str, ...] = ()
    job_order: tuple[str, ...] = ()
    limit: Number | None = None
    settings: dict[str, str] = {}
    seed: Seed | None = None
    numerics: str = ""
    overwrite: bool = False
    hold_missing: bool = False
    priority: Rank = 0
    run_log_dir: str = ""
    disable_checker: bool = False
    group: str = ""
    suite: str = ""
    note: str = ""
    harness: str = ""


class InfoRequest(Struct, frozen=True):
    """`GET /v1/info`: who answers, and which protocol versions it speaks."""


class StatusRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/status`. With `session`, only that session's jobs are counted and listed."""

    session: str = ""
    limit: Count = 20


class PlanRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/plan`: what a dispatch of the same selection would do.

    `limit`: only so many rows, those after the first `after`; 0: all of them. `rows` false: none, only what is said of
    all of them together.
    """

    selection: Selection = Selection()
    limit: Count = 0
    after: Number = 0
    rows: bool = True


class DispatchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/dispatch`. `plan_hash` refuses the dispatch if the plan is another one by now; `request_id` makes it
    safe to repeat: the same id gets the first answer again."""

    selection: Selection = Selection()
    plan_hash: str = ""
    request_id: str = ""


class JobsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs`: one page, newest first, after job number `before` (a cursor from `next`). `state`: one or several
    with commas. `words`: only jobs in whose id, model, benchmark, kind, session or reason each of these words is."""

    state: str = ""
    session: str = ""
    words: str = ""
    limit: Count = 100
    before: Number = 0


class JobRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/{job}`: one job with its configuration."""

    job: str


class NowRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs/{job}/now`: a sample of the job that is being generated. `sample` is the one a reply named, `step`
    how many places after it; one that has ended gives place to the next."""

    job: str
    sample: str = ""
    step: Steps = 0


class SoFarRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/{job}/so-far`: how a job does against the last run, on the rows that both have finished."""

    job: str


class StopRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/stop`: named jobs, or all that are not finished: of a model, of a session, or of the node."""

    jobs: tuple[str, ...] = ()
    model: str = ""
    session: str = ""
    all: bool = False
    request_id: str = ""


class ResumeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/resume`: stopped, failed, paused and held jobs go on where they stand: named ones, a session's, or all;
    with `failed`, only those that failed. What an operator holds is released by `/v1/release`."""

    jobs: tuple[str, ...] = ()
    session: str = ""
    all: bool = False
    failed: bool = False
    request_id: str = ""


class RegradeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/regrade`: grade the stored completions of finished jobs with the present grader."""

    jobs: tuple[str, ...] = ()
    session: str = ""
    request_id: str = ""


class JudgeRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/judge`: how the judge and the checker are doing."""


class JudgeRetry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/judge/retry`: try every key again at once."""

    request_id: str = ""


class EndpointsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/endpoints`: the models behind endpoints, and how they are doing."""


class EndpointsRetry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/endpoints/retry`: try every key again at once, and find out anew what the servers do."""

    request_id: str = ""


class ReviewRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/review`: wrong answers whose verdict the checker doubts and nobody has looked at; `every`: all."""

    job: str = ""
    every: bool = False
    after: Number = 0
    limit: Count = 50


class ReviewMark(Struct, frozen=True, kw_only=True):
    """`POST /v1/review`: what a person decided about a sample."""

    sample: Number
    decision: Literal["right", "wrong"]
    request_id: str = ""


class SearchRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/search`: the points of a finished search."""

    job: str


class SearchSelect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/search/select`: record the best point that a model's searches share; `dispatch`: measure it on the rows
    that they have not seen."""

    model: str
    benchmarks: tuple[str, ...] = ()
    dispatch: bool = False
    request_id: str = ""


class SamplesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs/{job}/samples`: samples after `after` (the `next` of a page of the same samples); `latest`: newest
    first.

    `reason`: only those of this reason; `cut`: only those that the token limit cut off; `text`: only those with this
    text, in any case, in a prompt, a completion, the expected or the extracted answer. `numbers`: these samples and no
    others, in row order. `tail`: for a list: of each text only so many characters at its end, and no judge's replies.
    """

    job: str
    wrong: bool = False
    latest: bool = False
    limit: Count = 100
    after: Number = -1
    reason: str = ""
    cut: bool = False
    text: str = ""
    numbers: tuple[Number, ...] = ()
    tail: Count = 0


class OutlineRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs/{job}/outline`: the verdicts of a job's samples without their texts, in row order after `after`.

    `text`: only samples with this text (as in SamplesRequest) among the next `limit`, or among as many of them as can
    be looked at in a moment. `subjects`: the subject of each, where the benchmark has subjects.
    """

    job: str
    after: Number = -1
    limit: Count = 20_000
    text: str = ""
    subjects: bool = False


class SameRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/jobs/{job}/same`: the same row of the same benchmark in other jobs: of a rewriting first the one that it
    rewrites, then newest first."""

    job: str
    row: Number
    repeat: Number = 0
    limit: Count = 50


class ExchangeRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/{job}/exchange`: what the judge is asked about a sample, and what it said."""

    job: str
    number: Number


class ScoresRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/scores`: the newest score of each (model, benchmark, kind); `all_versions` for the history. `brief`:
    without provenance. One page, newest first, of jobs before number `before` (a cursor from `next`)."""

    model: str = ""
    benchmark: str = ""
    session: str = ""
    all_versions: bool = False
    limit: Count = 1000
    before: Number = 0
    brief: bool = False


class ModelsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/models`: checkpoints under the weights folder, and the built-in one. `scored`: also those that are known
    by their scores only, and for each the one that came before it."""

    scored: bool = False


class BenchmarksRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/benchmarks`: every benchmark, its kinds, and whether its rows are prepared."""


class SuitesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/suites`: the operator's suites of benchmarks."""


class LogsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/logs/{target}`: an NDJSON stream of LogChunk for a job (j12), an engine (e3) or `daemon`.

    Starts `tail` lines before the end, at what was written from the moment `since` on, or at byte `offset` of attempt
    `attempt` (then with what happened after `since`, if that is said); with `follow` it goes on until the job ends or
    the client hangs up, with an empty piece now and then.
    """

    target: str
    tail: Count = 60
    attempt: Number = 0
    offset: Number = -1
    follow: bool = False
    since: Moment = ""
    timestamps: bool = False


class EventsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/events`: an NDJSON stream of Event. `since`: first the stored events after that number (-1: only new
    ones), or `after` a time (RFC 3339, UTC); then live ones until the client hangs up (`follow` false: stop after the
    stored ones). `stored`: without progress and telemetry.

    With `limit` it is one page of the past instead: the last so many stored events before the number `before`, before
    the time `until`, or of all, oldest first.
    """

    since: Number = -1
    after: Moment = ""
    follow: bool = True
    session: str = ""
    stored: bool = False
    limit: Count = 0
    before: Number = 0
    until: Moment = ""


class CompareRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/compare`: is B better than A, benchmark by benchmark, on the same rows? Nothing is changed.

    A side is a job (`j12`), a model (its newest scores), or `MODEL@VERSION`; an empty `a` the baseline that is pinned
    for B's model. `flips`: list so many rows a benchmark on which only one side is right. `force`: compare what is not
    comparable too, on the rows that both have. `partial`: answer within a moment with what is known by then; the same
    request again goes on.
    """

    a: str
    b: str
    benchmarks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    alpha: Share = 0.05
    flips: Count = 0
    force: bool = False
    partial: bool = False


class ImportRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/import`: take in results of rwkv-skills that lie at an absolute path on the node. What was taken in
    before is left alone, so a repetition is harmless; with `overwrite` it is taken in again, in the place of what came
    from the same files."""

    path: str
    dry_run: bool = False
    overwrite: bool = False
    request_id: str = ""
