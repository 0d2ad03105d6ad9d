"""Jobs that wait for a judge, and wrong answers that the checker reviews: two services, each a task of the daemon.

A job in the state `judging` holds no engine and no runner. Its samples wait through outages and budgets; each verdict
is stored as it comes, and nothing is ever paid for twice. A sample that the judge cannot decide (unreadable replies,
refused) stays `unjudged` and holds the score back: it is never a wrong answer.
"""

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs import run_archive
from rwkv_daemon.jobs.label_writer import end_labelling
from rwkv_daemon.jobs.pause_resume import pause_the_judge
from rwkv_daemon.jobs.score_writer import asked_rows, effective_kind, store_score
from rwkv_daemon.judge.calibration import calibrate
from rwkv_daemon.judge.judge_service import JudgeOutcome, JudgeService, JudgeTask
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.rules import work_keys
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, StoreError
from rwkv_daemon.store.queries.jobs import (
    MovedMeanwhileError,
    as_json,
    get_job,
    jobs_by_id,
    jobs_in,
    jobs_to_check,
    update_job,
)
from rwkv_daemon.store.queries.samples import count_unjudged, refresh_counts
from rwkv_daemon.store.queries.verdicts import (
    JudgedSample,
    StoredReplies,
    ToJudge,
    add_finding,
    add_verdicts,
    copy_for_judge,
    spent,
    spent_on,
    unchecked,
    unjudged,
)
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.stage import Row
from rwkv_data.judges.checker import CheckerResult, rule_for
from rwkv_data.judges.judge_rule import JudgeRule, JudgeVerdict
from rwkvctl.protocol.states import REASONS
from rwkvctl.settings import config
from rwkvctl.settings.fields import Settings

LOOK_S = 1.0
AGAIN_S = 10.0
STORE_EVERY = 32
JOBS_AT_ONCE: Final = 64
"""Jobs whose answers are in memory while they wait for the judge; after an outage of a night there are thousands."""
NOBODY_ASKED: Final = 1000
"""Jobs in one round whose detail is set to say that there is no judge."""
TOLD = frozenset({"outage", "recovered", "budget", "key-out"})
"""Judge events that are stored; others are only logged."""


@dataclass(slots=True)
class Judging:
    """Jobs that the judge or the checker is working on, and how often each has failed."""

    records: Records
    judges: Judges
    catalogue: NodeCatalogue
    at_work: set[tuple[str, int]] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)

    def begin(self, tasks: asyncio.TaskGroup, what: str, job: JobRow) -> None:
        """Start to work on a job, unless that is in progress."""
        if (what, job.id) not in self.at_work:
            self.at_work.add((what, job.id))
            work = (
                judge_job(self, job) if what == "judge" else check_job(self.records, self.judges, self.catalogue, job)
            )
            tasks.create_task(self._guarded(what, job, work), name=f"{what} {job.name}")

    async def _guarded(self, what: str, job: JobRow, work: Coroutine[None, None, None]) -> None:
        """Work on one job. An error does not affect other jobs: it is logged, and the job is tried again later."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - logged and said; the job stays where it is, or fails alone
            log.exception("%s: judging failed", job.name)
            with contextlib.suppress(StoreError):
                await self._failed(what, job, cause_of(error))
            await asyncio.sleep(AGAIN_S)
        else:
            self.failures.pop(job.id, None)
        finally:
            self.at_work.discard((what, job.id))

    async def _failed(self, what: str, job: JobRow, error: Exception) -> None:
        """Note a failure, to be tried again; a job that fails every time fails with the error."""
        count = self.failures[job.id] = self.failures.get(job.id, 0) + (not isinstance(error, StoreError))
        if count <= self.records.config.settings.max_restarts:
            await say(self.records, job, f"judging failed and is tried again: {error}")
            return
        if what == "check":  # its score stays; a job that cannot be checked must not keep the checker from others
            self.failures.pop(job.id)
            async with self.records.store.write() as db:
                await update_job(db, job.id, checking="done")
            return
        job_now = await get_job(self.records.store, job.id)
        if job_now is not None and job_now.state == "judging":
            self.failures.pop(job.id)
            async with self.records.change() as change:
                detail = f"judging failed {count} times: {error}; `rwkvctl retry {job.name}` asks again"
                await change.move(job_now, "fail", detail=detail, failure="judge")

    async def calibrate(self, service: JudgeService, rule: JudgeRule) -> None:
        """Measure the judge's reliability before its verdicts are used; this is done once and then read from the
        store."""
        if rule.name not in self.judges.calibrations:
            self.judges.calibrations[rule.name] = (await calibrate(service, rule)).sentence()

    def provenance(self, rule: JudgeRule | None, service: JudgeService | None) -> dict[str, object]:
        """Return what a score's provenance records of its judge."""
        if rule is None or service is None:
            return {}
        known = self.judges.calibrations.get(rule.name)
        said: dict[str, object] = {"model": service.model, "rule": f"{rule.name}/{rule.version}"}
        return said | ({"calibration": known} if known else {})


def cause_of(error: Exception) -> Exception:
    """Return the cause in a group of errors: the store's trouble, which is no failure of the job, else the first."""
    while isinstance(error, ExceptionGroup):
        error = next((one for one in error.exceptions if isinstance(one, StoreError)), error.exceptions[0])
    return error


async def open_services(records: Records, judges: Judges, catalogue: NodeCatalogue) -> None:
    """Open the judge and the checker of the configuration. Raises ConfigError."""
    use(judges, catalogue, *await services(records, judges, records.config.settings))


async def services(
    records: Records, judges: Judges, settings: Settings
) -> tuple[JudgeService | None, JudgeService | None]:
    """Return the judge and the checker of the configuration; a service whose settings are unchanged stays. Without a
    configuration nothing is checked, as it costs money. Raises ConfigError."""
    judge = await service(records, judges, "judge", judges.judge)
    checker = await service(records, judges, "checker", None if judges.checker is judges.judge else judges.checker)
    return judge, checker or (judge if settings.checker else None)


async def service(records: Records, judges: Judges, role: str, present: JudgeService | None) -> JudgeService | None:
    """Return the service of a role; None if it is not configured. Raises ConfigError."""
    settings = config.judge_config(role)
    if settings is None or (present is not None and present.is_of(settings)):
        return present if settings else None
    paid = await spent(records.store, role, settings.budget_resets)
    return JudgeService(settings, StoredReplies(records.store, role), spent=paid, tell=judges.says.append)


def use(judges: Judges, catalogue: NodeCatalogue, judge: JudgeService | None, checker: JudgeService | None) -> None:
    """Judge with these services from now on. Whatever waits for a replaced service is stopped, and begins again."""
    if (judge and judge.model) != (judges.judge and judges.judge.model):
        judges.calibrations.clear()
    judges.judge, judges.checker = judge, checker
    catalogue.benchmarks.judge = judge.model if judge else ""


async def judge_forever(records: Records, waiting: WaitingJobs, judges: Judges, catalogue: NodeCatalogue) -> None:
    """Give every job in `judging` to the judge, and wrong answers to the checker, until cancelled."""
    judging = Judging(records, judges, catalogue)
    running: set[JudgeService] = set()
    if any(found is not None and found.exchange.stopping for found in (judges.judge, judges.checker)):
        judges.judge = judges.checker = None  # they ended when this task was restarted
        await open_services(records, judges, catalogue)
    async with asyncio.TaskGroup() as tasks:
        while True:
            wanted = {found for found in (judges.judge, judges.checker) if found is not None}
            for gone in running - wanted:
                gone.stop()
            for new in wanted - running:
                tasks.create_task(new.run(), name="judge")
            running = wanted
            with contextlib.suppress(StoreError):  # the supervisor reports it; running judge tasks go on
                await tell(records, judges)
                pause_the_judge(waiting, judges)
                await look(judging, tasks)
            await asyncio.sleep(LOOK_S)


async def tell(records: Records, judges: Judges) -> None:
    """Store the judge's events that an operator should know."""
    while judges.says:
        said = judges.says.popleft()
        if said.kind in TOLD:
            async with records.change() as change:
                await change.note("judge", text=said.text, data={"kind": said.kind})


async def look(judging: Judging, tasks: asyncio.TaskGroup) -> None:
    """Start with the most urgent jobs that wait, and stop asking for those that do not wait any more."""
    store, at_work = judging.records.store, {number for what, number in judging.at_work if what == "judge"}
    for job in await jobs_by_id(store, at_work):
        if job.state != "judging" and judging.judges.judge is not None:
            judging.judges.judge.cancel_job(job.name)
    room = JOBS_AT_ONCE - len(at_work) if judging.judges.judge else NOBODY_ASKED
    for job in await jobs_in(store, ("judging",), limit=room + len(at_work)) if room > 0 else []:
        if room > 0 and job.id not in at_work:
            judging.begin(tasks, "judge", job)
            room -= 1
    for job in await jobs_to_check(store) if judging.judges.checker else []:
        judging.begin(tasks, "check", job)


async def judge_job(judging: Judging, job: JobRow) -> None:
    """Judge a job's waiting samples, then store its score. If the job or the daemon is stopped, the rest is left. Of a
    labelling, all whose rows have ended, the labels are published."""
    records, service = judging.records, judging.judges.judge
    if job.labels_rows:
        with contextlib.suppress(MovedMeanwhileError):
            await end_labelling(records, judging.catalogue, job, _no_attempt_ends)
        return
    rule = effective_kind(judging.catalogue, job).grader.judge
    stopped = False
    if rule is not None and await count_unjudged(records.store, job.id, job.grade_key):
        if service is None:
            await say(records, job, REASONS["judge-not-configured"], "judge-not-configured")
            return
        service.open_job(job.name, priority=job.priority, spent=await spent_on(records.store, job.id, job.grade_key))
        try:
            await judging.calibrate(service, rule)
            job = await under_present_judge(records, job, service.model)
            stopped = await _ask_all(records, judging.catalogue, service, job, rule)
        finally:
            service.close_job(job.name)
    job_now = await get_job(records.store, job.id)
    if not stopped and job_now is not None and job_now.state == "judging":
        with contextlib.suppress(MovedMeanwhileError):  # it was stopped while its score was computed
            await store_score(
                records,
                judging.judges,
                judging.catalogue,
                job_now,
                _no_attempt_ends,
                judge=judging.provenance(rule, service),
            )


async def under_present_judge(records: Records, job: JobRow, model: str) -> JobRow:
    """Return the job under the grade key of the present judge; another one may have been configured at dispatch."""
    grading = json.loads(job.grading)
    if grading.get("judge_model", model) == model:
        return job
    grading["judge_model"] = model
    key = work_keys.grade_key(job.generation_key, job.grader, job.grader_version, grading)
    async with records.change() as change:
        await copy_for_judge(change.db, job.id, job.grade_key, key)
        await update_job(change.db, job.id, grade_key=key, grading=as_json(grading))
        await refresh_counts(change.db, job.id, key)
    return replace(job, grade_key=key, grading=as_json(grading))


async def _no_attempt_ends(_change: Change, _failure: str = "", _why: str = "") -> None:
    """Store nothing about an attempt: the last one ended before the judge began."""


async def say(records: Records, job: JobRow, detail: str, reason: str = "") -> None:
    """Store as the job's detail why it waits for the judge."""
    job_now = await get_job(records.store, job.id)
    if job_now is not None and job_now.state == "judging" and job_now.detail != detail:
        async with records.change() as change:
            await update_job(change.db, job.id, reason=reason, detail=detail)


async def _ask_all(
    records: Records, catalogue: NodeCatalogue, service: JudgeService, job: JobRow, rule: JudgeRule
) -> bool:
    """Judge every sample, and store verdicts soon after they come; returns whether the job was stopped meanwhile."""
    rows, problem = asked_rows(records, catalogue, job)
    if rows is None:
        raise ValueError(f"its rows cannot be read: {problem}")
    places: dict[int, tuple[int, int]] = {}
    found: list[JudgedSample] = []
    stopped = False

    async def flush() -> None:
        taken = found[:]
        found.clear()
        run_archive.keep_verdicts(records, job, [(places[one.sample], one) for one in taken])
        async with records.store.write() as db:
            await add_verdicts(db, job.grade_key, taken)
            await refresh_counts(db, job.id, job.grade_key)

    async def deliver(task: JudgeTask[JudgeVerdict], outcome: JudgeOutcome[JudgeVerdict]) -> None:
        nonlocal stopped
        if outcome.status == "stopped":
            stopped = True
            return
        found.append(_judged(int(task.label), outcome))
        if len(found) >= STORE_EVERY:
            await flush()

    after = 0
    while not stopped and (waiting := await unjudged(records.store, job.id, job.grade_key, after)):
        after, places = waiting[-1].number, {sample.number: (sample.row, sample.repeat) for sample in waiting}
        await service.judge_all(_tasks(job, rule, rows, waiting), deliver)
        await flush()
    return stopped


def _tasks(job: JobRow, rule: JudgeRule, rows: list[Row], waiting: list[ToJudge]) -> Iterator[JudgeTask[JudgeVerdict]]:
    for sample in waiting:
        yield JudgeTask(
            job=job.name,
            row=rows[sample.row],
            rule=rule,
            extracted=sample.extracted,
            answer=answer_of(sample),
            label=str(sample.number),
            fresh=sample.again,
        )


def answer_of(sample: ToJudge) -> Answer:
    """Return the texts of a stored sample as a grader sees them."""
    texts = sample.texts or ("",)
    return Answer(texts[-1], sample.stops, earlier=texts[:-1])  # type: ignore[arg-type]  # stored stop kinds


def _judged(number: int, outcome: JudgeOutcome[JudgeVerdict]) -> JudgedSample:
    finding = outcome.finding
    said: dict[str, object] = {
        "status": outcome.status,
        "model": outcome.model,
        "replies": list(outcome.replies),
        "latency_s": round(outcome.latency_s, 3),
        "usage": asdict(outcome.usage),
        "cached": outcome.cached,
    }
    if finding is None:
        return JudgedSample(number, None, f"{outcome.status}: {outcome.detail}", "", {}, said)
    return JudgedSample(number, finding.value, finding.detail, finding.extracted, dict(finding.parts), said)


async def check_job(records: Records, judges: Judges, catalogue: NodeCatalogue, job: JobRow) -> None:
    """Let the checker say of each wrong answer what is wrong with it, and whether a person should look at it."""
    service, (rows, problem) = judges.checker, asked_rows(records, catalogue, job)
    stopped = service is None
    if rows is None:
        log.warning("%s: wrong answers cannot be checked: %s", job.name, problem)
    elif service is not None:
        stopped = await _check_all(records, service, job, rows)
    if not stopped:
        async with records.store.write() as db:
            await update_job(db, job.id, checking="done")


async def _check_all(records: Records, service: JudgeService, job: JobRow, rows: list[Row]) -> bool:
    """Check every wrong answer, and store the findings as they come; returns whether the checker was stopped
    meanwhile."""
    rule, name = rule_for(service.config.max_prompt_chars), f"check-{job.name}"
    stopped = False

    async def deliver(task: JudgeTask[CheckerResult], outcome: JudgeOutcome[CheckerResult]) -> None:
        nonlocal stopped
        stopped = stopped or outcome.status == "stopped"
        if outcome.finding is None:
            return
        said = asdict(outcome.finding) | {"model": outcome.model}
        review = outcome.finding.needs_human_review
        async with records.store.write() as db:
            await add_finding(db, job.id, job.grade_key, int(task.label), needs_review=review, finding=said)

    after = 0
    while not stopped and (wrong := await unchecked(records.store, job.id, job.grade_key, after)):
        after = wrong[-1].number
        await service.judge_all(
            [
                JudgeTask(job=name, row=rows[s.row], rule=rule, extracted=s.extracted, answer=answer_of(s),
                          label=str(s.number))
                for s in wrong
            ],
            deliver,
        )  # fmt: skip
    service.close_job(name)
    return stopped
