"""Reports of a driver that has read the data of a hostile program."""

import pytest

from rwkv_data.sandbox import driver, program_outcomes
from rwkv_data.sandbox.program import Limits
from rwkv_data.sandbox.program_outcomes import check_outcome, script_outcome

PROGRAM = {"cpu_s": 0.1, "asleep_s": 0.0, "sure": True, "ending": 0, "status": 0}
DONE = {"guests": [PROGRAM, {"cpu_s": 0.1, "ending": 0, "status": 0, "done": True}]}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN'])
def test_one_that_is_none_is_an_error_and_no_pass(text: bytes) -> None:
    assert check_outcome(DONE, text).status == "error"


@pytest.mark.parametrize(
    "text", [b'{"failed": ["x"]}', b'{"failed": {"a": 1}, "detail": 3}', b'{"failed": "timeouts"}']
)
def test_one_that_says_nothing_known_of_a_failure_is_a_failure(text: bytes) -> None:
    outcome = check_outcome(DONE, text)
    assert (outcome.status, isinstance(outcome.detail, str)) == ("failed", True)


def test_a_whole_one_counts() -> None:
    assert check_outcome(DONE, b'{"starved": false, "passed": 3}').status == "passed"


@pytest.mark.parametrize(("sure", "busy", "starved"), [(True, True, False), (False, False, False), (False, True, True)])
def test_only_a_sleep_that_may_have_been_a_wait_on_a_busy_machine_is_run_again(
    monkeypatch: pytest.MonkeyPatch, sure: bool, busy: bool, starved: bool
) -> None:
    monkeypatch.setattr(program_outcomes, "busy", lambda: busy)
    asleep = PROGRAM | {"sure": sure, "ending": driver.OUT_OF_WALL}
    checked = check_outcome({"guests": [asleep, DONE["guests"][1]]}, b'{"failed": "timeout", "starved": true}')
    assert (checked.status, checked.starved) == ("timeout", starved)
    run = script_outcome({"guests": [asleep]}, Limits(), b"", b"")
    assert (run.status, run.starved) == ("timeout", starved)


@pytest.mark.parametrize("status", ["timeout", "memory", "killed", "lost"])
def test_what_ended_a_candidate_is_told_from_a_wrong_answer(status: str) -> None:
    assert check_outcome(DONE, f'{{"failed": "{status}"}}'.encode()).status == status


def test_output_up_to_its_limit_is_whole_and_at_the_limit_it_was_cut_off() -> None:
    limits = Limits(output_mb=1)
    assert script_outcome({"guests": [PROGRAM]}, limits, b"x" * ((1 << 20) - 1), b"").status == "passed"
    assert script_outcome({"guests": [PROGRAM]}, limits, b"x" * (1 << 20), b"").status == "output"
