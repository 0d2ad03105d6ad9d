"""The filter language of every list."""

import operator
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.tui.widgets.filter_query import number, parse

FIELDS = {name: operator.itemgetter(name) for name in ("job", "model", "score", "done", "state")}
ROW = {"job": "j412", "model": "rwkv7-g1-2.9b", "score": 74.9, "done": 1685, "state": "generating"}
HAY = "j412\trwkv7-g1-2.9b\tgsm8k cot\tgenerating"


def passes(text: str, row: dict[str, Any] = ROW, hay: str = HAY) -> bool:
    return all(test(hay, row) for test in parse(text, FIELDS).tests)


@pytest.mark.parametrize(
    "text",
    ["", "g1", "GSM8K", "g1 cot", "!mmlu", "~r7g1", "model:2.9B", "mod:2.9b", "score:>70", "score:>=74.9", "score:<1k",
     "done:=1,685", "done:!=7", "state:=GENERATING", "state:!=held", '"gsm8k cot"', "re:j4\\d+", "!re:j5\\d+",
     "re:GSM.K", "!state:held", "done:>1.5k", "!"[:0]],
)  # fmt: skip
def test_passes(text: str) -> None:
    assert passes(text)


@pytest.mark.parametrize(
    "text",
    ["mmlu", "!g1", "g1 mmlu", "~g1r7w", "model:7.2b", "score:<70", "score:>74.9", "done:=7", "state:=gen",
     '"cot gsm8k"', "re:^j5", "!re:j4", "nofield:x", "state:<a"],
)  # fmt: skip
def test_does_not_pass(text: str) -> None:
    assert not passes(text)


def test_a_value_that_is_missing_passes_no_comparison() -> None:
    assert not passes("score:>0", ROW | {"score": None})
    assert not passes("score:<=0", ROW | {"score": "–"})
    assert passes("!score:>0", ROW | {"score": None})


def test_a_name_that_means_two_columns_is_text() -> None:
    assert passes("s:x", ROW, "a s:x b")
    assert not passes("s:generating")


@pytest.mark.parametrize("text", ["re:(", "!re:[", "re:*"])
def test_a_wrong_expression_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        parse(text, FIELDS)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_understood_or_refused_with_a_sentence(text: str, hay: str) -> None:
    try:
        query = parse(text, FIELDS)
    except ValueError:
        assert "re:" in text
        return
    assert all(isinstance(test(hay.lower(), ROW), bool) for test in query.tests)


@given(st.from_regex(re.compile(r"[a-z0-9]{1,8}"), fullmatch=True), st.text(max_size=40))
def test_a_word_and_its_negation_part_the_rows(word: str, hay: str) -> None:
    assert passes(word, hay=hay.lower()) is not passes(f"!{word}", hay=hay.lower())


@pytest.mark.parametrize(
    ("text", "value"), [("1,200", 1200), ("480k", 480_000), ("51.6 %", 51.6), ("-3", -3), ("x", None)]
)
def test_numbers_as_people_write_them(text: str, value: float | None) -> None:
    assert number(text) == value
