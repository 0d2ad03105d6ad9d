"""Several logs told as one, and which logs a name means."""

from typing import Any

from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.views import JobView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.logs.merge import PATIENCE, LogMerge
from rwkvctl.tui.logs.sources import sources, targets
from rwkvctl.tui.logs.store import LogStore


def lines(merge: LogMerge) -> list[str]:
    merge.flush()
    return [merge.store.line(number).decode() for number in range(merge.store.first, merge.store.end)]


def piece(text: str, second: int = 0, source: str = "j1", **more: Any) -> LogChunk:
    return LogChunk(source=source, text=text, at=f"2026-11-22T10:48:{second:02d}Z", **more)


def job(number: int, state: Any = "generating", **more: Any) -> JobView:
    return JobView(id=f"j{number}", model="m", benchmark="b", kind="k", state=state, session="s", **more)


def test_pieces_of_several_sources_are_put_in_the_order_of_their_times() -> None:
    merge = LogMerge(LogStore())
    merge.take(piece("late\n", 30))
    merge.take(piece("early\nTraceback (most recent call last):\n", 10, source="e1"))
    merge.take_event(Event(kind="job.state", at="2026-11-22T10:48:20.500Z", job="j1", text="m b k: failed",
                           data={"state": "failed"}))  # fmt: skip
    assert lines(merge) == [
        "2026-11-22 UTC",
        "10:48:10   e1     early",
        "10:48:10 E e1     Traceback (most recent call last):",
        "10:48:20 E daemon j1 failed · m b k",
        "10:48:30   j1     late",
    ]


def test_the_past_of_several_sources_is_put_in_order_together_however_late_one_comes() -> None:
    merge = LogMerge(LogStore())
    for source in ("j1", "daemon"):
        merge.await_past(source)
    merge.take(piece("late\n", 30))
    merge.past_is_told("j1")
    assert lines(merge) == []
    merge.take_event(Event(kind="job.state", at="2026-11-22T10:48:20.500Z", job="j1", text="m b k: starting"))
    merge.past_is_told("daemon")
    assert lines(merge)[1:] == ["10:48:20   daemon j1 starting · m b k", "10:48:30   j1     late"]
    merge.await_past("e2")  # joins in later
    merge.take(piece("goes on\n", 31))
    assert lines(merge)[-1] == "10:48:31   j1     goes on"


def test_a_source_that_does_not_answer_holds_up_the_others_for_a_while_only() -> None:
    merge = LogMerge(LogStore())
    merge.await_past("e1")
    merge.take(piece("said\n", 1))
    for _ in range(PATIENCE):
        assert lines(merge) == []
    assert lines(merge)[1:] == ["10:48:01   j1     said"]


def test_a_note_of_the_console_waits_for_nobody() -> None:
    merge = LogMerge(LogStore())
    merge.await_past("e1")
    merge.take(piece("said\n", 1))
    merge.note("gap")
    assert lines(merge)[1:] == ["10:48:01   j1     said", "gap"]


def test_a_line_that_comes_in_pieces_has_the_time_of_its_beginning_and_is_not_mixed_with_others() -> None:
    merge = LogMerge(LogStore())
    merge.take(piece("beg", 1))
    merge.take(piece("other\n", 2, source="e1"))
    merge.take(piece("un\nnext", 3))
    merge.take(piece(" one\n", 4))
    assert lines(merge)[1:] == ["10:48:01   j1     begun", "10:48:02   e1     other", "10:48:03   j1     next one"]


def test_a_worker_that_says_the_time_itself_is_believed() -> None:
    merge = LogMerge(LogStore())
    merge.take(piece("02:58:50.114 W grade two answers\n", 9))
    merge.take(piece("2026-11-22T10:48:05.250Z builtin: starting\n", 9, source="daemon"))
    assert lines(merge)[1:] == ["10:48:05   daemon builtin: starting", "02:58:50 W j1     W grade two answers"]


def test_a_new_day_is_said_once_and_a_note_stands_behind_what_came_before() -> None:
    merge = LogMerge(LogStore())
    merge.take(LogChunk(source="j1", text="a\n", at="2026-11-22T23:59:59Z"))
    merge.take(LogChunk(source="j1", text="b\n", at="2026-11-23T00:00:01Z"))
    merge.note("gap")
    merge.take(LogChunk(source="j1", text="c\n", at="2026-11-23T00:00:02Z"))
    merge.take(LogChunk(source="j1", text="without a time\n"))
    found = lines(merge)
    assert [line for line in found if "UTC" in line] == ["2026-11-22 UTC", "2026-11-23 UTC"]
    assert found[4:] == ["gap", "00:00:02   j1     c", "           j1     without a time"]
    assert merge.store.notes[merge.store.first + 4] == "gap"


def test_an_event_of_an_engine_names_it_once() -> None:
    merge = LogMerge(LogStore())
    merge.take_event(Event(kind="engine.state", at="2026-11-22T10:48:20.500Z", engine="e1", text="e1 builtin is ready"))
    merge.take_event(Event(kind="daemon", at="2026-11-22T10:48:21.500Z"))
    assert lines(merge)[1:] == ["10:48:20   daemon e1 builtin is ready", "10:48:21   daemon daemon"]


def test_no_name_means_the_newest_running_job_and_the_daemon() -> None:
    state = ConsoleState(jobs={"j1": job(1), "j2": job(2), "j3": job(3, "queued")})
    assert targets("", state) == ["j2", "daemon"]
    assert targets("", ConsoleState()) == ["daemon"]
    assert targets("j7", state) == ["j7"]
    assert targets("daemon", state) == ["daemon"]
    assert targets("daemon+j1+e1+j1", state) == ["j1", "e1", "daemon"], "the daemon's lines come once, with several"


def test_everything_that_has_a_log_is_offered_what_runs_first() -> None:
    state = ConsoleState(jobs={"j1": job(1), "j2": job(2), "j3": job(3, "held", attempt=1), "j4": job(4, "done")})
    found = sources(state)
    assert [source.name for source in found] == ["", "j1+j2+daemon", "j2", "j1", "daemon", "j4", "j3"]
    assert found[5].words == "j4  m × b k, done"
