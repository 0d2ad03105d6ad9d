"""Requests about the judge, the review list and searches, and their answers."""

import json
from dataclasses import asdict

import msgspec

from rwkv_daemon.api.requests.job_control import find_job
from rwkv_daemon.changes import caller
from rwkv_daemon.changes.records import Records
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.node import Node
from rwkv_daemon.planning import planner
from rwkv_daemon.remote.service_stats import ServiceStats
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.samples import score_of
from rwkv_daemon.store.queries.searches import add_promotion, searches_of
from rwkv_daemon.store.queries.verdicts import add_review, findings
from rwkv_daemon.store.wall_time import now
from rwkv_data.definition import sampling_search
from rwkv_data.definition.errors import SettingError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import JudgeReply, PromotionReply, ReviewReply, SearchReply
from rwkvctl.protocol.requests import NamedCheckpoint, ReviewMark, ReviewRequest, SearchSelect, Selection
from rwkvctl.protocol.views import FindingView, JudgeView, PointView


def services_of(judges: Judges) -> JudgeReply:
    """Return the state of the judge and the checker."""
    found = []
    if judges.judge is not None:
        found.append(judge_view("judge", judges.judge.stats()))
    if judges.checker is not None and judges.checker is not judges.judge:
        found.append(judge_view("checker", judges.checker.stats()))
    return JudgeReply(judges=tuple(found), calibrations=tuple(judges.calibrations.values()))


def judge_view(role: str, stats: ServiceStats) -> JudgeView:
    """Return the statistics of the service with this role (judge or checker); keys are masked."""
    return msgspec.convert(asdict(stats) | {"role": role}, JudgeView, str_keys=True)


def retry_judges(judges: Judges) -> JudgeReply:
    """Answer `POST /v1/judge/retry`: let the judge and the checker try every key again at once."""
    for service in (judges.judge, judges.checker):
        if service is not None:
            service.revive()
    return services_of(judges)


async def review(records: Records, request: ReviewRequest) -> ReviewReply:
    """Return one page of the checker's findings about wrong answers, of one job or of all."""
    job = await find_job(records, request.job) if request.job else None
    limit = page_size(request.limit)
    after = max(-1, min(request.after, 2**62))
    rows = await findings(records.store, job=job.id if job else None, every=request.every, after=after, limit=limit)
    return ReviewReply(
        items=tuple(
            FindingView(
                sample=row["sample"],
                job=f"j{row['job']}",
                model=row["model"],
                benchmark=row["benchmark"],
                kind=row["kind"],
                row=row["row"],
                repeat=row["repeat"],
                expected=row["expected"],
                extracted=row["extracted"],
                needs_review=bool(row["needs_review"]),
                reviewed=row["reviewed"],
                finding=json.loads(row["finding"]),
            )
            for row in rows
        ),
        next=rows[-1]["sample"] if len(rows) == limit else -1,
    )


async def mark(records: Records, request: ReviewMark) -> ReviewReply:
    """Answer `POST /v1/review`: store a person's decision about the checker's findings on a sample. Raises RefusedError
    if there is no finding about that sample."""
    sample = max(-1, min(request.sample, 2**62))
    async with records.change() as change:
        if not await add_review(change.db, sample, request.decision):
            text = f"There is no finding about sample {request.sample}."
            raise RefusedError("no-such-sample", text, "`rwkvctl review` lists them.", Exit.NOT_FOUND)
        await change.note("review", text=f"sample {request.sample}: {request.decision}")
    return ReviewReply(items=())


async def search(records: Records, job: JobRow) -> SearchReply:
    """Return the points of a finished search, best first, dropped ones last. Raises RefusedError if the job is no
    finished search."""
    stored = await score_of(records.store, job.id)
    found = json.loads(stored)["provenance"].get("search") if stored else None
    if found is None:
        raise RefusedError("no-search", f"{job.name} is no finished search.", exit_code=Exit.NOT_FOUND)
    points = [point_view(point) for point in found["points"]]
    return SearchReply(job=job.name, points=tuple(sorted(points, key=lambda p: (-p.rows, -(p.value or 0), p.point))))


def point_view(point: dict[str, object]) -> PointView:
    return msgspec.convert(point, PointView)


async def select(node: Node, request: SearchSelect) -> PromotionReply:
    """Choose the best point that a model's searches share, record it, and queue its measurement if asked to."""
    found = await searches_of(node.records.store, request.model, request.benchmarks)
    missing = set(request.benchmarks) - {one.benchmark for one in found}
    if missing or not found:
        what = f" of {', '.join(sorted(missing))}" if missing else ""
        hint = "Run one: rwkvctl dispatch --only-jobs param_search_free_response"
        raise RefusedError("no-search", f"{request.model} has no finished search{what}.", hint, Exit.NOT_FOUND)
    try:
        best = sampling_search.shared_best([one.summary for one in found])
    except SettingError as error:
        raise RefusedError("other-grids", str(error)) from error
    if best is None:
        raise RefusedError("no-shared-point", "No point went through all rows of all searches.")
    settings, objective = best
    reply = PromotionReply(
        model=request.model,
        settings=settings,
        objective=objective,
        searches=tuple(one.job for one in found),
        benchmarks=tuple(one.benchmark for one in found),
        kinds=tuple(dict.fromkeys(one.kind.removeprefix("param_search_") for one in found)),
    )
    if request.dispatch:
        session, jobs = await dispatch(node, selection_of(reply, found[0].weights_path), found[0].weights_sha256)
        reply = msgspec.structs.replace(reply, session=session, jobs=jobs)
    async with node.records.change() as change:
        await add_promotion(change.db, now(), request.model, found[0].weights_sha256, msgspec.to_builtins(reply))
        await change.note("promotion", text=f"{request.model}: {settings} is best over {', '.join(reply.benchmarks)}")
    return reply


def selection_of(reply: PromotionReply, weights_path: str) -> Selection:
    """Return the selection that measures a promoted point, on the rows that the searches have not used."""
    return Selection(
        checkpoints=(NamedCheckpoint(path=weights_path, name=reply.model),),
        only_datasets=reply.benchmarks,
        only_jobs=reply.kinds,
        settings=reply.settings | {"part": "report"},
    )


async def dispatch(node: Node, selection: Selection, weights_sha256: str) -> tuple[str, tuple[str, ...]]:
    """Queue the measurement of a promoted point, for the weights that were searched only. The daemon itself names their
    file, so the client need not show it."""

    async def nothing_to_remember(_db: object, _session: str, _jobs: list[str]) -> None:
        """Store no reply for a request id: `select` records the promotion."""

    async with node.records.owner:
        asker = caller.CALLER.set(caller.the_daemon())
        try:
            made = await planner.plan(node.work, node.catalogue, selection)
        except SelectionError as error:
            raise RefusedError("bad-selection", str(error), exit_code=Exit.USAGE) from error
        finally:
            caller.CALLER.reset(asker)
        if any(pair.model.sha256 != weights_sha256 for pair in made.pairs):
            text = f"{selection.checkpoints[0].path} does not hold the weights that were searched any more."
            raise RefusedError("bad-selection", text, "Dispatch the model as it is now.", Exit.USAGE)
        session, jobs = await planner.dispatch(node.work, node.catalogue, selection, made, nothing_to_remember)
    node.records.wake.set()
    return session, tuple(jobs)
