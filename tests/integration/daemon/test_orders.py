"""Changes of very many jobs: in pieces, told truly, idempotent, and gone on with by the next daemon; real daemons."""

import contextlib
import json
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkv_daemon.api import router
from rwkv_daemon.api.requests import bulk_changes
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.rules.forecast import ExpectedRun, Forecast
from rwkv_daemon.store import NewJob, open_store
from rwkv_daemon.store.queries.bulk import open_orders
from rwkv_daemon.store.queries.jobs import add_jobs, add_session, get_job, jobs_in, update_job
from rwkv_daemon.supervisor import read_queue
from rwkvctl.protocol.deletion import DeleteRequest, LossReply, LossRequest, UndeleteRequest
from rwkvctl.protocol.replies import ChangedReply, StatusReply
from rwkvctl.protocol.requests import ResumeRequest, StatusRequest, StopRequest
from rwkvctl.protocol.routes import AnyRequest
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="aaa", benchmark="demo_arith", kind="free_response",
    state="queued", reason="", detail="", priority=0, generation_key="g", grade_key="k", settings="{}",
    configuration="{}", grader="x", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r", seed=0,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=4, run_log_dir="",
)  # fmt: skip
MANY = 2 * bulk_changes.AT_ONCE + 100


async def test_a_status_without_jobs_has_nothing_ahead(bare: Node) -> None:
    bare.waiting.forecast = Forecast({1: ExpectedRun(0.0, 9.0, "cpu:0", loads=False)})  # made before j1 ended
    reply = await router.answer(bare, StatusRequest())
    assert isinstance(reply, StatusReply)
    assert (reply.eta_s, reply.not_estimated) == (0.0, 0)
    await filled(bare, 1)
    bare.request_state.shared_status.forget()
    reply = await router.answer(bare, StatusRequest())
    assert isinstance(reply, StatusReply)
    assert reply.eta_s == 9.0


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[Node]:
    """A node without tasks of its own."""
    settings = config.load(environ={"RWKVCTL_HOME": str(tmp_path)})
    settings.runs_dir.mkdir(parents=True)
    made = Node.of(settings, await open_store(settings.store), NodeBenchmarks(settings.data_dir))
    yield made
    await made.records.store.close()


async def filled(node: Node, count: int, session: str = "s", **columns: Any) -> list[int]:
    async with node.records.change() as change:
        await add_session(change.db, session, "{}", "here", ("1", ""))
        jobs = [replace(JOB, benchmark=f"b{n}", generation_key=f"g{n}", grade_key=f"k{n}") for n in range(count)]
        numbers = await add_jobs(change.db, session, jobs)
        for number in numbers if columns else ():
            await update_job(change.db, number, **columns)
        await change.note("session", session=session)
    return numbers


async def carried_out(node: Node, request: AnyRequest) -> ChangedReply:
    """The answer once all is done, by a daemon that does nothing else."""
    reply = await router.answer(node, request)
    for order in await open_orders(node.records.store):
        while not order.ended:
            order = node.request_state.orders[order.id] = await bulk_changes.step(node, order)  # noqa: PLW2901
    reply = await router.answer(node, request)
    assert isinstance(reply, ChangedReply)
    return reply


async def true_counts(node: Node) -> dict[str, int]:
    rows = await node.records.store.all("SELECT state, COUNT(*) AS n FROM job WHERE state <> 'deleted' GROUP BY state")
    return {row["state"]: row["n"] for row in rows}


async def test_every_open_job_is_stopped_in_pieces_and_what_came_later_is_left_alone(
    bare: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_changes, "ANSWER_S", 0.0)
    queued = await filled(bare, MANY)
    held = await filled(bare, 3, "h", state="held", reason="held", detail="by hand")
    over = await filled(bare, 2, "d", state="done")
    await read_queue(bare)
    first = await router.answer(bare, StopRequest(all=True, request_id="r"))
    assert isinstance(first, ChangedReply)
    assert (first.items, first.changed, first.left) == ((), 0, MANY + 3)
    later = await filled(bare, 1, "later")
    [order] = await open_orders(bare.records.store)
    order = await bulk_changes.step(bare, order)
    assert (order.changed, order.unchanged, order.ended) == (bulk_changes.AT_ONCE, 0, "")
    assert (await true_counts(bare))["stopped"] == bulk_changes.AT_ONCE
    reply = await carried_out(bare, StopRequest(all=True, request_id="r"))
    assert (reply.items, reply.changed, reply.unchanged, reply.left) == ((), MANY + 3, 0, 0)
    assert await true_counts(bare) == {"stopped": MANY + 3, "queued": 1, "done": 2}
    assert await bare.waiting.state_counts.of(bare.records.store) == await true_counts(bare)
    assert await bare.waiting.state_counts.of(bare.records.store, "h") == {"stopped": 3}
    await read_queue(bare)
    assert set(bare.waiting.queue.jobs) == set(later)
    [kept] = [await get_job(bare.records.store, held[0])]
    assert kept is not None
    assert (kept.state, kept.reason, kept.detail) == ("stopped", "held", "by hand")
    assert len(queued) + len(over) == MANY + 2
    again = await router.answer(bare, StopRequest(all=True, request_id="r"))
    assert (again.changed, again.left) == (MANY + 3, 0)  # type: ignore[union-attr]
    other = await router.answer(bare, StopRequest(all=True, session="s", request_id="another"))
    assert other.items == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("one", [{"model": "m"}, {"session": "s"}])
async def test_an_order_reaches_what_it_names_and_nothing_else(bare: Node, one: dict[str, str]) -> None:
    await filled(bare, MANY)
    others = await filled(bare, MANY, "other", model="other")
    reply = await carried_out(bare, StopRequest(**one, request_id="r"))
    assert (reply.changed, reply.unchanged) == (MANY, 0)
    assert {job.id for job in await jobs_in(bare.records.store, ("queued",), limit=10 * MANY)} == set(others)


async def test_what_is_stopped_goes_on_and_each_job_as_it_stands(bare: Node) -> None:
    plain = await filled(bare, MANY, state="stopped", restarts=3, failure="infrastructure", detail="it crashed")
    held = await filled(bare, 1, "h", state="stopped", reason="held", detail="by hand")
    whole = await filled(bare, 1, "w", state="failed", done=4, stages_done=4)
    ungraded = await filled(bare, 1, "u", state="stopped", stages_done=4)
    keyless = await filled(bare, 1, "k", state="stopped", generation_key="")
    await filled(bare, 2, "x", state="held", reason="held")
    await read_queue(bare)
    reply = await carried_out(bare, ResumeRequest(all=True, request_id="r"))
    assert (reply.changed, reply.unchanged, reply.left) == (MANY + 4, 2, 0)
    found = {
        number: await get_job(bare.records.store, number) for number in (*plain[:2], *held, *whole, *ungraded, *keyless)
    }
    assert [job.state for job in found.values() if job] == ["queued", "queued", "held", "judging", "grading", "held"]
    first = found[plain[0]]
    assert first is not None
    assert (first.restarts, first.failure, first.detail, first.finished) == (0, "", "", "")
    await read_queue(bare)
    assert set(bare.waiting.queue.jobs) == set(plain)
    assert await bare.waiting.state_counts.of(bare.records.store) == await true_counts(bare)


async def test_retry_leaves_alone_what_somebody_stopped(bare: Node) -> None:
    failed = await filled(bare, MANY, state="failed", failure="model")
    await filled(bare, 5, "x", state="stopped")
    reply = await carried_out(bare, ResumeRequest(all=True, failed=True, request_id="r"))
    assert (reply.changed, reply.unchanged) == (MANY, 0)
    assert await true_counts(bare) == {"queued": len(failed), "stopped": 5}


async def test_all_jobs_in_a_state_are_deleted_and_can_be_brought_back(bare: Node) -> None:
    failed = await filled(bare, MANY, state="failed")
    await filled(bare, 2, "x", state="stopped")
    async with bare.records.store.write() as db:
        await db.execute("INSERT INTO score VALUES (?, 'k', '', '{}')", (failed[0],))
    loss = await router.answer(bare, LossRequest(state="failed"))
    assert isinstance(loss, LossReply)
    assert (len(loss.jobs) + loss.more, loss.scores) == (MANY, 1)
    reply = await carried_out(bare, DeleteRequest(state="failed", request_id="r"))
    assert (reply.changed, reply.left) == (MANY, 0)
    assert await bare.waiting.state_counts.of(bare.records.store) == {"stopped": 2}
    back = await router.answer(bare, UndeleteRequest(jobs=(f"j{failed[0]}", f"j{failed[-1]}"), request_id="b"))
    assert [item.state for item in back.items] == ["stopped", "stopped"]  # type: ignore[union-attr]
    scores = await bare.records.store.all("SELECT job FROM score")
    assert [row["job"] for row in scores] == [failed[0]]


async def test_followers_hear_of_a_piece_once_and_each_job_keeps_its_own_history(bare: Node) -> None:
    numbers = await filled(bare, MANY)
    with bare.records.bus.follow() as told:
        await carried_out(bare, StopRequest(all=True, request_id="r"))
        heard = [told.get_nowait() for _ in range(told.qsize())]
    assert Counter(event.kind for event in heard) == {"jobs.order": 2, "jobs.state": 3}
    moved = [event.data for event in heard if event.kind == "jobs.state"]
    assert [number for data in moved for number in data["jobs"]] == numbers
    assert {(data["was"], data["state"]) for data in moved} == {("queued", "stopped")}
    history = await bare.records.store.all("SELECT text FROM event WHERE job = ?", (numbers[-1],))
    assert [row["text"] for row in history] == [f"m b{MANY - 1} free_response: stopped"]
    streamed = await handlers_events(bare)
    assert Counter(kind for kind in streamed if kind.startswith("job")) == {"jobs.order": 2, "jobs.state": 3}


async def handlers_events(node: Node) -> list[str]:
    from rwkv_daemon.changes.event_bus import stream

    return [
        event.kind async for event in stream(node.records.bus, node.records.store, since=0, follow=False, session="")
    ]


def states(home: Path) -> Counter[str]:
    with contextlib.closing(sqlite3.connect(home / "store.sqlite")) as db:
        return Counter(dict(db.execute("SELECT state, COUNT(*) FROM job GROUP BY state")))


def test_a_daemon_that_is_killed_in_the_middle_goes_on_with_it(node: Any) -> None:
    for limit in range(1, 1000):
        node.dispatch(models=["builtin"], only_datasets=[], limit=limit, hold_missing=True)
        if states(node.home)["held"] > 2 * bulk_changes.AT_ONCE:
            break
    node.terminate()
    node.start(RWKVCTL_CRASH_AT="bulk-after-step")
    body = json.dumps({"all": True, "request_id": "r"})
    with contextlib.suppress(Exception):
        node.api.post("/v1/stop", json.loads(body))
    assert node.daemon.wait(LIMIT_S) == -signal.SIGKILL
    cut = states(node.home)
    assert cut["stopped"] >= bulk_changes.AT_ONCE
    assert cut["held"] > 0
    node.start()
    node.until(lambda: not states(node.home)["held"], "the rest to be stopped")
    reply = node.until(
        lambda: (answer := node.api.post("/v1/stop", json.loads(body)).value) and not answer.get("left") and answer,
        "the answer",
    )
    assert reply["changed"] == sum(cut.values()) - cut["done"]
    (entry,) = [item for item in node.api.get("/v1/audit").value["items"] if item["verb"] == "stop"][-1:]
    assert entry["target"] == "all"


def test_the_operator_hears_how_many_and_may_ask_twice(node: Any) -> None:
    for limit in range(1, 1000):
        node.dispatch(models=["builtin"], only_datasets=[], limit=limit, hold_missing=True)
        if states(node.home)["held"] > 2 * bulk_changes.FEW:
            break
    whole = sum(states(node.home).values()) - states(node.home)["done"]
    said = node.cli("stop", "--all", "--yes")
    assert f"{whole:,} jobs changed" in said.stderr
    assert "no jobs to change" not in said.stdout
    again = node.cli("stop", "--all", "--yes")
    assert "0 jobs changed" not in again.stderr
    assert node.cli("resume", "--all").returncode == 0
    assert states(node.home)["stopped"] == 0
