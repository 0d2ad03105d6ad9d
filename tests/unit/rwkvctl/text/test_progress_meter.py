"""How far, how fast, how long yet: in place on a terminal, seldom elsewhere."""

import io
import time

import pytest

from rwkvctl.text.progress_meter import Meter, Rate


class Tty(io.StringIO):
    """A terminal that is not there."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_says_all_of_it(clock: list[float]) -> None:
    one = Meter(in_bytes=True, stream=Tty())
    line = one.line(clock[0] + 10, "a.pth\x1b[2J", 3 * 2**30, 12 * 2**30, kept=2 * 2**30)
    assert line == "━━━━┄┄┄┄┄┄┄┄┄┄┄┄  25 %  3.0 GiB of 12.0 GiB  102.4 MiB/s  1m30s left  a.pth␛[2J"
    assert Meter(stream=Tty()).line(clock[0], "rows", 1200, 0) == "1,200  waiting  rows"


def test_a_terminal_is_redrawn_and_left_clean(clock: list[float]) -> None:
    screen = Tty()
    with Meter(stream=screen) as one:
        one.show("samples", 1, 10)
        one.show("samples", 2, 10)
        clock[0] += 1
        one.show("samples", 3, 10)
    assert screen.getvalue().count("\r") == 3, "not too often, and then gone"
    assert screen.getvalue().endswith("\r\x1b[K")
    assert "\n" not in screen.getvalue()


def test_elsewhere_a_plain_line_for_each_tenth_but_not_too_often(clock: list[float]) -> None:
    paper = io.StringIO()
    with Meter(stream=paper) as one:
        for done in range(100):
            clock[0] += 1
            one.show("samples", done, 100)
        for _ in range(60):
            clock[0] += 1
            one.show("samples", 99, 100)
    lines = paper.getvalue().splitlines()
    assert [line.split(" %")[0].strip() for line in lines[:3]] == ["10", "20", "30"]
    assert lines[0] == " 10 %  10 of 100  0.9/s  1m39s left  samples"
    assert len(lines) == 11, "nine tenths, and that it still lives"
    assert all("\x1b" not in line and "━" not in line for line in lines)


def test_what_is_quick_or_unwanted_says_nothing(clock: list[float]) -> None:
    paper, silent = io.StringIO(), Tty()
    with Meter(stream=paper) as one, Meter(stream=silent, quiet=True) as other:
        for done in range(5):
            clock[0] += 0.5
            one.show("samples", done, 4)
            other.show("samples", done, 4)
    assert paper.getvalue() == silent.getvalue() == ""


def test_more_and_more_of_one_piece_and_then_another(clock: list[float]) -> None:
    screen = Tty()
    with Meter(stream=screen) as one:
        add = one.adding("a file", 40)
        for _ in range(4):
            clock[0] += 1
            add(10)
        clock[0] += 1
        one.show("another", 0, 7)
    assert "40 of 40  10/s" in screen.getvalue()
    assert "0 of 7  waiting  another" in screen.getvalue(), "its rate begins anew"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate(0.0)
    assert rate.at(1.0, 100) == 100
    found = [rate.at(float(second), 100) for second in range(2, 31)]
    assert found[-1] == 0, "nothing has come for half a minute"
