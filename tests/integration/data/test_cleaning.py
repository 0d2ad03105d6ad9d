"""Cleaning against a second, naive implementation."""

import os
import tempfile
from pathlib import Path
from unittest import mock

import naive_cleaning
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import row_ids
from rwkv_data.recipes.cleaning import benchmark_index, clean, near_duplicates
from rwkv_data.recipes.cleaning.problem_text import Problem
from rwkv_data.recipes.cleaning.rules import RULES, fewest_shared, is_near

VOCABULARY = ["a", "bee", "c", "12", "3", "x", "中", "文", "dog", "runs"]
STORY = [f"{word}{number % 7}" for number in range(12) for word in ("the", "of", "sum", "k")]
LONG = st.builds(lambda at, size: STORY[at : at + size], st.integers(0, 30), st.integers(6, 40))
SHORT = st.lists(st.sampled_from(VOCABULARY), max_size=24)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Words, some of them out of one story, with a few of them changed, in other spacing."""
    words = list(draw(LONG | SHORT | st.tuples(SHORT, LONG).map(lambda two: [*two[0][:4], *two[1]])))
    for _ in range(draw(st.integers(0, 2))):
        if words:
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(VOCABULARY))
    return draw(st.sampled_from([" ", "+", ", ", "  ", "-"])).join(words)


ROWS = st.lists(
    st.fixed_dictionaries({"question": texts()}, optional={"choices": st.lists(texts(), min_size=2, max_size=3)}),
    max_size=5,
)


def cleaned(problems: list[str], benchmarks: list[list[dict[str, object]]], folder: Path) -> clean.Cleaned:
    """What the product finds, with blocks so small that every text is one."""
    indexes = [
        benchmark_index.opened(f"b{number}", f"{number}", folder / "cache", lambda rows=rows: rows)
        for number, rows in enumerate(benchmarks)
    ]
    return clean.clean(map(Problem, problems), indexes, folder, lambda _: None)


@pytest.mark.parametrize("block", [1, 1 << 20])
@given(problems=st.lists(texts(), max_size=8), benchmarks=st.lists(ROWS, max_size=2))
def test_the_naive_implementation_agrees(block: int, problems: list[str], benchmarks) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.multiple(clean, BLOCK=block),
        mock.patch.multiple(benchmark_index, BLOCK=block),
        mock.patch.multiple(near_duplicates, BLOCK=block),
    ):
        found = cleaned(problems, benchmarks, Path(folder))
        rules = [[""] * len(benchmarks) for _ in problems]
        for problem, matches in found.by_problem():
            for match in matches:
                rules[problem][match.benchmark] = RULES[match.rule]
        assert (rules, found.duplicates.of.tolist()) == naive_cleaning.clean(problems, benchmarks)
        assert found.duplicates.in_part == 0
        assert found.stays.tolist() == [
            not any(near) and of < 0 for near, of in zip(rules, found.duplicates.of.tolist(), strict=True)
        ]


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_fewest_shared_is_where_near_begins(one: int, other: int, shared: int) -> None:
    shared = min(shared, one, other)
    assert is_near(shared, one, other) == (shared >= fewest_shared(one, other) > 0)


def test_a_hash_is_never_the_verdict(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all texts have the same hashes, the verdicts are those of the texts."""
    real = benchmark_index.HashedTexts._hashes
    monkeypatch.setattr(benchmark_index.HashedTexts, "_hashes", lambda *given: real(*given) & 0)
    problems = [" ".join(f"{name}{number}" for number in range(20)) for name in "pqrs"]
    rows = [{"question": problems[0].upper()}, {"question": " ".join(f"z{number}" for number in range(20))}]
    found = cleaned([*problems, problems[2]], [rows], tmp_path)
    assert found.stays.tolist() == [False, True, True, True, False]
    assert found.duplicates.of.tolist() == [-1, -1, -1, -1, 2]


def test_the_rarest_gram_is_named_and_how_many_rows_have_it(tmp_path) -> None:
    lead_in = "for which of these two scenarios does the main character clearly do something that is wrong"
    rows = [
        {"question": f"{lead_in} scenario {number} about one thing or another that happened"} for number in range(9)
    ]
    found = cleaned([f"{lead_in} in this one", f"x {rows[4]['question']}", "nothing of the kind"], [rows], tmp_path)
    (_, (common,)), (_, (own,)) = found.by_problem()
    assert (common.held_by, common.start) == (9, 0)
    assert (own.row, own.held_by) == (4, 1)
    assert found.stays.tolist() == [False, False, True]


def test_problems_that_share_a_page_of_instructions_are_compared_in_part(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(near_duplicates, "MOST_COMPARED", 4)
    page = " ".join(f"word{number}" for number in range(60))
    problems = [f"{page} " + " ".join(f"own{one}x{number}" for number in range(9)) for one in range(12)]
    found = cleaned([*problems, problems[0] + " more"], [], tmp_path)
    assert found.duplicates.of.tolist() == [-1] * 12 + [0]
    assert found.duplicates.in_part == 8  # found all the same: the rarest grams are looked at first
    alike = [f"{page} {page[::-1]} own{one} of it" for one in range(3)]
    assert cleaned(alike, [], tmp_path).duplicates.of.tolist() == [-1, 0, 0]


def test_an_index_is_kept_and_made_again_if_it_is_damaged(tmp_path) -> None:
    made = []

    def rows():
        made.append(1)
        return [{"question": "what is it", "id": 7}, {"question": ""}, {"n": 1}]

    def index():
        return benchmark_index.opened("b", "abc", tmp_path, rows)

    assert [index().row_name(row) for row in range(3)] == ["7", "b/1", "b/2"]
    assert index().texts(0) == ("what is it",)
    assert len(made) == 1
    (folder,) = tmp_path.iterdir()
    (folder / "equal.rows").write_bytes(b"")
    assert index().row_name(0) == "7"
    (folder / "words").write_bytes(b"no arrow")
    assert index().row_name(0) == "7"
    assert len(made) == 3
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("file", ["words", "equal.rows", "equal.hashes", "grams-13.rows", "bags.rows"])
def test_a_byte_that_changed_in_an_index_is_noticed(tmp_path, file) -> None:
    """Unnoticed it is a row that is not found, or a row of another number."""
    row = {"question": " ".join(f"word{number}" for number in range(30))}
    made = []

    def index():
        return benchmark_index.opened("b", "abc", tmp_path, lambda: made.append(1) or [row])

    index()
    path = next(tmp_path.iterdir()) / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert index().row_name(0) == "b/0"
    assert len(made) == 2
    index()
    assert len(made) == 2


def test_of_two_that_make_an_index_at_once_the_first_one_is_kept(tmp_path) -> None:
    """The other process may be reading it already."""
    rows = [{"question": "what is it"}]

    def slow():
        benchmark_index.opened("b", "abc", tmp_path, lambda: rows)  # another process, meanwhile
        slow.folder = next(path for path in tmp_path.iterdir() if not path.name.startswith("."))
        slow.inode = slow.folder.stat().st_ino
        return rows

    assert benchmark_index.opened("b", "abc", tmp_path, slow).texts(0) == ("what is it",)
    assert slow.folder.stat().st_ino == slow.inode
    assert list(tmp_path.iterdir()) == [slow.folder]


def test_what_a_killed_process_left_is_removed_a_day_later(tmp_path) -> None:
    left, new = tmp_path / ".part-left", tmp_path / ".part-new"
    for folder in (left, new):
        folder.mkdir()
        (folder / "words").write_bytes(b"half")
    os.utime(left, (0, 0))
    benchmark_index.opened("b", "abc", tmp_path, lambda: [{"question": "what is it"}])
    assert not left.exists()
    assert new.exists()


def test_a_row_is_called_as_in_samples(tmp_path) -> None:
    def names(number: int, rows: list[dict[str, object]]) -> list[str]:
        index = benchmark_index.opened("b", str(number), tmp_path, lambda: rows)
        known = row_ids.ids_of("b", rows)
        found = [index.row_name(row) for row in range(len(rows))]
        assert found == [known(row) for row in range(len(rows))]
        return found

    assert names(1, [{"id": " a "}, {"task_id": "t/1"}, {"id": True}, {"id": "x" * 300}]) == ["a", "t/1", "b/2", "b/3"]
    assert names(2, [{"id": 1}, {"id": "1"}, {"id": 2}]) == ["b/0", "b/1", "b/2"]
    lone = benchmark_index.opened("b", "3", tmp_path, lambda: [{"id": "a\ud800"}])
    assert lone.row_name(0) == "a?"


def test_where_the_cache_cannot_be_written_the_index_is_made_elsewhere(tmp_path) -> None:
    rows = [{"question": "what is it"}]
    benchmark_index.opened("b", "abc", tmp_path / "cache", lambda: rows)

    def none():
        raise AssertionError("the cache has it")

    kept = benchmark_index.opened("b", "abc", tmp_path / "cache", none, made_in=tmp_path / "scratch")
    assert kept.texts(0) == ("what is it",)
    assert (next((tmp_path / "cache").iterdir()).stat().st_mode & 0o777) == 0o755
    made = benchmark_index.opened("b", "def", tmp_path / "cache", lambda: rows, made_in=tmp_path / "scratch")
    assert made.row_name(0) == "b/0"
    assert len(list((tmp_path / "cache").iterdir())) == len(list((tmp_path / "scratch").iterdir())) == 1


def test_choices_make_a_problem_another_one_but_hide_no_row(tmp_path) -> None:
    asked = "Which of these is right?"
    row = {"question": "Which tower of the old town is the higher one?", "choices": ["the left", "the right"]}
    problems = [
        Problem(asked, "a cat a dog"),
        Problem(asked, "a fox a hen"),
        Problem(asked, "a cat, a dog"),
        Problem(row["question"], "the right the left neither of both is high"),  # other choices
        Problem("Say: " + row["question"] + " A. the left B. the right"),
        Problem(row["question"] + " (A) the left (B) the right"),
    ]
    indexes = [benchmark_index.opened("b", "b", tmp_path / "cache", lambda: [row])]
    found = clean.clean(problems, indexes, tmp_path, lambda _: None)
    assert found.duplicates.of.tolist() == [-1, -1, 0, -1, -1, -1]
    assert found.near.tolist() == [False, False, False, True, True, True]
    rules = [RULES[match.rule] for _, matches in found.by_problem() for match in matches]
    assert rules == ["equal", "13-gram", "equal"]


def test_problems_without_a_word_stay(tmp_path) -> None:
    found = cleaned(["+", "+", "", "!?", "+ 1", "+1"], [[{"question": "?!"}]], tmp_path)
    assert found.stays.tolist() == [True, True, True, True, True, False]
    assert found.without_words == 4
