"""What one job, one engine or one moment must not do to all others: the daemon's rounds, with real processes."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon import main, supervisor
from rwkv_daemon.api.requests import job_control
from rwkv_daemon.catalogue.contents import NodeBenchmarks, identity_of
from rwkv_daemon.engines import engine_processes
from rwkv_daemon.jobs import attempt_ends, judge_jobs, regrading
from rwkv_daemon.jobs.attempt_ends import AttemptEnd
from rwkv_daemon.node import Node
from rwkv_daemon.rules import outside_kills
from rwkv_daemon.rules.placement import StartJob, Wait
from rwkv_daemon.scheduling.live_engines import EngineHandle
from rwkv_daemon.scheduling.pauses import Pause
from rwkv_daemon.store import EngineRow, JobRow, NewJob, StoreError, open_store
from rwkv_daemon.store.queries import verdicts
from rwkv_daemon.store.queries.jobs import (
    MovedMeanwhileError,
    add_attempt,
    add_jobs,
    add_session,
    get_job,
    jobs_in,
    remember_sha256,
    running_attempts,
    update_job,
)
from rwkv_daemon.store.queries.pauses_attempts import update_attempt
from rwkv_daemon.store.queries.samples import ingest
from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.run_directory import JobSpec, Record, SampleRecord, StageRecord
from rwkvctl.protocol.endpoints import path_of
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="aaa", benchmark="demo_arith", kind="free_response",
    state="queued", reason="", detail="", priority=0, generation_key="g", grade_key="k", settings="{}",
    configuration="{}", grader="x", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r", seed=0,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=4, run_log_dir="",
)  # fmt: skip

ENGINE = EngineRow(
    id=1, uuid="u", model="m", weights_path="/w/m.pth", weights_sha256="aaa", numerics="fp32", lease="cpu:0",
    state="ready", socket="/s", health="{}", detail="", started="", ended="",
)  # fmt: skip


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Node]:
    """A node without a supervisor, with two places for grading. Its runners are gone afterwards."""
    settings = config.load(environ={"RWKVCTL_HOME": str(tmp_path), "RWKVCTL_GRADING_SLOTS": "2"})
    for folder in (settings.runs_dir, settings.socket.parent, settings.weights_dir, settings.data_dir):
        folder.mkdir(parents=True, exist_ok=True)
    made = Node.of(settings, await open_store(settings.store), NodeBenchmarks.open(settings))
    yield made
    for handle in made.running.runners.values():
        worker_process.sweep(handle.worker.uuid)
        handle.worker.close()
    await made.records.store.close()


async def queue(node: Node, count: int, **columns: Any) -> list[JobRow]:
    """So many jobs, with other values in these columns."""
    async with node.records.change() as change:
        await add_session(change.db, "s", "{}", "here", ("1", ""))
        numbers = await add_jobs(change.db, "s", [JOB] * count)
        for number in numbers if columns else ():
            await update_job(change.db, number, **columns)
    return [job for number in numbers if (job := await get_job(node.records.store, number)) is not None]


async def test_however_many_jobs_are_to_be_graded_again_few_runners_work_side_by_side(small: Node) -> None:
    await queue(small, 5, state="grading", stages_done=4)
    await supervisor.settle_without_process(small)
    await supervisor.grade_again(small)
    await supervisor.grade_again(small)
    assert len(small.running.runners) == 2
    assert all(handle.regrades for handle in small.running.runners.values())


async def test_nothing_is_graded_again_while_the_node_drains(small: Node) -> None:
    await queue(small, 1, state="grading", stages_done=4)
    small.waiting.pauses.standing["node", ""] = Pause("node", "", "2026-01-01T00:00:00Z", "root", "")
    await supervisor.grade_again(small)
    assert not small.running.runners


KILLED = worker_process.ShimRecord(
    shim=1, shim_start=1, pid=2, pid_start=2, boot_id="b", done=True, signal=signal.SIGKILL, oom=""
)


async def test_grading_again_is_not_undone_by_kills_unless_they_have_no_end(small: Node) -> None:
    [job] = await queue(small, 1, state="grading", stages_done=4, killed_at=4)
    for count in range(1, outside_kills.MOST):
        await attempt_ends.attempt_ended(
            small.work, small.judges, small.catalogue, AttemptEnd(job.id, job.attempt, KILLED)
        )
        found = await get_job(small.records.store, job.id)
        assert found is not None
        assert (found.state, found.restarts, found.kills) == ("grading", 0, count)
        assert small.running.retry_at[job.id] > time.monotonic()
        await supervisor.grade_again(small)
        assert not small.running.runners, "it waits first"
    await attempt_ends.attempt_ended(small.work, small.judges, small.catalogue, AttemptEnd(job.id, job.attempt, KILLED))
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.kills) == ("failed", outside_kills.MOST), "it never had a score"


@pytest.mark.parametrize("oom", ["machine", "cgroup", None])
async def test_kills_for_want_of_memory_are_the_jobs_own_tries(small: Node, oom: str | None) -> None:
    """It may itself take the memory; so is one of which nobody can tell."""
    [job] = await queue(small, 1, state="generating", engine=1)
    record = msgspec.structs.replace(KILLED, oom=oom)
    for tries in range(1, small.records.config.settings.max_restarts + 1):
        await attempt_ends.attempt_ended(
            small.work, small.judges, small.catalogue, AttemptEnd(job.id, job.attempt, record)
        )
        found = await get_job(small.records.store, job.id)
        assert found is not None
        assert (found.state, found.restarts, found.kills) == ("queued", tries, 0)
        async with small.records.change() as change:
            await update_job(change.db, job.id, state="generating", engine=1)
    await attempt_ends.attempt_ended(small.work, small.judges, small.catalogue, AttemptEnd(job.id, job.attempt, record))
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.failure) == ("failed", "infrastructure")


async def test_a_thousand_jobs_that_wait_for_the_judge_hide_no_job_without_a_runner(small: Node) -> None:
    await queue(small, 1001, state="judging", priority=5)
    async with small.records.change() as change:
        [lost] = await add_jobs(change.db, "s", [JOB])
        await update_job(change.db, lost, state="generating", engine=1)
    await supervisor.settle_without_process(small)
    job = await get_job(small.records.store, lost)
    assert job is not None
    assert job.state == "queued"


async def test_an_attempt_that_could_not_be_ended_is_looked_for_by_the_next_daemon(small: Node) -> None:
    """Else its job would be called stopped while it still runs."""
    [job] = await queue(small, 1, state="stopping", engine=1, attempt=1)
    async with small.records.change() as change:
        await add_attempt(change.db, job.id, 1, "u-1")
        await update_attempt(change.db, job.id, 1, state="stuck")
    assert [attempt.uuid for attempt in await running_attempts(small.records.store)] == ["u-1"]


async def test_all_jobs_of_weights_that_do_not_load_are_held_in_one_transaction(small: Node) -> None:
    await queue(small, 300)
    events = 0
    with small.records.bus.follow() as told:
        await engine_processes.hold_all(small.work, small.judges, "aaa", "does-not-load", "it is no checkpoint")
        events = told.qsize()
    held = await jobs_in(small.records.store, ("held",))
    assert (len(held), {job.reason for job in held}, events) == (300, {"does-not-load"}, 300)


async def test_the_second_engine_that_cannot_load_holds_the_jobs_of_its_weights(small: Node) -> None:
    path = small.records.config.weights_dir / "m.pth"
    path.write_bytes(b"no checkpoint")
    async with small.records.store.write() as db:
        await remember_sha256(db, identity_of(path), "aaa", str(path), "m")
    await queue(small, 2)
    for held in (0, 2):
        await engine_processes.refused(small.work, small.gpus, small.judges, replace(ENGINE, weights_path=str(path)))
        assert len(await jobs_in(small.records.store, ("held",))) == held


@pytest.mark.parametrize(("wanted", "state"), [("pause", "paused"), ("hold", "held")])
async def test_a_job_that_was_put_aside_is_on_no_engine(small: Node, wanted: str, state: str) -> None:
    intent = {"wanted": wanted, "wanted_reason": state, "wanted_why": "the night is over"}
    [job] = await queue(small, 1, state="generating", engine=1, **intent)
    await attempt_ends.attempt_ended(small.work, small.judges, small.catalogue, AttemptEnd(job.id, job.attempt, None))
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.reason, found.detail, found.engine) == (state, state, "the night is over", None)


async def test_an_attempt_that_was_never_started_is_no_failure_of_its_job(small: Node) -> None:
    [job] = await queue(small, 1, state="starting", restarts=2)
    ending = AttemptEnd(job.id, job.attempt, None, started=False, forgotten=True)
    await attempt_ends.attempt_ended(small.work, small.judges, small.catalogue, ending)
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.restarts, found.detail) == ("queued", 2, "")
    assert job.id not in small.work.running.retry_at


async def test_a_job_at_whose_start_the_daemon_dies_again_and_again_is_taken_for_the_reason(small: Node) -> None:
    [job] = await queue(small, 1, state="starting")
    for number in range(attempt_ends.MOST_FORGOTTEN + 2):
        async with small.records.change() as change:
            await add_attempt(change.db, job.id, number + 1, str(number))
            await update_job(change.db, job.id, attempt=number + 1, state="starting")
        ending = AttemptEnd(job.id, number + 1, None, started=False, forgotten=True)
        await attempt_ends.attempt_ended(small.work, small.judges, small.catalogue, ending)
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.restarts) == ("queued", 1)
    assert job.id in small.work.running.retry_at


async def test_of_what_no_runner_was_told_yet_a_job_of_an_endpoint_is_graded_again(small: Node) -> None:
    [job] = await queue(small, 1, state="grading", weights_path=path_of("qwq"), grade_key="new")
    folder = small.records.folder(job.id)
    folder.path.mkdir(parents=True)
    spec = JobSpec(
        job=job.id, attempt=1, earlier=(), model="qwq", benchmark="demo_arith", kind="free_response", settings={},
        seed=0, limit=None, repeats=1, data_dir="", rows_sha256="", generation_key="", grade_key="old", api="chat",
    )  # fmt: skip
    folder.write_spec(spec)
    assert regrading.is_regrade(small.records, job)
    folder.write_spec(msgspec.structs.replace(spec, grade_key="new"))
    assert not regrading.is_regrade(small.records, job)


async def test_a_job_that_two_move_at_once_is_moved_once(small: Node) -> None:
    [job] = await queue(small, 1, state="judging")
    async with small.records.change() as change:
        await change.move(job, "stop")
    with pytest.raises(MovedMeanwhileError):
        async with small.records.change() as change:
            await change.move(job, "finish")
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert found.state == "stopping"


async def test_a_stop_that_the_judge_outruns_finds_the_job_done(small: Node) -> None:
    [job] = await queue(small, 1, state="judging")
    seen: list[str] = []

    async def outrun(node: Node, change: Any, now: JobRow) -> Any:
        seen.append(now.state)
        if len(seen) == 1:
            now = replace(now, state="generating")  # as if it had been read before somebody moved it
        return await job_control.stop_one(node, change, now)

    [answer] = await job_control.each(small, [job.name], outrun)
    assert seen == ["judging", "judging"]
    assert answer.state == "stopped"


async def test_a_command_that_cannot_be_done_keeps_none_of_the_others(
    small: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    async def perform(_node: Node, command: Wait) -> None:
        if command.job == 1:
            raise ValueError("a mistake of ours")
        done.append(command.job)

    monkeypatch.setattr(supervisor, "place", lambda *_: [Wait(n, "retry", "") for n in (1, 2, 3)])
    monkeypatch.setattr(supervisor, "perform", perform)
    await supervisor.decide(small)
    assert done == [2, 3]


async def test_a_job_whose_rows_contradict_each_other_stops_nothing_else(
    small: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is well: only this one job cannot be started."""
    bad, good = await queue(small, 2)
    async with small.records.store.write() as db:
        await add_attempt(db, bad.id, 1, "from-elsewhere")
    monkeypatch.setattr(supervisor, "place", lambda *_: [StartJob(bad.id, 1), StartJob(good.id, 1)])
    small.engines.live[1] = EngineHandle(ENGINE, None)  # type: ignore[arg-type]
    await supervisor.decide(small)
    assert list(small.running.runners) == [good.id]


async def test_a_task_that_fails_starts_again_and_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "AGAIN_S", 0.0)
    tries = 0

    async def task() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError("a mistake of ours")

    await asyncio.wait_for(main.restarted_on_error("test", task), 10)
    assert tries == 3


async def test_an_outage_of_the_store_fails_no_job_that_is_judged(small: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it lasts: the verdicts come out of a group of tasks, and so does its error."""
    monkeypatch.setattr(judge_jobs, "AGAIN_S", 0.0)
    [job] = await queue(small, 1, state="judging")
    judging_now = judge_jobs.Judging(small.records, small.judges, small.catalogue)

    async def ask(error: Exception) -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [error])])

    for _ in range(2 * small.records.config.settings.max_restarts):
        await judging_now._guarded("judge", job, ask(StoreError("the disk is full")))
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.detail) == ("judging", "judging failed and is tried again: the disk is full")
    for _ in range(small.records.config.settings.max_restarts + 1):
        await judging_now._guarded("judge", job, ask(ValueError("a mistake of ours")))
    found = await get_job(small.records.store, job.id)
    assert found is not None
    assert (found.state, found.failure) == ("failed", "judge")


async def test_the_judge_is_given_a_job_page_by_page(small: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are long, and thousands of jobs may wait: only some are in memory, and none is passed over."""
    monkeypatch.setattr(verdicts, "PAGE", 2)
    [job] = await queue(small, 1, state="generating")
    records: list[Record] = []
    for row in range(5):
        records += [StageRecord(row=row, repeat=0, stage=0, text=f"answer {row}", stop="token")]
        records += [SampleRecord(row=row, repeat=0, value=None, reason="unjudged")]
    async with small.records.store.write() as db:
        await ingest(db, job.id, 1, job.grade_key, records, 0)
    texts, after = [], 0
    while page := await verdicts.unjudged(small.records.store, job.id, job.grade_key, after):
        texts.append([one.texts for one in page])
        after = page[-1].number
    assert texts == [[("answer 0",), ("answer 1",)], [("answer 2",), ("answer 3",)], [("answer 4",)]]


# with a whole daemon


def samples_file(node: Any, name: str) -> Path:
    """What the first attempt wrote."""
    return Path(node.home / "runs" / name / "samples-1.jsonl")


def by_row(path: Path) -> dict[int, list[bytes]]:
    """Its lines, of each row."""
    found: dict[int, list[bytes]] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        found.setdefault(json.loads(line)["row"], []).append(line)
    return found


def test_what_a_runner_wrote_with_its_last_breath_is_not_missed_for_ever(node: Any) -> None:
    """The next runner finds it in the file and will not do it again, so the store must come to it by itself."""
    [whole] = node.dispatch(limit=20)
    node.wait_for_state(whole, "done")
    node.engines_do(answers=25)  # five more
    [name] = node.dispatch(limit=20, overwrite=True)
    node.wait_until_some(name, 5)
    node.api.post("/v1/stop", {"jobs": [name]})
    node.wait_for_state(name, "stopped")
    node.engines_do()
    there, every = by_row(samples_file(node, name)), by_row(samples_file(node, whole))
    missing = min(every.keys() - there.keys())
    with samples_file(node, name).open("ab") as late:
        late.writelines(every[missing])
    node.api.post("/v1/resume", {"jobs": [name]})
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    assert node.answers_of(name) == node.answers_of(whole)


def test_the_runner_of_a_job_that_cannot_be_handled_is_ended_with_it(node: Any) -> None:
    node.engines_do(answers=5)
    [name] = node.dispatch(limit=20)
    node.wait_until_some(name, 5)
    runner, path = node.runner_record(name), samples_file(node, name)
    shutil.move(path, path.with_suffix(".aside"))
    path.mkdir()
    node.wait_for_state(name, "failed")
    # killed before its job failed; the kernel may take a moment
    node.until(lambda: not worker_process.is_same(runner.pid, runner.pid_start), "the runner is gone")
