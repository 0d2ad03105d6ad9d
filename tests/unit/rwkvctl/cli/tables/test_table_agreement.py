"""CLI and console say the same of the same thing: where both have a column of one title, its cells agree."""

import re
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import msgspec
import pytest

from rwkvctl.cli.render import Cell, Table
from rwkvctl.cli.tables import audit_table, core_tables, gpu_tables, judge_tables, zombie_tables
from rwkvctl.protocol.audit import AuditView
from rwkvctl.protocol.gpus import GpuHolderView, GpuView
from rwkvctl.protocol.views import BenchmarkView, JudgeEndpointView, JudgeView, ModelView, PlanRow
from rwkvctl.protocol.zombies import ReapedView, ZombieView
from rwkvctl.tui.dispatch import plan_rows
from rwkvctl.tui.events import audit_rows
from rwkvctl.tui.jobs import columns as job_columns
from rwkvctl.tui.node import benchmark_columns, gpu_columns, judge_columns, process_columns, weight_columns
from rwkvctl.tui.widgets.table_columns import Column

OTHERWISE = {
    ("jobs", "PROGRESS"): "the console names what a job does where it makes no progress",
    ("jobs", "WHY"): "that a job makes no progress stands under PROGRESS in the console",
    ("plan", "WHERE"): "whether the model is loaded stands under WHY in the console",
    ("reaped", "ENDED"): "the console has no room for the year",
}
"""Cells that differ with reason."""


def plain(item: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


def words(cell: str | Cell) -> str:
    """What a cell says, without the glyph before it; nothing and a dash are the same."""
    text = cell.text if isinstance(cell, Cell) else cell
    return re.sub(r"^[^\w\"'(<]+ ", "", text.strip()).strip("–").strip()


def job_views(fake: ModuleType) -> list[Any]:
    states = ("queued", "generating", "done", "failed", "held")
    more = {"starts_s": 300.0, "eta_s": 900.0, "priority": 3, "samples_per_s": 1.5}
    found = [fake.job(number, state, **more) for number, state in enumerate(states)]
    return [
        *found,
        fake.job(9, idle_s=100.0),
        fake.job(20, "done", score=fake.score(20)),
        fake.job(21, running_score=fake.METRIC),
        fake.job(22, "failed", failure="worker-died", detail="killed by signal 9"),
    ]


def of_jobs(fake: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = job_views(fake)
    every = {column.title: column for column in (*job_columns.RUNNING, *job_columns.WAITING, *job_columns.RESULTS)}
    rows = [job_columns.JobRow(item) for item in items]
    return core_tables.jobs(map(plain, items)), list(every.values()), rows


def of_gpus(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    holder = GpuHolderView(
        pid=7, cls="other-user", user="bob", memory_bytes=2**30, command="python", age_s=5.0, start=1
    )
    items = [
        GpuView(id=f"GPU-{number}", index=str(number), name="H100", use=use, condition=condition, reason=reason,
                why=why, memory_used_bytes=93 * 2**30, memory_total_bytes=141 * 2**30, utilisation=0.5,
                since="2026-11-25T01:02:03Z", engines=engines, holders=[holder])
        for number, (use, condition, reason, why, engines) in enumerate((
            ("free", "ok", "", "", []), ("leased", "ok", "", "", ["e1", "e2"]), ("free", "reserved", "for bob", "", []),
            ("zombie", "quarantined", "XID 79", "pid 7 holds it", []), ("unknown", "suspect", "", "", []),
        ))
    ]  # fmt: skip
    return gpu_tables.gpus(map(plain, items)), gpu_columns.GPUS, items


def of_models(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [
        ModelView(name="a.pth", path="/w/a.pth", size_bytes=2**31, parameters_b=1.5, architecture="rwkv7",
                  data_version="g1", context=8192, date="20260101", sha256="ab" * 32),
        ModelView(name="b.pth", path="/w/b.pth", size_bytes=7),
        ModelView(name="c.pth", path="/w/c.pth", size_bytes=7, copying=True),
    ]  # fmt: skip
    return (
        core_tables.models(map(plain, items)),
        weight_columns.WEIGHTS,
        [weight_columns.CheckpointRow(i) for i in items],
    )


def of_benchmarks(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [
        BenchmarkView(name="gsm8k", title="Sums", domain="maths", kinds=["a", "b", "c"], usual=["a"], split="test",
                      version=3, licence="MIT", rows=1319, ready=True),
        BenchmarkView(name="mmlu", title="Much", domain="knowledge", kinds=["a"], split="test", version=1),
    ]  # fmt: skip
    rows = [benchmark_columns.BenchmarkRow(item) for item in items]
    return core_tables.benchmarks(map(plain, items)), benchmark_columns.BENCHMARKS, rows


def of_processes(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [
        ZombieView(gpu="GPU-0", index="0", pid=71, cls="orphan", user="me", command="python x", age_s=50.0,
                   memory_bytes=2**31, verdict="left behind", start_ticks=5, still_s=3.0),
        ZombieView(gpu="GPU-0", index="0", pid=72, cls="ghost"),
    ]  # fmt: skip
    rows = process_columns.flat(items)
    return zombie_tables.zombies(map(plain, items), verdicts=True), process_columns.PROCESSES, rows


def of_reaped(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [ReapedView(at="2026-11-25T01:02:03Z", pid=7, outcome="freed", by="me", text="all of it")]
    return zombie_tables.reaped(map(plain, items)), process_columns.REAPED, items


def of_audit(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [
        AuditView(id=1, at="2026-11-25T01:02:03Z", user="me", uid=1000, gid=1, pid=7, verb="stop", target="j1",
                  outcome="done"),
        AuditView(id=2, at="2026-11-25T01:02:03Z", user="tcp", uid=-1, gid=-1, pid=0, verb="stop", target="j1",
                  outcome="refused: role"),
    ]  # fmt: skip
    return audit_table.entries([msgspec.to_builtins(item) for item in items]), audit_rows.COLUMNS, items


def of_plan(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    items = [
        PlanRow(action="run", model="a.pth", benchmark="gsm8k", kind="cot", reason="new", samples=10, est_s=300.0,
                starts_s=250.0, lease="cpu:0", loads=True, basis="from 3 runs"),
        PlanRow(action="resume", model="a.pth", benchmark="mmlu", kind="ll", reason="resume", samples=10),
    ]  # fmt: skip
    rows = [plan_rows.QueueRow(place, row=item) for place, item in enumerate(items, 1)]
    return core_tables.plan(map(plain, items)), plan_rows.ORDER, rows


def of_judges(_: ModuleType) -> tuple[Table, Sequence[Column[Any]], list[Any]]:
    endpoint = JudgeEndpointView(name="https://j.example", in_flight=3, rate=1.26, p50_s=0.5)
    items = [JudgeView(role="judge", model="m", endpoints=[endpoint]), JudgeView(role="checker", model="c", parked="x",
             endpoints=[endpoint])]  # fmt: skip
    rows = [judge_columns.Endpoint(item, one) for item in items for one in item.endpoints]
    return judge_tables.judges(map(plain, items)), judge_columns.ENDPOINTS, rows


SUBJECTS: dict[str, Callable[[ModuleType], tuple[Table, Sequence[Column[Any]], list[Any]]]] = {
    "jobs": of_jobs, "gpus": of_gpus, "models": of_models, "benchmarks": of_benchmarks, "processes": of_processes,
    "reaped": of_reaped, "audit": of_audit, "plan": of_plan, "judges": of_judges,
}  # fmt: skip


def differences(name: str, table: Table, columns: Iterable[Column[Any]], rows: list[Any]) -> list[str]:
    places = {column.title: place for place, column in enumerate(table.columns)}
    found = []
    for column in columns:
        if (place := places.get(column.title)) is None or (name, column.title) in OTHERWISE:
            continue
        for cells, row in zip(table.rows, rows, strict=True):
            ours, theirs = words(cells[place]), words(column.cell(row))
            if ours != theirs:
                found.append(f"{name} {column.title}: `{ours}` in the CLI, `{theirs}` in the console")
    return found


def test_the_list_of_models_says_which_do_not_load_and_that_of_benchmarks_whose_rows_are_damaged() -> None:
    """The console said it alone once."""
    items = [
        ModelView(name="a.pth", path="/w/a.pth", size_bytes=7, broken="blocks.0.att.r_k is missing"),
        ModelView(name="b.pth", path="", size_bytes=7),
    ]
    notes = [words(row[-1]) for row in core_tables.models(map(plain, items)).rows]
    assert notes == ["damaged: blocks.0.att.r_k is missing", "file is gone"]
    damaged = BenchmarkView(name="a", title="A", domain="maths", kinds=("k",), split="test", version=1, damaged=True)
    ready = core_tables.benchmarks([plain(damaged)]).rows[0][4]
    assert ready == Cell("! damaged", "warn", "no")


@pytest.mark.parametrize("name", SUBJECTS)
def test_cells_of_one_title_agree(name: str, fake_daemon: ModuleType) -> None:
    table, columns, rows = SUBJECTS[name](fake_daemon)
    assert differences(name, table, columns, rows) == []
