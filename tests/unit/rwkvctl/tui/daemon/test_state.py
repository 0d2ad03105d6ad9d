"""The console's state is changed by replies and events, and by nothing else."""

from typing import Any

import msgspec
import pytest

from rwkvctl.cli.tables.core_tables import jobs
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.views import LeaseView, MetricView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import detail_lines
from rwkvctl.tui.jobs.columns import JobRow, progress, score_of, score_value


def event(kind: str, data: object = None, seq: int = 0) -> Event:
    return Event(kind=kind, at="2026-11-21T05:13:34Z", seq=seq, data=msgspec.to_builtins(data) if data else {})


@pytest.fixture
def state(fake_daemon: Any) -> ConsoleState:
    made = ConsoleState()
    made.load(fake_daemon.Node().on_status(), now=10_000.0)
    return made


def test_load_takes_the_whole_picture(state: ConsoleState) -> None:
    assert state.problem == ""
    assert [job.id for job in state.running] == ["j1"]
    assert [job.id for job in state.waiting] == ["j2"]
    assert state.started == 10_000.0 - 3700.0


def test_events_change_jobs_engines_and_leases(state: ConsoleState, fake_daemon: Any) -> None:
    state.hear(event("job.state", fake_daemon.job(1, "done"), seq=5))
    state.hear(event("engine.state", fake_daemon.engine(state="gone"), seq=6))
    state.hear(event("lease", LeaseView(id="cpu:0", use="free")))
    assert [job.id for job in state.ended] == ["j1"]
    assert state.engines == {}
    assert state.leases["cpu:0"].use == "free"
    assert state.seq == 6


@pytest.mark.parametrize("ended", ["gone", "failed"])
def test_an_engine_that_has_ended_is_listed_no_more(state: ConsoleState, fake_daemon: Any, ended: str) -> None:
    assert set(state.engines) == {"e1"}
    state.hear(event("engine.state", fake_daemon.engine(state="unloading"), seq=5))
    assert set(state.engines) == {"e1"}
    state.hear(event("engine.state", fake_daemon.engine(state=ended), seq=6))
    assert state.engines == {}


def test_a_score_is_heard_even_if_it_is_from_before_the_picture(state: ConsoleState, fake_daemon: Any) -> None:
    state.seq = 9
    state.hear(event("job.score", fake_daemon.score(4), seq=5))
    assert state.scores.models["rwkv7-g1-2.9b"]["gsm8k", "cot"].job == "j4"
    state.scores.complete = True
    state.load(fake_daemon.Node().on_status(), now=1.0)
    assert not state.scores.complete, "something may have been missed: all scores are read again"
    assert state.scores.count == 1


def test_progress_is_no_news(state: ConsoleState, fake_daemon: Any) -> None:
    before = state.revision
    state.hear(event("job.progress", fake_daemon.job(1, done=99)))
    assert len(state.events) == 0
    assert state.jobs["j1"].done == 99
    assert state.revision == before + 1
    state.hear(event("heartbeat"))
    assert state.revision == before + 1


def test_a_score_outlives_a_later_view_without_it(state: ConsoleState, fake_daemon: Any) -> None:
    state.hear(event("job.score", fake_daemon.job(1, "done", score=fake_daemon.score(1)), seq=1))
    state.hear(event("job.state", fake_daemon.job(1, "done"), seq=2))
    assert state.jobs["j1"].score is not None


def test_a_console_left_open_shows_the_final_score_and_not_the_last_one_so_far(
    state: ConsoleState, fake_daemon: Any
) -> None:
    state.hear(event("job.progress", fake_daemon.job(1, running_score=fake_daemon.METRIC)))
    assert score_of(state.jobs["j1"]) == "74.9 ±2.3"
    state.hear(event("job.state", fake_daemon.job(1, "done", running_score=fake_daemon.METRIC), seq=4))
    assert score_of(state.jobs["j1"]) == "–", "what was so far is no score of a job that is over"
    null = {"accuracy": MetricView(value=None)}
    state.hear(event("job.score", msgspec.structs.replace(fake_daemon.score(1), metrics=null), seq=5))
    assert score_of(state.jobs["j1"]) == "null"
    assert score_value(state.jobs["j1"]) is None
    table = jobs([msgspec.to_builtins(state.jobs["j1"])])
    row = dict(zip((column.title for column in table.columns), table.rows[0], strict=True))
    assert row["SCORE ±CI"] == "null", "the command line says the same"


def test_the_eta_of_a_job_that_makes_no_progress_is_not_kept(state: ConsoleState, fake_daemon: Any) -> None:
    """No event comes of a job that starves: what the daemon says of it is asked for."""
    state.hear(event("job.progress", fake_daemon.job(1, eta_s=4.0)))
    node = fake_daemon.Node(jobs=[fake_daemon.job(1, idle_s=100.0)])
    state.refresh(node.on_status())
    assert state.jobs["j1"].eta_s is None
    assert progress(JobRow(state.jobs["j1"])).text == "idle 1m40s"
    said = "".join(text for text, _ in detail_lines.progress(state.jobs["j1"], 120))
    assert "no progress for 1m40s" in said
    assert "ETA" not in said
    assert jobs([msgspec.to_builtins(state.jobs["j1"])]).rows[0][-1] == "no progress for 1m40s"


def test_a_status_of_which_everything_was_heard_brings_new_jobs_and_counts(fake_daemon: Any) -> None:
    state, node = ConsoleState(), fake_daemon.Node()
    node.tell("engine.state", fake_daemon.engine())
    state.load(node.on_status(), now=0.0)
    node.jobs.append(fake_daemon.job(3, "queued"))
    assert state.refresh(node.on_status()), "nothing has happened that was not heard"
    assert [job.id for job in state.waiting] == ["j2", "j3"]
    assert state.counts == {"generating": 1, "queued": 2}


def test_a_status_that_is_ahead_of_the_events_brings_estimates_alone(state: ConsoleState, fake_daemon: Any) -> None:
    node = fake_daemon.Node(jobs=[fake_daemon.job(1, eta_s=4.0), fake_daemon.job(2, "generating")])
    node.tell("job.state", node.jobs[1])
    assert not state.refresh(node.on_status())
    assert state.jobs["j1"].eta_s == 4.0
    assert state.jobs["j2"].state == "queued", "the event that says otherwise is still to come"
    assert state.counts == {"generating": 1, "queued": 1}


def test_losing_the_daemon_keeps_what_is_known(state: ConsoleState) -> None:
    state.lose("gone")
    assert state.problem == "gone"
    assert state.jobs


def test_waiting_jobs_stand_in_the_order_they_will_run(state: ConsoleState, fake_daemon: Any) -> None:
    given = [(11, {}), (12, {"priority": 5}), (9, {}), (8, {"reason": "data-missing"})]
    for seq, (number, more) in enumerate(given, 1):
        state.hear(event("job.queued", fake_daemon.job(number, "held" if number == 8 else "queued", **more), seq=seq))
    assert [job.id for job in state.waiting] == ["j12", "j2", "j9", "j11", "j8"]


def test_counts_follow_the_events(state: ConsoleState, fake_daemon: Any) -> None:
    assert state.counts == {"generating": 1, "queued": 1}
    state.hear(event("job.queued", fake_daemon.job(3, "queued"), seq=1))
    state.hear(event("job.state", fake_daemon.job(2, "generating"), seq=2))
    state.hear(event("job.state", fake_daemon.job(77, "starting"), seq=3))
    assert {word: number for word, number in state.counts.items() if number} == {"generating": 2, "starting": 1}


def test_a_long_history_is_forgotten_from_its_old_end(state: ConsoleState, fake_daemon: Any) -> None:
    for number in range(10, 2100):
        state.hear(event("job.state", fake_daemon.job(number, "done")))
    assert len(state.jobs) <= 2000
    assert {"j1", "j2", "j2099"} <= set(state.jobs)


def test_events_older_than_the_picture_are_only_news(fake_daemon: Any) -> None:
    state = ConsoleState()
    node = fake_daemon.Node()
    node.tell("job.state", node.jobs[0])
    state.load(node.on_status(), now=0.0)
    state.hear(event("job.state", fake_daemon.job(1, "starting"), seq=1))
    assert state.jobs["j1"].state == "generating"
    assert state.counts == {"generating": 1, "queued": 1}
    assert len(state.events) == 1


def test_a_deleted_job_is_in_no_list_and_no_count_and_scores_are_read_again(
    state: ConsoleState, fake_daemon: Any
) -> None:
    state.hear(event("job.state", fake_daemon.job(1, "done"), seq=1))
    state.scores.complete = True
    state.hear(event("job.state", fake_daemon.job(1, "deleted"), seq=2))
    assert "j1" not in state.jobs
    assert state.counts == {"generating": 0, "queued": 1, "done": 0}
    assert not state.scores.complete
    state.scores.complete = True
    state.hear(event("job.state", fake_daemon.job(1, "done"), seq=3))
    assert not state.scores.complete, "it is undeleted, and its score is told by nobody else"
