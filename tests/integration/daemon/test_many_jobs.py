"""What is asked and decided all day costs no more when ten times as many jobs wait; and pages of a plan are the plan.

Costs are counted in steps of SQLite's virtual machine, in transactions and in bytes of replies: these are the same on
every machine and under every load.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rwkv_daemon import supervisor
from rwkv_daemon.api import router
from rwkv_daemon.api.requests import bulk_changes
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.planning import forecast_facts, planner
from rwkv_daemon.store import NewJob, open_store
from rwkv_daemon.store.queries.bulk import open_orders
from rwkv_daemon.store.queries.jobs import add_jobs, add_session
from rwkv_daemon.store.sqlite import SqliteStore
from rwkvctl.protocol.operation import PauseRequest
from rwkvctl.protocol.replies import ChangedReply
from rwkvctl.protocol.requests import JobsRequest, PlanRequest, Selection, StatusRequest, StopRequest
from rwkvctl.protocol.routes import AnyRequest
from rwkvctl.protocol.service import MetricsRequest
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="aaa", benchmark="demo_arith", kind="free_response",
    state="queued", reason="", detail="", priority=0, generation_key="g", grade_key="k", settings="{}",
    configuration="{}", grader="x", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r", seed=0,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=4, run_log_dir="",
)  # fmt: skip
FEW, MANY, EVERY = 400, 4000, 10
ASKED: dict[str, AnyRequest] = {
    "status": StatusRequest(),
    "status of a session": StatusRequest(session="s"),
    "jobs": JobsRequest(limit=100),
    "jobs in a state": JobsRequest(limit=100, state="queued"),
    "metrics": MetricsRequest(),
    "page of a plan": PlanRequest(selection=Selection(hold_missing=True), limit=50),
}


@contextlib.asynccontextmanager
async def node_of(home: Path, jobs: int) -> AsyncIterator[Node]:
    """A node without tasks of its own, where so many jobs are queued, and a few models lie."""
    home.mkdir()
    made_of = config.load(environ={"RWKVCTL_HOME": str(home), "RWKVCTL_NUMERICS": "fp32"})
    for folder in (made_of.runs_dir, made_of.weights_dir, made_of.data_dir):
        folder.mkdir()
    for number in range(4):
        path = made_of.weights_dir / f"rwkv7-g1a-0.1b-20260101-step{number:05d}.pth"
        path.write_bytes(bytes([number]) * 64)
    node = Node.of(made_of, await open_store(made_of.store), NodeBenchmarks.open(made_of))
    node.engines.leases = []
    async with node.records.change() as change:
        await add_session(change.db, "s", "{}", "here", ("1", ""))
        each = [
            replace(JOB, model=f"m{n % 7}", benchmark=f"b{n}", generation_key=f"g{n}", grade_key=f"k{n}")
            for n in range(jobs)
        ]
        await add_jobs(change.db, "s", each)
        await change.note("session", session="s")
    try:
        yield node
    finally:
        await node.records.store.close()


@contextlib.asynccontextmanager
async def counted(node: Node) -> AsyncIterator[list[int]]:
    """[steps of SQLite] of all that is done meanwhile."""
    store: Any = node.records.store
    assert isinstance(store, SqliteStore)
    steps = [0]

    def count() -> int:
        steps[0] += EVERY
        return 0

    for connection in (store.writer, *store.readers):
        await connection.set_progress_handler(count, EVERY)
    try:
        yield steps
    finally:
        for connection in (store.writer, *store.readers):
            await connection.set_progress_handler(None, 0)  # type: ignore[arg-type]


async def costs(home: Path, jobs: int) -> dict[str, tuple[int, int]]:
    """(steps, bytes) of every request, and of what the supervisor does when something has moved; asked once before."""
    found = {}
    async with node_of(home, jobs) as node:
        for name, request in ASKED.items():
            await router.answer(node, request)
            node.request_state.shared_status.forget()
            async with counted(node) as steps:
                reply = await router.answer(node, request)
            found[name] = (steps[0], len(msgspec.json.encode(reply)))
        await round_of(node)
        async with counted(node) as steps:
            await round_of(node)
        found["a round"] = (steps[0], len(node.waiting.queue.lanes.front({}, 200)))
        async with counted(node) as steps:
            found["a forecast"] = (steps[0], len(forecast_facts.ahead(node.work, ()).jobs))
    return found


async def round_of(node: Node) -> None:
    """What the supervisor does about the queue."""
    await supervisor.read_queue(node)
    while node.waiting.queue.to_share:
        await supervisor.shared_generation.take_over(node.records, node.waiting, node.running)
    await supervisor.decide(node)


async def test_ten_times_the_jobs_cost_no_more(tmp_path: Path) -> None:
    few, many = await costs(tmp_path / "few", FEW), await costs(tmp_path / "many", MANY)
    assert not {
        name: (few[name], cost)
        for name, cost in many.items()
        if cost[0] > 1.3 * few[name][0] + 40 * EVERY or cost[1] > 1.2 * few[name][1] + 700
    }


async def test_a_paused_queue_is_read_once_and_decided_on_without_looking_at_its_jobs(tmp_path: Path) -> None:
    async with node_of(tmp_path / "home", MANY) as node:
        await router.answer(node, PauseRequest(queue=True, request_id="p"))
        await round_of(node)
        assert node.waiting.queue.lanes.open_lanes() == []
        version = node.waiting.queue.lanes.version
        async with counted(node) as steps:
            await round_of(node)
        assert steps[0] <= 20 * EVERY
        assert node.waiting.queue.lanes.version == version, "no lane was touched"


async def test_a_change_of_every_job_takes_short_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = SqliteStore.write, list[int]()

    @contextlib.asynccontextmanager
    async def measured(store: SqliteStore) -> AsyncIterator[Any]:
        async with write(store) as db:
            before = store.writer.total_changes
            yield db
            sizes.append(store.writer.total_changes - before)

    async with node_of(tmp_path / "home", MANY) as node:
        monkeypatch.setattr(SqliteStore, "write", measured)
        first = await router.answer(node, StopRequest(all=True, request_id="r"))
        for order in await open_orders(node.records.store):
            while not order.ended:
                order = node.request_state.orders[order.id] = await bulk_changes.step(node, order)  # noqa: PLW2901
        last = await router.answer(node, StopRequest(all=True, request_id="r"))
        assert isinstance(last, ChangedReply)
        assert (last.changed, last.left) == (MANY, 0)
        assert max(sizes) <= 3 * bulk_changes.AT_ONCE
        assert max(len(msgspec.json.encode(reply)) for reply in (first, last)) < 500


SELECTIONS = st.builds(
    Selection,
    hold_missing=st.booleans(),
    only_datasets=st.sampled_from([(), ("gsm8k", "demo_arith", "mmlu"), ("demo_choice",)]),
    limit=st.sampled_from([None, 3]),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SELECTIONS, st.integers(1, 7))
def test_pages_have_every_pair_of_the_plan_once_and_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, selection: Selection, pages: int
) -> None:
    import asyncio

    async def check() -> None:
        async with node_of(tmp_path_factory.mktemp("plan") / "home", 3) as node:
            await know_weights(node)
            whole = await planner.plan(node.work, node.catalogue, selection)
            rows, after, limit = [], 0, len(whole.pairs) // pages + 1
            while True:
                page, total = await planner.page(node.work, node.catalogue, selection, after, limit)
                rows += page.pairs
                after += limit
                if after >= total:
                    break
            assert total == len(whole.pairs)
            assert [pair.row for pair in rows] == [pair.row for pair in whole.pairs]

    asyncio.run(check())


async def know_weights(node: Node) -> None:
    """Two checkpoints are the same, byte for byte; of the others one is not hashed."""
    for number, path in enumerate(sorted(node.records.config.weights_dir.glob("*.pth"))[:3]):
        found = path.stat()
        async with node.records.store.write() as db:
            await db.execute(
                "INSERT INTO weights (device, inode, size, changed_ns, sha256, path) VALUES (?, ?, ?, ?, ?, ?)",
                (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns, f"{number // 2:064}", str(path)),
            )
