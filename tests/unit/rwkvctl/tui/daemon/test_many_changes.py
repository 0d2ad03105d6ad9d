"""One event says that very many jobs have another state: whoever follows knows it of each, and counts stay true."""

from rwkvctl.cli.waiting import AwaitedJobs
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.views import JobView
from rwkvctl.tui.daemon.state import ConsoleState


def moved(was: str, state: str, *jobs: int) -> Event:
    return Event(kind="jobs.state", at="", seq=5, data={"was": was, "state": state, "jobs": list(jobs)})


def job(number: int, state: str) -> JobView:
    return JobView(id=f"j{number}", model="m", benchmark="b", kind="k", state=state, session="s")  # type: ignore[arg-type]


def console() -> ConsoleState:
    state = ConsoleState()
    state.jobs = {one.id: one for one in (job(1, "queued"), job(2, "queued"), job(3, "done"))}
    state.counts = {"queued": 1000, "done": 1}
    return state


def test_the_console_knows_the_listed_ones_and_counts_the_others() -> None:
    state = console()
    state.hear(moved("queued", "stopped", 1, 500, 501))
    assert {one.id: one.state for one in state.jobs.values()} == {"j1": "stopped", "j2": "queued", "j3": "done"}
    assert state.counts == {"queued": 997, "done": 1, "stopped": 3}


def test_what_is_deleted_is_nowhere_any_more() -> None:
    state = console()
    state.hear(moved("queued", "deleted", 1, 500))
    assert state.jobs.keys() == {"j2", "j3"}
    assert state.counts == {"queued": 998, "done": 1}


def test_who_waits_for_a_job_hears_that_it_was_stopped_with_others() -> None:
    waiting = AwaitedJobs(["j1", "j2"], None)
    waiting.hear_of_many({"was": "queued", "state": "stopped", "jobs": [1, 7]})
    assert not waiting.is_over()
    waiting.hear_of_many({"was": "queued", "state": "stopped", "jobs": [2]})
    assert waiting.is_over()
