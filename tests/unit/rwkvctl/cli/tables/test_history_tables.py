"""The job log in its forms, events as lines, and moments as they are typed."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.commands.events import wanted
from rwkvctl.cli.registry import words_of
from rwkvctl.cli.render import separated
from rwkvctl.cli.tables import history_tables, service_table
from rwkvctl.cli.time_argument import TimeArgumentError, moment
from rwkvctl.protocol.notify import NotifyView, TriedView
from rwkvctl.protocol.record import JobLogView
from rwkvctl.protocol.service import ReloadReply

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def logged(**changed: Any) -> dict[str, Any]:
    view = JobLogView(
        job="j12", session="s1", user="alice", model="rwkv7-g1", benchmark="gsm8k", kind="cot", version=2, state="done",
        queued="2026-11-22T01:00:00.000Z", samples=100, limit=50, settings={"k": "2"}, config="abcdef0123456789",
        metric="accuracy", value=0.5, ci_low=0.4, ci_high=0.6, result="accuracy 50.0 % [40.0, 60.0]",
    )  # fmt: skip
    return dict(msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(view, **changed))))


def test_csv_has_every_field_of_the_log() -> None:
    assert set(history_tables.LOG_FIELDS) == {field.name for field in msgspec.structs.fields(JobLogView)}
    rows = list(csv.reader(io.StringIO(history_tables.log_csv([logged()]))))
    found = dict(zip(rows[0], rows[1], strict=True))
    assert (found["job"], found["user"], found["settings"], found["value"]) == ("j12", "alice", "k=2", "0.5")


@given(st.text(max_size=30))
def test_no_text_leaves_its_cell(evil: str) -> None:
    item = logged(result=evil, model=evil, suite=evil, note=evil)
    rows = list(csv.reader(io.StringIO(history_tables.log_csv([item]))))
    assert [len(row) for row in rows] == [len(history_tables.LOG_FIELDS)] * 2
    found = dict(zip(*rows, strict=True))
    for name in ("result", "model", "suite", "note"):
        assert not found[name].startswith(("=", "+", "-", "@")), name
    lines = history_tables.log_markdown([item]).splitlines()
    assert len(lines) == 3
    assert lines[2].replace("\\\\", "").replace("\\|", "").count("|") == lines[0].count("|")


def test_the_log_as_a_table_says_who_and_with_which_result() -> None:
    head, line = separated(history_tables.job_log([logged()]))
    found = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (found["who"], found["settings"], found["config"]) == ("alice", "limit=50 k=2", "abcdef0123456789")
    assert separated(history_tables.job_log([logged(user="")]))[1].split("\t")[2] == ""


def test_the_log_says_as_which_suite_and_with_which_note_a_job_was_dispatched() -> None:
    item = logged(suite="nightly", note="before the data change")
    head, line = separated(history_tables.job_log([item]))
    found = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (found["suite"], found["note"]) == ("nightly", "before the data change")
    head, _, line = history_tables.log_markdown([item]).splitlines()
    assert dict(zip(head.split(" | "), line.split(" | "), strict=True))["note |"] == "before the data change |"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("10m", "2026-11-22T02:50:00.000Z"),
        ("36h", "2026-11-20T15:00:00.000Z"),
        ("7d", "2026-11-15T03:00:00.000Z"),
        ("2026-11-01", "2026-11-01T00:00:00.000Z"),
        ("2026-11-01T12:00+02:00", "2026-11-01T10:00:00.000Z"),
        ("2026-11-01T12:00:00Z", "2026-11-01T12:00:00.000Z"),
    ],
)
def test_moments(typed: str, expected: str) -> None:
    assert moment(typed, NOW) == expected


@pytest.mark.parametrize("typed", ["", "yesterday", "10", "-5m", "999999w", "2026-13-01", "0001-01-01T00:00+14:00"])
def test_what_is_no_moment_is_refused(typed: str) -> None:
    with pytest.raises(TimeArgumentError, match="is not a time"):
        moment(typed, NOW)


@pytest.mark.parametrize(
    ("kind", "kinds", "everything", "shown"),
    [
        ("job.state", [], False, True),
        ("job.state", ["job"], False, True),
        ("job.state", ["job.score"], False, False),
        ("jobs", ["job"], False, False),
    ],
)
def test_kinds_are_chosen_by_their_beginning(kind: str, kinds: list[str], everything: bool, shown: bool) -> None:
    assert wanted({"kind": kind, "seq": 3}, kinds, everything=everything) == shown


def test_what_is_not_stored_is_shown_only_when_asked_for() -> None:
    assert not wanted({"kind": "job.progress"}, [], everything=False)
    assert wanted({"kind": "job.progress"}, [], everything=True)


def test_an_event_is_made_safe() -> None:
    cells = history_tables.event_cells({"kind": "x", "at": "now", "text": "a\x1b]52;c;b\nc", "seq": 4})
    assert "\x1b" not in str(cells[-1])
    assert "\n" not in str(cells[-1])


def test_service_tables_draw_their_replies() -> None:
    def plain(item: msgspec.Struct) -> Any:
        return msgspec.json.decode(msgspec.json.encode(item))

    reply = plain(ReloadReply(changed=("a",), waits=("socket",), warnings=("odd",)))
    assert [row[1] for row in service_table.reloaded(reply).rows] == ["a", "socket", "odd"]
    view = plain(NotifyView(name="ops", kind="webhook", to="h", events=("job-failed",), waiting=3))
    assert separated(service_table.notified([view]))[1].split("\t")[:6] == [
        "ops",
        "webhook",
        "h",
        "job-failed",
        "no",
        "3",
    ]
    assert "arrived" in separated(service_table.tested([plain(TriedView(name="ops", seconds=0.2))]))[1]
    assert "failed" in separated(service_table.tested([plain(TriedView(name="ops", seconds=1, error="HTTP 500"))]))[1]


def test_a_verb_of_two_words_joined_by_a_hyphen() -> None:
    def job_log(_context: object) -> int:
        return 0

    job_log.__module__ = "rwkvctl.cli.commands.job_log"
    assert words_of(job_log) == "job-log"
    job_log.__name__ = "job_log_prune"
    assert words_of(job_log) == "job-log prune"
    job_log.__name__, job_log.__module__ = "import_", "rwkvctl.cli.commands.import_"
    assert words_of(job_log) == "import"
