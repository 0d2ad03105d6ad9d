"""Which guests count as asleep: those neither at work nor waiting for a processor."""

from types import SimpleNamespace

import pytest

from rwkv_data.sandbox import driver, watched_guest
from rwkv_data.sandbox.processor_waits import UNKNOWN, ProcessorWaits
from rwkv_data.sandbox.watched_guest import SleepClock


class Machine(ProcessorWaits):
    """A machine whose clock and processor times change only when a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now, self.waited, self.cpu_s = 1000.0, 0.0, 0.0
        monkeypatch.setattr(watched_guest, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.guests = [SimpleNamespace(handle=0, ending=driver.ALIVE, used=lambda: self.cpu_s)]

    def seconds(self, handles: object) -> float:
        return self.waited

    def pass_by(self, clock: SleepClock, *, work: float = 0.0, wait: float = 0.0, sleep: float = 0.0) -> None:
        self.now += work + wait + sleep
        self.cpu_s += work
        self.waited += wait if self.waited != UNKNOWN else 0.0
        clock.update(self.guests)  # type: ignore[arg-type]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_only_sleep_is_counted(machine: Machine) -> None:
    clock = SleepClock(machine)
    machine.pass_by(clock)
    machine.pass_by(clock, work=1.0, wait=50.0)
    assert clock.seconds == pytest.approx(0.0)
    machine.pass_by(clock, work=0.03, sleep=0.97)
    machine.pass_by(clock, wait=2.0, sleep=1.0)
    assert (clock.seconds, clock.sure) == (pytest.approx(1.97), True)


def test_a_wait_that_is_written_down_late_is_no_sleep(machine: Machine) -> None:
    """The kernel counts a wait only when it has ended."""
    clock = SleepClock(machine)
    machine.pass_by(clock)
    machine.pass_by(clock, sleep=0.5)
    machine.pass_by(clock, work=0.5)
    machine.now += 4.0
    clock.update(machine.guests)  # type: ignore[arg-type]
    machine.waited += 4.0
    machine.pass_by(clock, work=0.1)
    assert clock.seconds == pytest.approx(0.5)


def test_where_nobody_counts_waits_some_work_is_work(machine: Machine) -> None:
    machine.waited = UNKNOWN
    clock = SleepClock(machine)
    machine.pass_by(clock)
    machine.pass_by(clock, work=0.1, wait=0.9)
    assert (clock.seconds, clock.sure) == (0.0, False)
    machine.pass_by(clock, work=0.01, sleep=0.99)
    assert clock.seconds == pytest.approx(0.99)


def test_what_passes_between_two_programs_is_nobodys_sleep(machine: Machine) -> None:
    """The process of a driver serves one check after the other, and may wait for hours between two."""
    first = SleepClock(machine)
    machine.pass_by(first)
    machine.pass_by(first, work=1.0)
    machine.now += 5000.0
    second = SleepClock(machine)
    machine.cpu_s = 0.2  # of another candidate
    machine.pass_by(second)
    machine.pass_by(second, work=0.1)
    assert (first.seconds, second.seconds) == (0.0, pytest.approx(0.0))
