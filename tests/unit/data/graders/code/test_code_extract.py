"""Extraction of code from completions, and the tests in rows."""

import base64
import json
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.graders.code.contest_tests import (
    BadTestsError,
    decode_private_tests,
    input_output,
    keys_as_numbers,
    livecodebench_tests,
)
from rwkv_data.graders.code.extract import (
    ExtractedCode,
    ExtractionRule,
    before_fence,
    between_last_fences,
    continuation,
    last_fenced,
)

TWO = "First:\n```python\na = 1\n```\nBetter:\n```\nb = 2\n```\nDone."


@pytest.mark.parametrize(
    ("rule", "text", "found"),
    [
        (continuation, "    return 1\n", ExtractedCode("    return 1\n", "continuation")),
        (continuation, " \n", None),
        (before_fence, "\ndef f(): pass\n```\nThat is it.", ExtractedCode("\ndef f(): pass\n", "before-fence")),
        (before_fence, "x = 1```", ExtractedCode("x = 1", "before-fence")),
        (before_fence, "def f(): pass", ExtractedCode("def f(): pass", "unfenced")),
        (before_fence, "```python\ndef f(): pass", None),
        (before_fence, "", None),
        (last_fenced, TWO, ExtractedCode("b = 2", "last-fence")),
        (last_fenced, "```python\na = 1\n```\n```python\nb = 2", ExtractedCode("b = 2", "open-fence")),
        (last_fenced, "```python\na = 1\n```\n```", ExtractedCode("a = 1", "last-fence")),
        (last_fenced, "no code", None),
        (last_fenced, "``` ```", None),
        (between_last_fences, TWO, ExtractedCode("b = 2", "between-fences")),
        (between_last_fences, "```python\na = 1", None),
        (between_last_fences, "```\n```", None),
    ],
)
def test_rules(rule: ExtractionRule, text: str, found: ExtractedCode | None) -> None:
    assert rule(text) == found


@given(st.text(alphabet="`\na "))
def test_what_is_found_stands_in_the_text_and_is_not_blank(text: str) -> None:
    for rule in (continuation, before_fence, last_fenced, between_last_fences):
        found = rule(text)
        assert found is None or (found.code.strip() and found.code in text)


TESTS = [{"input": "1", "output": "2", "testtype": "stdin"}]


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_private_tests_in_both_forms() -> None:
    assert decode_private_tests(json.dumps(TESTS)) == TESTS
    assert decode_private_tests(packed(json.dumps(TESTS))) == TESTS
    public = json.dumps([{"input": "0", "output": "1", "testtype": "functional"}])
    tests = livecodebench_tests(public, packed(json.dumps(TESTS)), '{"func_name": "f"}')
    assert tests == {"inputs": ["0", "1"], "outputs": ["1", "2"], "fn_name": "f"}
    assert livecodebench_tests(public, "[]", "")["fn_name"] == ""


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("this was executed",))


def test_a_pickle_that_would_run_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (Evil(), [Evil()], print, {"a": Evil}):
        with pytest.raises(BadTestsError, match="text only"):
            decode_private_tests(packed(value))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text",
    ["", "x", "{}", "[1]", '[{"input": 1}]', packed(5), packed("not json"), packed("[5]"), "AAAA", packed(b"[]")],
)
def test_private_tests_that_are_none(text: str) -> None:
    with pytest.raises(BadTestsError):
        decode_private_tests(text)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = base64.b64encode(zlib.compress(b"X" * (1 << 24))[:-4]).decode()
    with pytest.raises(BadTestsError):
        decode_private_tests(bomb)


@given(st.text())
def test_any_text_is_tests_or_refused(text: str) -> None:
    try:
        assert isinstance(decode_private_tests(text), list)
    except BadTestsError:
        return


def test_input_and_output_of_a_row() -> None:
    column = {"inputs": [[1]], "outputs": [2], "fn_name": "f"}
    for value in (column, json.dumps(column)):
        assert input_output({"input_output": value}) == ([[1]], [2], "f")
    for bad in ("", "5", "{}", {"inputs": [], "outputs": []}, {"inputs": [1], "outputs": []}, None):
        with pytest.raises(BadTestsError):
            input_output({"input_output": bad})


def test_numeric_keys_come_back() -> None:
    assert keys_as_numbers({"1": "a"}) == {1: "a"}
    assert keys_as_numbers({"x": "a"}) == {"x": "a"}
    assert keys_as_numbers([1]) == [1]
