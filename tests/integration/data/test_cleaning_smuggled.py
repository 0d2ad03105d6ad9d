"""A row of a benchmark smuggled in as a training problem is caught: as it is, spaced, punctuated and spelt otherwise,
with its sentences in another order, among other text."""

import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.cleaning import benchmark_index, clean
from rwkv_data.recipes.cleaning.problem_text import Problem

NOUNS = ["apples", "boxes", "children", "dollars", "hours", "kilometres", "marbles", "pages", "stamps", "trees"]
SENTENCE = st.builds(
    lambda name, count, one, other: f"{name} has {count} {one} and twice as many {other}.",
    st.sampled_from(["Ann", "Bo", "Carla", "Dev"]),
    st.integers(2, 9999),
    st.sampled_from(NOUNS),
    st.sampled_from(NOUNS),
)
ROW = st.lists(SENTENCE, min_size=2, max_size=6, unique=True).map(lambda said: " ".join([*said, "How many are there?"]))


def is_caught(row: str, problem: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"question": row}]
        index = benchmark_index.opened("b", "b", Path(folder) / "cache", lambda: rows)
        return bool(clean.clean([Problem(problem)], [index], Path(folder), lambda _: None).near.all())


@given(ROW, st.randoms())
def test_reordered(row: str, order: random.Random) -> None:
    sentences = row.split(". ")
    order.shuffle(sentences)
    assert is_caught(row, ". ".join(sentences))


@given(ROW, st.randoms(), st.sampled_from(["\u00a0", "\n", "  ", "\u3000", " ~ ", "\t"]))
def test_spaced_and_punctuated_otherwise(row: str, dice: random.Random, blank: str) -> None:
    other = "".join(blank if char == " " else char + dice.choice(["", "", " !", ","]) * (char == ".") for char in row)
    assert is_caught(row, other)


@given(ROW, st.randoms())
def test_blanks_inside_words(row: str, dice: random.Random) -> None:
    """Where words were taken apart, the characters are still those of the row."""
    other = "".join(char + " " * (char.isalpha() and dice.random() < 0.5) for char in row)
    assert is_caught(row, other)


@given(ROW, st.sampled_from(["wide", "upper", "unseen"]))
def test_in_other_unicode_forms(row: str, form: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in row)
    assert is_caught(row, {"wide": wide, "upper": row.upper(), "unseen": "\u200b".join(row)}[form])


@given(ROW, ROW)
def test_among_other_text(row: str, other: str) -> None:
    assert is_caught(row, f"Solve this. {row} Think step by step. {other}")


def test_a_short_row_is_caught_where_it_is_the_whole_problem() -> None:
    assert is_caught("17+25=", " 17 + 25 = ?")
    assert is_caught("Paris", "paris")
    assert not is_caught("What is the answer?", "Ann has 3 dogs. What is the answer?")
