"""Answers about stored scores."""

from collections.abc import Sequence

from rwkv_daemon.api import state_views
from rwkv_daemon.catalogue import second_names
from rwkv_daemon.changes.records import Records
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.store.queries.comparing import same_work_of
from rwkv_daemon.store.queries.samples import scores
from rwkvctl.protocol.replies import ScoresReply
from rwkvctl.protocol.requests import ScoresRequest
from rwkvctl.protocol.views import ScoreView


async def list_scores(records: Records, request: ScoresRequest) -> ScoresReply:
    """Answer `GET /v1/scores`: a page of the scores that match, newest first."""
    limit = page_size(request.limit)
    names = await second_names.names_of_weights(records)
    found = await scores(
        records.store, model=request.model, weights=second_names.weights_called(request.model, names),
        benchmark=request.benchmark, session=request.session, all_versions=request.all_versions, before=request.before,
        limit=limit,
    )  # fmt: skip
    read = state_views.brief_score if request.brief else state_views.score_decoder.decode
    page = [second_names.MeasuredScore(read(one.view), one.weights_sha256) for one in found]
    items = await second_names.under_every_name(records.store, page, names, request.model, every=request.all_versions)
    if request.session and not request.before:
        items += await of_same_work(records, request, items)
    return ScoresReply(items=tuple(items), next=int(page[-1].score.job[1:]) if len(page) == limit else 0)


async def of_same_work(records: Records, request: ScoresRequest, known: Sequence[ScoreView]) -> list[ScoreView]:
    """Return the scores of a session's jobs that use another job's score, if they match and are not in `known`."""
    seen = {(score.model, score.benchmark, score.kind) for score in known}
    jobs = [
        job
        for job in await same_work_of(records.store, request.session)
        if request.model in {"", job.model}
        and request.benchmark in {"", job.benchmark}
        and (job.model, job.benchmark, job.kind) not in seen
    ]
    return list((await state_views.scores_by_job(records, jobs)).values())
