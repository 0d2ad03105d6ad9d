"""The judge and the checker as rows: endpoints, jobs that wait for them, and how far they are trusted. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, joined
from rwkvctl.protocol.replies import JudgeReply
from rwkvctl.protocol.views import JobView, JudgeEndpointView, JudgeFlightView, JudgeView, ScoreView
from rwkvctl.scoreboard.judge_health import failing
from rwkvctl.text.quantities import count, duration
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

FLIGHTS: Final = 3
COUNTED: Final = ("429", "5xx", "timeout", "failed", "unreadable", "retries")


class Endpoint(NamedTuple):
    """One endpoint of the judge or the checker."""

    judge: JudgeView
    endpoint: JudgeEndpointView


class JudgedJob(NamedTuple):
    """A job at the judge, or one whose score is held back by samples without a verdict."""

    job: str
    model: str = ""
    benchmark: str = ""
    state: str = ""
    waiting: int = 0
    judged: int = 0
    unjudged: int = 0
    tokens: float = 0.0
    cost: float = 0.0
    why: str = ""


def endpoints_of(reply: JudgeReply) -> list[Endpoint]:
    """Return the endpoints of all judges in the reply's order."""
    return [Endpoint(judge, endpoint) for judge in reply.judges for endpoint in judge.endpoints]


def key_of(row: Endpoint) -> str:
    """Return the key of a row in the table: `ROLE/NAME` of the endpoint."""
    return f"{row.judge.role}/{row.endpoint.name}"


def state_cell(row: Endpoint) -> Cell:
    """Return whether the endpoint answers; some of its keys may be unusable."""
    keys = row.endpoint.keys
    usable = sum(str(key.get("state")) == "ok" for key in keys)
    if row.judge.parked:
        return Cell("! waiting", "warn", "waiting")
    if keys and not usable:
        return Cell("✗ no keys", "bad", "no keys")
    if failing(row.endpoint.name, row.endpoint.counts):
        return Cell("✗ FAIL", "bad", "FAIL")
    return Cell("▸ busy" if row.endpoint.in_flight else "✓ ready", "ok") if usable == len(keys) else Cell(
        f"! {usable}/{len(keys)} keys", "warn"
    )  # fmt: skip


def seconds(value: float | None) -> str:
    """Return a latency in seconds with one decimal; `–` if there is none."""
    return "–" if value is None else f"{value:.1f}"


def counted(name: str, title: str, rank: int = 0, *more: str) -> Column[Endpoint]:
    """Return a count; any but 0 is marked."""

    def value(row: Endpoint) -> int:
        return sum(row.endpoint.counts.get(one, 0) for one in (name, *more))

    def cell(row: Endpoint) -> Cell:
        return Cell(count(value(row)), "warn" if value(row) else "dim")

    return Column(title, cell, max(6, len(title)), least=max(5, len(title)), value=value, right=True, rank=rank)


ENDPOINTS: Final[tuple[Column[Endpoint], ...]] = (
    Column("ROLE", lambda row: Cell(row.judge.role, "bold"), 8),
    Column("MODEL", lambda row: row.endpoint.model or row.judge.model, 18, least=12, grow=1, cut="middle"),
    Column("ENDPOINT", lambda row: row.endpoint.name, 20, least=12, grow=1, cut="middle"),
    Column("STATE", state_cell, 10),
    Column("RUN", lambda row: count(row.endpoint.in_flight), 4, value=lambda row: row.endpoint.in_flight, right=True,
           live=True),
    Column("/S", lambda row: f"{row.endpoint.rate:.1f}", 5, value=lambda row: row.endpoint.rate, right=True, live=True,
           name="rate"),
    Column("P50 S", lambda row: seconds(row.endpoint.p50_s), 5, value=lambda row: row.endpoint.p50_s, right=True,
           live=True),
    Column("P95 S", lambda row: seconds(row.endpoint.p95_s), 5, value=lambda row: row.endpoint.p95_s, right=True,
           live=True),
    Column("OK", lambda row: count(row.endpoint.counts.get("ok", 0)), 7, right=True, rank=2,
           value=lambda row: row.endpoint.counts.get("ok", 0)),
    counted("429", "429"),
    counted("5xx", "5XX", 4),
    counted("timeout", "TIMEOUT", 3),
    counted("failed", "FAIL", 5, "unreadable"),
    counted("retries", "RETRY", 6),
)  # fmt: skip

JOBS: Final[tuple[Column[JudgedJob], ...]] = (
    Column("JOB", lambda row: Cell(row.job, "bold"), 7, right=True),
    Column("STATE", lambda row: row.state, 8, rank=3),
    Column("MODEL", lambda row: row.model, 18, least=12, grow=2, cut="model", rank=2),
    Column("BENCHMARK", lambda row: row.benchmark, 16, least=10, grow=1, cut="middle"),
    Column("WAITING", lambda row: count(row.waiting), 7, value=lambda row: row.waiting, right=True),
    Column("JUDGED", lambda row: count(row.judged), 7, value=lambda row: row.judged, right=True),
    Column("UNJUDGED", lambda row: Cell(count(row.unjudged), "warn" if row.unjudged else "dim"), 8, right=True,
           value=lambda row: row.unjudged),
    Column("COST", lambda row: f"{row.cost:.2f}", 7, value=lambda row: row.cost, right=True, rank=1),
    Column("WHY", lambda row: row.why or "–", 20, least=12, grow=2),
)  # fmt: skip


def jobs_of(reply: JudgeReply, scores: Iterable[ScoreView], state: ConsoleState) -> list[JudgedJob]:
    """Return the jobs at the judge, then finished ones with samples that lack its verdict."""
    at_work = [judged(judge, one.job, state) for judge in reply.judges for one in judge.jobs]
    known = {row.job for row in at_work}
    not_begun = [waits(job) for job in state.jobs.values() if job.state == "judging" and job.id not in known]
    again = {job.id for job in state.jobs.values() if job.state != "done"}  # they are being graded once more
    lacking = [lacks(score) for score in scores if score.unjudged and score.job not in known | again]
    return [*at_work, *not_begun, *lacking]


def judged(judge: JudgeView, name: str, state: ConsoleState) -> JudgedJob:
    """Return a job that the judge works on; the checker's are named `check-j7`."""
    one = next(job for job in judge.jobs if job.job == name)
    job = state.jobs.get(name.removeprefix("check-"))
    tokens = one.usage.get("prompt_tokens", 0) + one.usage.get("completion_tokens", 0)
    return JudgedJob(
        name, job.model if job else "", job.benchmark if job else "", job.state if job else judge.role, one.waiting,
        one.judged, one.unjudged, tokens, one.usage.get("cost", 0), one.parked,
    )  # fmt: skip


def lacks(score: ScoreView) -> JudgedJob:
    """Return a finished job whose score is held back by samples without a verdict."""
    return JudgedJob(score.job, score.model, score.benchmark, "done", judged=score.scored, unjudged=score.unjudged,
                  why=score.why_null or "e sends these to the judge again")  # fmt: skip


def waits(job: JobView) -> JudgedJob:
    """Return a job that the judge has not taken up."""
    return JudgedJob(job.id, job.model, job.benchmark, job.state, why=joined([job.reason, job.detail]))


def about(reply: JudgeReply) -> list[Pieces]:
    """Return the detail lines of each judge: work and cost, the oldest requests in flight, keys, and trust in rules."""
    lines: list[Pieces] = []
    for judge in reply.judges:
        lines += [*doing(judge), *map(flight, judge.flights[:FLIGHTS]), *keys(judge)]
    lines += [[(" trusted    ", "dim"), (sentence, "")] for sentence in reply.calibrations]
    return lines


def doing(judge: JudgeView) -> list[Pieces]:
    """Return one judge's work and cost in two lines."""
    outages = f"outages: {judge.outages}, {duration(judge.outage_s)} in all" if judge.outages else "no outage"
    work = f"{judge.in_flight} in flight, {judge.queue} queued, {judge.rate:.1f} a second, {outages}"
    tokens = judge.usage.get("prompt_tokens", 0) + judge.usage.get("completion_tokens", 0)
    paid = f"{judge.usage.get('cost', 0):.2f} for {count(tokens)} tokens; {budget(judge)}"
    known = f"; {count(judge.from_cache)} replies came from the cache and cost nothing" if judge.from_cache else ""
    lines: list[Pieces] = [
        [(f" {judge.role:<11}", "bold"), (f"{judge.model}: {work}", "")],
        [(" spent      ", "dim"), (paid + known, "")],
    ]
    fails = filter(None, (failing(one.name, one.counts) for one in judge.endpoints))
    lines += [[(" fails      ", "dim"), (sentence, "bad")] for sentence in fails]
    return lines + ([[(" waits      ", "dim"), (judge.parked, "warn")]] if judge.parked else [])


def budget(judge: JudgeView) -> str:
    """Return the limits on cost and tokens in words, a day or in all."""
    limits = [f"{judge.budget:g}"] if judge.budget else []
    limits += [f"{judge.budget_tokens:,} tokens"] if judge.budget_tokens else []
    when = " a day" if judge.budget_resets == "daily" else " in all"
    return f"at most {' and '.join(limits)}{when}" if limits else "no budget is set"


def flight(one: JudgeFlightView) -> Pieces:
    """Return a line on one request in flight: its sample, age, attempt and last error."""
    again = f", attempt {one.attempt}" if one.attempt > 1 else ""
    wrong = f": {one.last_error}" if one.last_error else ""
    return [(" in flight  ", "dim"), (f"{one.job} sample {one.label}, {duration(one.seconds)}{again}{wrong}", "")]


def keys(judge: JudgeView) -> list[Pieces]:
    """Return the judge's API keys, masked by the daemon."""
    return [key_line(endpoint, key) for endpoint in judge.endpoints for key in endpoint.keys]


def key_line(endpoint: JudgeEndpointView, key: Mapping[str, object]) -> Pieces:
    """Return one API key in a line: its masked name, its state, and its requests in flight of those allowed."""
    state = str(key.get("state"))
    use = f"  {key.get('in_flight')} of {key.get('allowed')} at once, {endpoint.name}"
    return [(f" key        {key.get('name')}  ", "dim"), (state, "" if state == "ok" else "bad"), (use, "dim")]


def regrade_question(rows: Sequence[JudgedJob]) -> list[Pieces]:
    """Return the lines of the question before unjudged samples are sent to the judge again."""
    left = sum(row.unjudged for row in rows)
    names = " ".join(row.job for row in rows)
    return [
        [(f"Ask the judge again about {left} samples of {names}?", "title")],
        [("", "")],
        [("will     ", "dim"), ("send every sample that has no verdict to the judge once more", "")],
        [("costs    ", "dim"), ("the judge's price for these; replies in the cache cost nothing", "")],
        [("loses    ", "dim"), ("nothing: existing verdicts stay", "")],
        [("same as  ", "dim"), (f"rwkvctl regrade {names}", "info")],
    ]
