"""Whether a GPU is to be used: tables for each happening, and histories of them that hypothesis makes up."""

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rwkv_daemon.gpus import xid_rules
from rwkv_daemon.gpus.condition_rules import (
    CLEAR_S,
    COOLDOWN_S,
    FORGET_S,
    SUSPECT_S,
    AwaitedProcess,
    ConditionRecord,
    Drain,
    EngineFailed,
    GpuEvent,
    GpuMeasured,
    Probe,
    Quarantine,
    Reserve,
    Undrain,
    Unquarantine,
    Unreserve,
    after,
    lasting,
    restored,
    shown,
)
from rwkv_daemon.rules.gpu_facts import GpuReading, Xid

NEW = ConditionRecord()


def reading(**values: Any) -> GpuReading:
    return GpuReading(id="GPU-a", **values)


def look(**values: Any) -> GpuMeasured:
    return GpuMeasured(reading(**values))


def through(record: ConditionRecord, *happenings: tuple[float, GpuEvent]) -> ConditionRecord:
    for at, happening in happenings:
        record = after(record, happening, at)
    return record


def test_one_failure_is_a_pause_a_second_a_suspicion_and_a_third_the_end() -> None:
    once = after(NEW, EngineFailed("SIGSEGV"), 100)
    assert shown(once) == ("cooldown", "an engine ended abnormally: SIGSEGV")
    assert shown(after(once, look(), 100 + COOLDOWN_S - 1))[0] == "cooldown"
    assert shown(after(once, look(), 100 + COOLDOWN_S)) == ("ok", "")
    twice = through(once, (200, look()), (300, EngineFailed("SIGSEGV")))
    assert shown(twice)[0] == "suspect"
    assert shown(after(twice, look(), 300 + SUSPECT_S)) == ("ok", "")
    thrice = through(twice, (1000, look()), (1100, EngineFailed("SIGBUS")))
    assert shown(thrice) == ("quarantined", "3 engines ended abnormally here, the last one: SIGBUS")
    assert shown(after(thrice, GpuMeasured(reading(), free=True), 1e6))[0] == "quarantined"
    assert shown(after(thrice, Unquarantine(), 1e6)) == ("ok", "")


def test_failures_of_long_ago_do_not_count() -> None:
    record = through(NEW, (0, EngineFailed("a")), (100, EngineFailed("b")), (100 + FORGET_S, EngineFailed("c")))
    assert shown(record)[0] == "cooldown"


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 109, 94, 63, 154])
def test_xids_of_applications_and_notices_leave_the_gpu_in_use(code: int) -> None:
    record = after(NEW, look(xids=(Xid(code=code, pid=7),)), 0)
    assert shown(record) == ("ok", "")
    assert record.application_xids == (1 if xid_rules.blame(code) == "application" else 0)


@pytest.mark.parametrize("code", [48, 62, 64, 74, 79, 95, 119, 120, 140, 9999])
def test_other_xids_quarantine_it_unknown_ones_too(code: int) -> None:
    condition, reason = shown(after(NEW, look(xids=(Xid(code=code),)), 0))
    assert condition == "quarantined"
    assert reason.startswith(f"XID {code} (")


def test_new_memory_errors_quarantine_and_old_ones_do_not() -> None:
    seen = after(NEW, look(ecc_uncorrected=4), 0)
    assert shown(seen) == ("ok", "")
    assert shown(after(seen, look(ecc_uncorrected=4), 1)) == ("ok", "")
    assert shown(after(seen, look(ecc_uncorrected=6), 1)) == ("quarantined", "2 uncorrectable memory errors (ECC)")
    reloaded = after(seen, look(ecc_uncorrected=0), 1)
    assert shown(reloaded) == ("ok", "")
    assert shown(after(reloaded, look(ecc_uncorrected=1), 2))[0] == "quarantined"
    assert after(seen, look(ecc_uncorrected=None), 1).ecc_seen == 4


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        ({"remap_failed": True}, "quarantined"),
        ({"recovery_action": "reset the GPU"}, "quarantined"),
        ({"lost": True, "trouble": "it has fallen off the bus"}, "quarantined"),
        ({"remap_pending": True}, "suspect"),
        ({"throttle": ("hw-thermal", "power-cap")}, "suspect"),
        ({"throttle": ("power-brake",)}, "suspect"),
        ({"throttle": ("power-cap", "sw-thermal")}, "ok"),
        ({"trouble": "the driver says: Unknown"}, "ok"),
    ],
)
def test_what_the_driver_says_of_its_health(values: dict[str, Any], condition: str) -> None:
    assert shown(after(NEW, look(**values), 0))[0] == condition


def test_a_symptom_that_stays_is_evidence_once() -> None:
    sick = after(NEW, look(recovery_action="reset the GPU"), 0)
    seen_to = after(sick, Unquarantine(), 10)
    assert shown(after(seen_to, look(recovery_action="reset the GPU"), 11)) == ("ok", "")
    well = after(seen_to, look(), 12)
    assert shown(after(well, look(recovery_action="reset the GPU"), 13))[0] == "quarantined"


def test_a_gpu_that_does_not_answer_keeps_its_symptoms() -> None:
    sick = through(NEW, (0, look(remap_failed=True)), (1, Unquarantine()), (2, look(trouble="hangs")))
    assert shown(after(sick, look(remap_failed=True), 3)) == ("ok", "")


def test_heat_that_comes_and_goes_is_one_suspicion() -> None:
    hot, cool = look(throttle=("hw-thermal",)), look()
    record = NEW
    for second in range(300):
        record = after(record, hot if second % 3 == 0 else cool, second)
        assert shown(record)[0] == "suspect"
    assert shown(after(record, cool, 300 + CLEAR_S)) == ("ok", "")


def test_a_suspicion_by_failures_is_not_cut_short_by_heat() -> None:
    record = through(NEW, (0, EngineFailed("a")), (1, EngineFailed("b")), (2, look(throttle=("hw-thermal",))))
    assert record.hold_ends == 1 + SUSPECT_S


def test_only_a_quarantine_by_a_process_ends_by_itself_and_only_on_a_free_gpu() -> None:
    stuck = after(NEW, Quarantine("e3 cannot be killed", "process"), 0)
    free, taken = GpuMeasured(reading(), free=True), GpuMeasured(reading(), free=False)
    assert shown(after(stuck, taken, 1e6))[0] == "quarantined"
    waiting = after(stuck, free, 100)
    assert shown(after(waiting, free, 100 + CLEAR_S)) == ("ok", "")
    interrupted = through(waiting, (110, taken), (120, free))
    assert shown(after(interrupted, free, 100 + CLEAR_S))[0] == "quarantined"
    for cause in ("operator", "hardware", "engine"):
        by_other = after(NEW, Quarantine("why", cause), 0)
        assert shown(through(by_other, (1, free), (1e6, free)))[0] == "quarantined"


def test_the_first_reason_stays_unless_a_lasting_one_comes() -> None:
    hardware = through(NEW, (0, Quarantine("XID 79", "hardware")), (1, Quarantine("because", "operator")))
    assert shown(hardware) == ("quarantined", "XID 79")
    stuck = through(NEW, (0, Quarantine("stuck", "process")), (1, Quarantine("XID 79", "hardware")))
    assert shown(stuck) == ("quarantined", "XID 79")
    assert stuck.cause == "hardware"


def test_what_an_operator_says_stays_below_a_quarantine() -> None:
    record = through(NEW, (0, Reserve("training")), (1, Probe(("x",))), (2, Quarantine("XID 79", "hardware")))
    assert shown(record)[0] == "quarantined"
    record = after(record, Unquarantine(), 3)
    assert shown(record) == ("reserved", "for training")
    record = after(record, Drain("fan"), 4)
    assert shown(record) == ("draining", "fan")
    record = through(record, (5, Undrain()), (6, Unreserve()))
    assert shown(record) == ("ok", "")
    assert record.probe == ()


def test_a_reservation_says_with_which_process_it_ends_and_forgets_it() -> None:
    until = AwaitedProcess(48112, 7, "boot")
    record = after(NEW, Reserve("training", until), 0)
    assert shown(record) == ("reserved", "for training, until process 48112 ends")
    back = msgspec.json.decode(msgspec.json.encode(lasting(record)), type=ConditionRecord)
    assert back.until == until
    assert shown(after(back, Reserve("training"), 1)) == ("reserved", "for training"), (
        "reserved again, without a process"
    )
    assert after(back, Unreserve(), 1).until is None


def test_a_record_survives_the_store_and_its_waits_begin_anew() -> None:
    record = through(NEW, (0, EngineFailed("a")), (1, EngineFailed("b")), (2, Reserve("training")))
    read = msgspec.json.decode(msgspec.json.encode(lasting(record)), type=ConditionRecord)
    back = restored(read, 5000)
    assert back.hold_ends == 5000 + SUSPECT_S
    assert shown(after(back, Unreserve(), 5001)) == shown(after(record, Unreserve(), 3))
    assert shown(through(back, (5001, Unreserve()), (5002, EngineFailed("c"))))[0] == "quarantined"


class Life(RuleBasedStateMachine):
    """Any history of one GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.record, self.at = NEW, 0.0
        self.quarantined, self.reserved, self.drained = False, "", ""

    def happen(self, happening: GpuEvent) -> None:
        self.record = after(self.record, happening, self.at)

    @rule(seconds=st.floats(0.1, 4000))
    def pass_time(self, seconds: float) -> None:
        self.at += seconds

    @rule()
    def fail(self) -> None:
        self.happen(EngineFailed("why"))

    @rule(
        code=st.sampled_from([0, 31, 45, 63, 79]), ecc=st.sampled_from([None, 0, 1, 5]),
        pending=st.booleans(), free=st.booleans(), lost=st.booleans(), recovery=st.sampled_from(["", "reset"]),
    )  # fmt: skip
    def measure(self, code: int, ecc: int | None, pending: bool, free: bool, lost: bool, recovery: str) -> None:
        xids = (Xid(code=code),) if code else ()
        seen = reading(
            xids=xids, ecc_uncorrected=ecc, remap_pending=pending, recovery_action=recovery, lost=lost,
            trouble="it is lost" if lost else "",
        )  # fmt: skip
        self.happen(GpuMeasured(seen, free=free))

    @rule()
    def reserve(self) -> None:
        self.reserved = "training"
        self.happen(Reserve("training"))

    @rule()
    def release(self) -> None:
        self.reserved = ""
        self.happen(Unreserve())

    @rule()
    def drain(self) -> None:
        self.drained = "fan"
        self.happen(Drain("fan"))

    @rule()
    def undrain(self) -> None:
        self.drained = ""
        self.happen(Undrain())

    @rule()
    def stuck(self) -> None:
        self.happen(Quarantine("stuck", "process"))

    @rule()
    def distrust(self) -> None:
        self.quarantined = True
        self.happen(Quarantine("I do not trust it", "operator"))

    @precondition(lambda self: self.quarantined)
    @rule()
    def trust(self) -> None:
        self.quarantined = False
        self.happen(Unquarantine())
        assert shown(self.record)[0] in {"ok", "reserved", "draining"}

    @rule()
    def restart(self) -> None:
        stored = msgspec.json.encode(lasting(self.record))
        before = shown(self.record)
        self.at = 7.0
        self.record = restored(msgspec.json.decode(stored, type=ConditionRecord), self.at)
        assert shown(self.record) == before

    @invariant()
    def what_the_operator_said_holds(self) -> None:
        condition, reason = shown(self.record)
        assert self.record.reserved_for == self.reserved
        assert self.record.draining == self.drained
        if self.quarantined:
            assert condition == "quarantined"
        if self.reserved or self.drained:
            assert condition in {"quarantined", "draining", "reserved"}
        assert bool(reason) == (condition != "ok")
        assert bool(self.record.quarantine) == bool(self.record.cause)

    @invariant()
    def every_wait_ends(self) -> None:
        later = after(self.record, GpuMeasured(None), self.at + SUSPECT_S + CLEAR_S)
        assert not later.hold
        assert shown(later)[0] in {"ok", "quarantined", "draining", "reserved"}


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase
