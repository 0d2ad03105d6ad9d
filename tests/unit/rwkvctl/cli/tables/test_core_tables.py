"""Every reply of the daemon can be drawn, and every column stands for a field that the messages have."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.cli import registry
from rwkvctl.cli.render import Table, aligned, separated
from rwkvctl.cli.tables import core_tables, suite_tables
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.recipes import RecipePaymentView
from rwkvctl.protocol.replies import (
    DispatchReply,
    InfoReply,
    JobReply,
    JobsReply,
    PlanReply,
    PromotionReply,
    SamplesReply,
    ScoresReply,
    StatusReply,
)
from rwkvctl.protocol.training.harnesses import HarnessView
from rwkvctl.protocol.views import (
    BenchmarkView,
    ChangedJob,
    EngineView,
    FindingView,
    JobView,
    JudgeView,
    LeaseView,
    MetricView,
    ModelView,
    PaidView,
    PlanRow,
    PointView,
    SampleView,
    ScoreView,
    StageView,
    SuiteKind,
    SuiteView,
)

STRUCTS = (LeaseView, EngineView, JobView, ScoreView, MetricView, PlanRow, ModelView, BenchmarkView,
           ChangedJob, SampleView, StageView, StatusReply, Event, PlanReply, DispatchReply, LogChunk,
           InfoReply, SamplesReply, JobsReply, JobReply, ScoresReply, JudgeView,
           FindingView, PaidView, PointView, PromotionReply, RecipePaymentView,
           SuiteView, SuiteKind, HarnessView)  # fmt: skip
OTHER_KEYS = {"items", "schema", "item"}
CLI = Path(registry.__file__).parent
TABLES = ("core_tables", "judge_tables", "suite_tables", "harness_tables")
READERS = [CLI / f"{name}.py" for name in (*(f"tables/{table}" for table in TABLES), "job_progress", "waiting")]
COMMANDS = ("status", "jobs", "queue", "stop", "samples", "logs", "suites")
READERS += [CLI / "commands" / f"{name}.py" for name in COMMANDS]


def plain(item: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_only_fields_that_exist_are_read(path: Path) -> None:
    known = {field.name for struct in STRUCTS for field in msgspec.structs.fields(struct)} | OTHER_KEYS
    variables = "item|reply|row|job|event|score|metric|stage|status|value|info"
    text = path.read_text(encoding="utf-8")
    read = re.findall(rf"\b(?:{variables})(?:\.value)?(?:\.get\(|\[)[\"'](\w+)[\"']", text)
    assert read or path.name == "stop.py"
    assert set(read) <= known


def test_all_lists_are_drawn(fake_daemon: Any) -> None:
    node = fake_daemon.Node()
    job = fake_daemon.job
    states = [job(n, state) for n, state in enumerate(JobView.__annotations__["state"].__args__)]
    tables = {
        "leases": core_tables.leases([plain(fake_daemon.lease())]),
        "engines": core_tables.engines([plain(fake_daemon.engine())]),
        "jobs": core_tables.jobs(
            plain(item)
            for item in [*states, job(20, score=fake_daemon.score(20)), job(21, running_score=fake_daemon.METRIC)]
        ),
        "plan": core_tables.plan(plain(row) for row in node.plan_rows),
        "scores": core_tables.scores([plain(fake_daemon.score(9))]),
        "samples": core_tables.sample_rows([plain(fake_daemon.sample(1))]),
        "changed": core_tables.changed([plain(ChangedJob(job="j1", state="stopped", changed=True))]),
        "models": core_tables.models([plain(ModelView(name="a", path="/a", size_bytes=1))]),
        "benchmarks": core_tables.benchmarks([plain(node.on_benchmarks().items[0])]),
        "suites": suite_tables.suites(map(plain, node.on_suites().items)),
        "kinds of a suite": suite_tables.kinds(plain(node.on_suites().items[0])),
    }
    for name, table in tables.items():
        assert all(len(row) == len(table.columns) for row in table.rows), name
        assert len(aligned(table, 80, colour=False)) == len(table.rows) + 1, name


def test_a_missing_score_is_a_reason_and_never_a_number(fake_daemon: Any) -> None:
    null = fake_daemon.score(3, metrics={"accuracy": MetricView(value=None)}, why_null="no sample was graded")
    line = separated(core_tables.scores([plain(null)]))[1].split("\t")
    assert line[4:8] == ["", "", "", ""]
    assert " null " in aligned(core_tables.scores([plain(null)]), 0, colour=False)[1]
    assert line[-1] == "no sample was graded"
    empty = fake_daemon.score(4, metrics={}, why_null="the engine died")
    assert separated(core_tables.scores([plain(empty)]))[1].endswith("\tthe engine died")


def test_score_row_says_what_qualifies_it(fake_daemon: Any) -> None:
    item = fake_daemon.score(1, chance=0.25, errors=2, partial=True, rows=20, n=20)
    cells = dict(
        zip(
            separated(core_tables.scores([plain(item)]))[0].split("\t"),
            separated(core_tables.scores([plain(item)]))[1].split("\t"),
            strict=True,
        )
    )
    assert (cells["value"], cells["ci half"], cells["n"]) == ("0.749", "0.023", "20")
    assert (cells["err"], cells["chance"]) == ("2", "0.25")
    assert cells["note"] == "partial"
    assert (cells["ci low"], cells["ci high"]) == ("0.726", "0.772")
    assert " 72.6–77.2 " in aligned(core_tables.scores([plain(item)]), 0, colour=False)[1]


def test_reasons_are_counted_and_explained() -> None:
    rows = [{"action": "skip", "reason": "done"}] * 2 + [
        {"action": "hold", "reason": "data-missing"},
        {"action": "run", "reason": "run"},
    ]
    table: Table = core_tables.reasons(rows, {"done": "a score exists"})
    assert [list(row) for row in table.rows] == [["2", "done", "a score exists"], ["1", "data-missing", ""]]


def test_model_text_is_safe_in_every_table(fake_daemon: Any) -> None:
    evil = fake_daemon.EVIL
    job = fake_daemon.job(1, "held", model=evil, benchmark=evil, kind=evil, detail=evil)
    score = fake_daemon.score(1, model=evil, why_null=evil, metrics={})
    sample = fake_daemon.sample(
        1,
        extracted=evil,
        expected=evil,
        detail=evil,
        stages=(StageView(stage=evil, prompt=evil, completion=evil, stop=evil),),
    )
    tables = [
        core_tables.jobs([plain(job)]), core_tables.scores([plain(score)]), core_tables.sample_rows([plain(sample)]),
        core_tables.plan([plain(PlanRow(model=evil, benchmark=evil, kind=evil, action="hold", reason="held"))]),
        core_tables.models([plain(ModelView(name=evil, path=evil, size_bytes=1))]),
        core_tables.engines([plain(fake_daemon.engine(model=evil, detail=evil))]),
        core_tables.changed([plain(ChangedJob(job=evil, state="", changed=False, error=evil))]),
    ]  # fmt: skip
    for table in tables:
        for line in [*separated(table), *aligned(table, 400, colour=False)]:
            assert not [
                c for c in line.replace("\t", "") if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u200b"
            ]
            assert "\u241b]52;c;" in line or line.split()[0].lower() in {
                "job",
                "model",
                "sample",
                "#",
                "place",
                "engine",
            }


def test_an_interval_that_is_not_symmetric_shows_its_longer_side() -> None:
    assert core_tables.value_with_interval({"value": 1.0, "ci_low": 0.94, "ci_high": 1.0}) == "100.0 ±6.0"
    assert core_tables.value_with_interval({"value": 0.5}) == "50.0"
    assert core_tables.value_with_interval({"value": None}) == "null"
