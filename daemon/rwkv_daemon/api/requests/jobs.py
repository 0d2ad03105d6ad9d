"""Answers about jobs: pages of them, single ones, and grading them again."""

import msgspec

from rwkv_daemon.api import state_views
from rwkv_daemon.api.requests.job_control import find_job
from rwkv_daemon.catalogue import second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs import regrading
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.jobs import jobs_in, newest_jobs
from rwkv_daemon.store.queries.sessions import session_row
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.replies import ChangedReply, JobReply, JobsReply
from rwkvctl.protocol.requests import JobsRequest, RegradeRequest
from rwkvctl.protocol.states import JobState
from rwkvctl.protocol.views import ChangedJob


async def jobs(records: Records, waiting: WaitingJobs, running: RunningJobs, request: JobsRequest) -> JobsReply:
    """Answer `GET /v1/jobs`: a page of the jobs that match, newest first, and how many there are in each state."""
    limit = page_size(request.limit)
    before = max(0, min(request.before, 2**62))
    states = tuple(filter(None, request.state.split(",")))
    found = await newest_jobs(
        records.store, states, session=request.session, words=request.words.split(), before=before, limit=limit
    )
    return JobsReply(
        items=await state_views.live_job_views(records, waiting, running, found, with_score=True),
        counts=await waiting.state_counts.of(records.store, request.session),
        next=found[-1].id if len(found) == limit else 0,
    )


async def one_job(records: Records, waiting: WaitingJobs, running: RunningJobs, job: JobRow) -> JobReply:
    """Return one job with its configuration and, once it is graded, its score."""
    item = await state_views.live_job_view(records, waiting, running, job, with_score=True)
    session = await session_row(records.store, job.session)
    labels = {name: session[name] for name in ("suite", "note")} if session else {}
    return JobReply(item=item, configuration=msgspec.json.decode(job.configuration or "{}"), **labels)


async def regrade(
    records: Records, running: RunningJobs, catalogue: NodeCatalogue, request: RegradeRequest
) -> ChangedReply:
    """Grade finished jobs again: named ones, or all of a session."""
    names = request.jobs
    if request.session:
        done = await jobs_in(records.store, ("done",), session=request.session, limit=10**6)
        names += tuple(job.name for job in done if not second_names.is_same_work(job))
    async with records.owner:
        return ChangedReply(items=tuple([await regrade_one(records, running, catalogue, name) for name in names]))


async def regrade_one(records: Records, running: RunningJobs, catalogue: NodeCatalogue, name: str) -> ChangedJob:
    try:
        job = await find_job(records, name)
    except RefusedError as error:
        return ChangedJob(job=name, state="", changed=False, error=str(error))
    try:
        job = await regrading.regrade(records, running, catalogue, job)
    except RefusedError as error:
        # A job that is graded already is as the client wants it: no error.
        wrong = "" if error.code == "graded" else str(error)
        return ChangedJob(job=job.name, state=job.state, changed=False, error=wrong)
    state: JobState = "judging" if job.state == "judging" else "grading"
    return ChangedJob(job=job.name, state=state, changed=True)
