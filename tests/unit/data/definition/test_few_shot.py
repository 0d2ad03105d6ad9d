"""Few-shot examples: which ones, in which order, and that they are reproducible."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.few_shot import FewShot

POOL = [{"question": f"q{number}", "subject": "ab"[number % 2]} for number in range(20)]
ROWS = [{"question": f"r{number}", "subject": "ab"[number % 2]} for number in range(6)]


def shots(**changes) -> FewShot:
    return FewShot(**{"count": 2, "example": lambda row: f"Q {row['question']} A"} | changes)


def test_the_first_ones_in_the_order_of_the_pool() -> None:
    asked = shots(before=lambda _row: "About:\n").attach(ROWS[:1], POOL)
    assert shots(before=lambda _row: "About:\n").prompt(asked[0], "Q r0") == "About:\nQ q0 A\n\nQ q1 A\n\nQ r0"


def test_examples_share_the_row_s_subject() -> None:
    asked = shots(by="subject").attach(ROWS, POOL)
    assert [row["shots"] for row in asked[:2]] == [["Q q0 A", "Q q2 A"], ["Q q1 A", "Q q3 A"]]


def test_sampled_examples_are_one_stream_over_all_rows() -> None:
    asked = shots(pick="sampled", seed=7).attach(ROWS, POOL)
    stream = random.Random(7)
    expected = [[f"Q {one['question']} A" for one in stream.sample(POOL, 2)] for _ in ROWS]
    assert [row["shots"] for row in asked] == expected


def test_a_row_is_never_its_own_example() -> None:
    asked = shots(pick="sampled", count=3, same_split=True).attach(POOL, POOL)
    for row in asked:
        assert len(row["shots"]) == 3
        assert f"Q {row['question']} A" not in row["shots"]


def test_fixed_texts_need_no_pool() -> None:
    fixed = shots(fixed=("one", "two", "three"))
    assert not fixed.needs_pool
    assert fixed.prompt(fixed.attach(ROWS[:1], [])[0], "ask") == "one\n\ntwo\n\nask"


def test_none_leaves_the_prompt_as_it_is() -> None:
    none = shots(count=0)
    assert none.attach(ROWS, []) == ROWS
    assert none.prompt(ROWS[0], "ask") == "ask"


def test_too_few_examples_are_said_with_their_number() -> None:
    with pytest.raises(SettingError, match="30 examples are asked for and 10 are prepared for subject 'a'"):
        shots(count=30, by="subject").attach(ROWS, POOL)


@given(st.integers(1, 6), st.integers(0, 5))
def test_a_part_of_the_rows_has_the_examples_it_has_in_the_whole(count: int, first: int) -> None:
    kind_of_shots = shots(pick="sampled")
    whole = kind_of_shots.attach(ROWS, POOL)
    assert kind_of_shots.attach(ROWS[: first + count], POOL) == whole[: first + count]
