"""Jobs that wait for a judge, and wrong answers that the checker looks at: two services, each a task of the daemon.

A job in the state `judging` holds no engine and no runner. Its samples wait through outages and budgets; each verdict
is stored as it comes, and nothing is ever paid for twice. A sample that the judge cannot do (unreadable replies,
refused) stays `unjudged` and holds the score back: never a wrong answer.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, field

from rwkv_daemon.judge.calibrate import calibrate
from rwkv_daemon.judge.reading import NOTHING
from rwkv_daemon.judge.service import JudgeOutcome, JudgeService, JudgeTask
from rwkv_daemon.node import Change, Node, log
from rwkv_daemon.scores import asked_rows, effective_kind, store_score
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.jobs import get_job, jobs_in, jobs_to_check, update_job
from rwkv_daemon.store.judging import (
    Judged,
    StoredReplies,
    ToJudge,
    add_finding,
    add_verdicts,
    spent,
    spent_on,
    unchecked,
    unjudged,
)
from rwkv_data.answer import Answer
from rwkv_data.judges.checker import Check, rule_for
from rwkv_data.judging import JudgeRule, Verdict
from rwkv_data.stage import Row
from rwkvctl import config
from rwkvctl.protocol.states import REASONS

LOOK_S = 1.0
AGAIN_S = 10.0
STORE_EVERY = 32


@dataclass(slots=True)
class Judging:
    """What is being judged now."""

    node: Node
    at_work: set[tuple[str, int]] = field(default_factory=set)

    def begin(self, tasks: asyncio.TaskGroup, what: str, job: JobRow) -> None:
        """Start on a job, unless it is being worked on."""
        if (what, job.id) not in self.at_work:
            self.at_work.add((what, job.id))
            work = judge_job(self, job) if what == "judge" else check_job(self.node, job)
            tasks.create_task(self._guarded(what, job, work), name=f"{what} {job.name}")

    async def _guarded(self, what: str, job: JobRow, work: Coroutine[None, None, None]) -> None:
        """One job's trouble is not the others': it is logged, and tried again at a later look."""
        try:
            await work
        except Exception:  # noqa: BLE001 - logged; the job stays where it is
            log.exception("%s: judging failed; it is tried again", job.name)
            await asyncio.sleep(AGAIN_S)
        finally:
            self.at_work.discard((what, job.id))

    async def calibrate(self, service: JudgeService, rule: JudgeRule) -> None:
        """Know how far the judge can be trusted before its verdicts are; asked once, then in the store."""
        if rule.name not in self.node.calibrations:
            self.node.calibrations[rule.name] = (await calibrate(service, rule)).sentence()

    def provenance(self, rule: JudgeRule | None) -> dict[str, object]:
        """What a score says of its judge."""
        if rule is None or self.node.judge is None:
            return {}
        known = self.node.calibrations.get(rule.name)
        said: dict[str, object] = {"model": self.node.judge.model, "rule": f"{rule.name}/{rule.version}"}
        return said | ({"calibration": known} if known else {})


async def open_services(node: Node) -> None:
    """The judge and the checker that the configuration asks for. Raises ConfigError."""
    replies = StoredReplies(node.store)
    if (settings := config.judge_config("judge")) is not None:
        node.judge = JudgeService(settings, replies, spent=await spent(node.store, settings.budget_resets))
        node.benchmarks.judge = node.judge.model
    if (settings := config.judge_config("checker")) is not None:
        paid = NOTHING if node.judge else await spent(node.store, settings.budget_resets)
        node.checker = JudgeService(settings, replies, spent=paid)
    else:
        node.checker = node.judge


async def judge_forever(node: Node) -> None:
    """Give every job in `judging` to the judge, and wrong answers to the checker, until cancelled."""
    judging = Judging(node)
    async with asyncio.TaskGroup() as tasks:
        for service in {service for service in (node.judge, node.checker) if service is not None}:
            tasks.create_task(service.run(), name="judge")
        while True:
            for job in await jobs_in(node.store, ("judging",)):
                judging.begin(tasks, "judge", job)
            for job in await jobs_to_check(node.store) if node.checker else []:
                judging.begin(tasks, "check", job)
            await asyncio.sleep(LOOK_S)


async def judge_job(judging: Judging, job: JobRow) -> None:
    """Judge what waits of one job, then store its score. Stopped jobs, and a stopping daemon, leave the rest."""
    node, service = judging.node, judging.node.judge
    rule = effective_kind(node, job).grader.judge
    waiting = await unjudged(node.store, job.id, job.grade_key)
    stopped = False
    if waiting and rule is not None:
        if service is None:
            await _no_judge(node, job)
            return
        await judging.calibrate(service, rule)
        stopped = await _ask_all(node, service, job, rule, waiting)
        service.close_job(job.name)
    job_now = await get_job(node.store, job.id)
    if not stopped and job_now is not None and job_now.state == "judging":
        await store_score(node, job_now, _no_attempt_ends, judge=judging.provenance(rule))


async def _no_attempt_ends(_change: Change) -> None:
    """Verdicts come after the last attempt."""


async def _no_judge(node: Node, job: JobRow) -> None:
    """The configuration has lost its judge: the job waits, and says so."""
    if job.reason != "judge-not-configured":
        async with node.change() as change:
            await update_job(change.db, job.id, reason="judge-not-configured", detail=REASONS["judge-not-configured"])


async def _ask_all(node: Node, service: JudgeService, job: JobRow, rule: JudgeRule, waiting: list[ToJudge]) -> bool:
    """Every sample, its verdict stored soon after it is known; whether the job was stopped on the way."""
    rows, problem = asked_rows(node, job)
    if rows is None:
        raise ValueError(f"its rows cannot be read: {problem}")
    found: list[Judged] = []
    stopped = False

    async def flush() -> None:
        taken = found[:]
        found.clear()
        with (node.folder(job.id).path / "verdicts.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in taken)
        async with node.store.write() as db:
            await add_verdicts(db, job.grade_key, taken)

    async def deliver(task: JudgeTask[Verdict], outcome: JudgeOutcome[Verdict]) -> None:
        nonlocal stopped
        if outcome.status == "stopped":
            stopped = True
            return
        found.append(_judged(int(task.label), outcome))
        if len(found) >= STORE_EVERY:
            await flush()

    service.open_job(job.name, priority=job.priority, spent=await spent_on(node.store, job.id, job.grade_key))
    await service.judge_all(_tasks(job, rule, rows, waiting), deliver)
    await flush()
    return stopped


def _tasks(job: JobRow, rule: JudgeRule, rows: list[Row], waiting: list[ToJudge]) -> Iterator[JudgeTask[Verdict]]:
    for sample in waiting:
        yield JudgeTask(
            job=job.name,
            row=rows[sample.row],
            rule=rule,
            extracted=sample.extracted,
            answer=answer_of(sample),
            label=str(sample.number),
            fresh=sample.tried,
        )


def answer_of(sample: ToJudge) -> Answer:
    """The texts of a stored sample as a grader sees them."""
    texts = sample.texts or ("",)
    return Answer(texts[-1], sample.stops, earlier=texts[:-1])  # type: ignore[arg-type]  # stored stop kinds


def _judged(number: int, outcome: JudgeOutcome[Verdict]) -> Judged:
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
        return Judged(number, None, f"{outcome.status}: {outcome.detail}", "", {}, said)
    return Judged(number, finding.value, finding.detail, finding.extracted, dict(finding.parts), said)


async def check_job(node: Node, job: JobRow) -> None:
    """Let the checker say of each wrong answer what is wrong with it, and whether a person should look."""
    service, (rows, problem) = node.checker, asked_rows(node, job)
    stopped = service is None
    if rows is None:
        log.warning("%s: wrong answers cannot be checked: %s", job.name, problem)
    elif service is not None:
        stopped = await _check_all(node, service, job, rows)
    if not stopped:
        async with node.store.write() as db:
            await update_job(db, job.id, checking="done")


async def _check_all(node: Node, service: JudgeService, job: JobRow, rows: list[Row]) -> bool:
    """Every wrong answer, its findings stored as they come; whether the checker was stopped on the way."""
    rule, name = rule_for(service.config.max_prompt_chars), f"check-{job.name}"
    wrong = await unchecked(node.store, job.id, job.grade_key)
    stopped = False

    async def deliver(task: JudgeTask[Check], outcome: JudgeOutcome[Check]) -> None:
        nonlocal stopped
        stopped = stopped or outcome.status == "stopped"
        if outcome.finding is None:
            return
        said = asdict(outcome.finding) | {"model": outcome.model}
        review = outcome.finding.needs_human_review
        async with node.store.write() as db:
            await add_finding(db, job.id, job.grade_key, int(task.label), needs_review=review, finding=said)

    await service.judge_all(
        (
            JudgeTask(
                job=name, row=rows[s.row], rule=rule, extracted=s.extracted, answer=answer_of(s), label=str(s.number)
            )
            for s in wrong
        ),
        deliver,
    )
    service.close_job(name)
    return stopped
