"""What `dispatch --wait` waits for, and what its exit code means."""

import io

import pytest

from rwkvctl.cli.job_progress import Progress
from rwkvctl.cli.render import Terminal
from rwkvctl.cli.waiting import AwaitedJobs, has_ended, outcome


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        ({}, False),
        ({"state": "generating"}, False),
        ({"state": "done"}, True),
        ({"state": "failed"}, True),
        ({"state": "stopped"}, True),
        ({"state": "held", "reason": "data-missing"}, True),
        ({"state": "held", "reason": "weights-hashing"}, False),
        ({"state": "held", "reason": "weights-copying"}, False),
        ({"state": "paused"}, False),
    ],
)
def test_what_has_ended(job: dict[str, str], ended: bool) -> None:
    assert has_ended(job) is ended


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["done", "done"], 0),
        ([], 0),
        (["done", "failed"], 1),
        (["done", "stopped"], 1),
        (["done", "held"], 8),
        (["held"], 1),
    ],
)
def test_exit_codes(states: list[str], code: int) -> None:
    assert outcome([{"state": state} for state in states]) == code


def test_only_jobs_that_are_waited_for_are_heard() -> None:
    waiting = AwaitedJobs(["j1", "j2"], None)
    waiting.hear({"id": "j9", "state": "done"})
    waiting.hear({"id": "j1", "state": "done"})
    assert not waiting.is_over()
    waiting.forget({"j2"})
    assert waiting.is_over()


def lines_of(*views: dict[str, object]) -> list[str]:
    terminal = Terminal({}, io.StringIO(), io.StringIO())
    progress = Progress(terminal)
    for view in views:
        progress.draw([{"id": "j1", "model": "m\x1b[2J", "benchmark": "b", "kind": "k", **view}])
    return terminal.err.getvalue().splitlines()


def test_a_log_gets_a_line_for_each_tenth_and_each_change() -> None:
    steps = [{"state": "generating", "done": done, "total": 100} for done in range(0, 100, 2)]
    lines = lines_of({"state": "queued"}, *steps, {"state": "done", "done": 100, "total": 100})
    assert 11 <= len(lines) <= 12
    assert all("\x1b" not in line for line in lines)
    assert lines[0].endswith("queued")
    assert "100% 100/100" in lines[-1]


def test_a_running_job_says_how_fast_and_how_long() -> None:
    metric = {"value": 0.5, "ci_low": 0.4, "ci_high": 0.6}
    [line] = lines_of({"state": "generating", "done": 50, "total": 100, "eta_s": 90.0, "samples_per_s": 12.345,
                       "running_score": metric})  # fmt: skip
    assert line.endswith("generating ━━━━┄┄┄┄  50% 50/100 1m30s left 50.0 ±10.0 12.3/s")


def test_a_waiting_job_is_not_repeated() -> None:
    assert len(lines_of(*[{"state": "queued"}] * 20)) == 1


class Tty(io.StringIO):
    """A terminal that is not there."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def test_a_terminal_is_redrawn_in_place_within_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal({"TERM": "xterm", "COLUMNS": "80", "LINES": "10", "NO_COLOR": "1"}, io.StringIO(), Tty())
    monkeypatch.setattr("rwkvctl.cli.job_progress.REDRAW_S", 0.0)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (0, 0))
    progress = Progress(terminal)
    names = {"model": "rwkv7-g1-2.9b-20260814\x1b[2J", "benchmark": "math_500", "kind": "cot"}
    score = {"value": 0.512, "ci_low": 0.45, "ci_high": 0.57}
    for done in (1, 200):
        jobs = [
            {"id": f"j{n}", "state": "generating", "done": done, "total": 500, "eta_s": 3600.0, **names}
            for n in range(20)
        ]
        progress.draw([*jobs, {"id": "j99", "state": "done", "done": 5, "total": 5, "running_score": score, **names}])
    text = terminal.err.getvalue()
    assert "\x1b[8F\x1b[J" in text
    assert "more jobs; 1 of 21 have finished" in text
    shown = text.replace("\x1b[8F\x1b[J", "").replace("\x1b[K", "")
    assert "\x1b" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert len(shown.splitlines()) == 16
