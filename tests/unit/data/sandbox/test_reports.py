"""Reports of a driver that has read the data of a hostile program."""

import pytest

from rwkv_data.sandbox.program_outcomes import check_outcome

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
