"""Rows of one's own: fields under whatever names, in whatever form, become a prepared set of their own."""

import json
import os

import pytest

from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.definition.rows import check_choice
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own
from rwkv_data.prepare.sources.own_rows import from_source
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


@pytest.mark.parametrize(
    ("raw", "row"),
    [
        ({"problem": "P", "expected_answer": "7"}, {"question": "P", "answer": "7"}),
        ({"instruction": "I", "target": 27.0, "level": 3}, {"question": "I", "answer": "27", "level": 3}),
        (
            {"question": "Q", "choices": ["u", "v"], "answer": 1},
            {"question": "Q", "choices": ["u", "v"], "answer": "B"},
        ),
        (
            {"Q": "", "query": "Q", "A": "u", "B": "v", "C": "w", "answer": "c", "category": "law"},
            {"Q": "", "question": "Q", "choices": ["u", "v", "w"], "answer": "C", "category": "law", "subject": "law"},
        ),
        (
            {"input": "Q", "options": {"A": "u", "B": "v"}, "label": "v"},
            {"question": "Q", "choices": ["u", "v"], "answer": "B"},
        ),
        (
            {"question": "Q", "choices": {"text": ["1", "0"], "label": ["A", "B"]}, "answer": "0"},
            {"question": "Q", "choices": ["1", "0"], "answer": "B"},
        ),
        ({"Question": "Q", "ANSWER": 0.5}, {"question": "Q", "answer": "0.5"}),
        ({" Problem ": "Q", "Correct Answer": "7"}, {"question": "Q", "answer": "7"}),
        ({"question": "q", "Question": "Q", "answer": 1}, {"Question": "Q", "question": "q", "answer": "1"}),
        (
            {"Question": "Q", "A": "u", "B": "v", "Answer": "B", "Subject": "law"},
            {"question": "Q", "choices": ["u", "v"], "answer": "B", "Subject": "law", "subject": "law"},
        ),
        (
            {"question": "Q", "a": "u", "b": "v", "answer": "b"},
            {"question": "Q", "choices": ["u", "v"], "answer": "B"},
        ),
        ({"question": "a+b?", "a": 1, "b": 2, "answer": 3}, {"question": "a+b?", "a": 1, "b": 2, "answer": "3"}),
        (
            {"question": "Q", "Option A": "u", "Option B": "v", "answer": "A"},
            {"question": "Q", "choices": ["u", "v"], "answer": "A"},
        ),
        (
            {"question": "Q", "option1": "u", "option2": "v", "answer": "2"},
            {"question": "Q", "choices": ["u", "v"], "answer": "B"},
        ),
        ({"question": "Q", "choices": " ", "answer": "1"}, {"question": "Q", "choices": " ", "answer": "1"}),
    ],
)
def test_fields_by_any_name(raw, row) -> None:
    assert from_source(raw | {"_file": "x"}) == row


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"answer": "7"}, "to ask"),
        ({"question": "Q"}, "missing where text or a number belongs"),
        ({"question": "Q", "answer": True}, "True where text"),
        ({"question": "Q", "choices": ["u", "v"], "answer": 2}, "'2' is no letter, index or text"),
        ({"question": "Q", "choices": ["u", "u"], "answer": "u"}, "'u' is no letter"),
        ({"question": "Q", "choices": ["u", None], "answer": "A"}, "missing where text"),
        ({"cells": ["Q", "1"], "subject": "x"}, "to ask: the first line of the table names no columns"),
        ({"Frage": "Q", "Antwort": "7"}, "none of question, .* to ask: the fields are 'Frage', 'Antwort'"),
        ({"Question": "Q", "Antwort": "7"}, "any of answer, .*: the fields are 'Question', 'Antwort'"),
        ({"question": "Q", "A": "u", "B": None, "C": "w", "answer": "A"}, "missing where text"),
    ],
)
def test_rows_that_say_too_little(raw, complaint: str) -> None:
    with pytest.raises(RowError, match=complaint):
        from_source(raw)


def gold(choices, answer) -> tuple[list[str], str]:
    row = from_source({"question": "Q", "choices": choices, "answer": answer})
    return row["choices"], row["answer"]


@pytest.mark.parametrize("choices", [["0", "1", "2", "3"], ["3", "2", "1", "0"], ["5", "1", "9", "3"], list("badc")])
def test_an_integer_is_an_index_always(choices: list[str]) -> None:
    for index in range(4):
        assert gold(choices, index) == (choices, "ABCD"[index])
        assert gold(choices, float(index))[1] == "ABCD"[index]
    for wrong in (4, -1, True):
        with pytest.raises(RowError):
            gold(choices, wrong)


@pytest.mark.parametrize(
    ("choices", "answer", "found"),
    [
        (["A) 5", "B) 6"], "B", (["5", "6"], "B")),
        (["A) 5", "B) 6"], "A) 5", (["5", "6"], "A")),
        (["A. 5", "B. 6"], "6", (["5", "6"], "B")),
        (["(A) 5", "(B) 6", "(C) 7"], "(C)", (["5", "6", "7"], "C")),
        (["a) u", "b) v"], "b.", (["u", "v"], "B")),
        (["A. Lincoln", "Bob"], "Bob", (["A. Lincoln", "Bob"], "B")),
        (["C. elegans", "E. coli"], "B", (["C. elegans", "E. coli"], "B")),
        ("A) red B) green C) blue", "C", (["red", "green", "blue"], "C")),
        ("A. red\nB. green", "green", (["red", "green"], "B")),
        ("(A) 1, (B) 2", "A", (["1", "2"], "A")),
        ('["A) u", "B) v"]', "B", (["u", "v"], "B")),
        ('["u", 2]', "2", (["u", "2"], "B")),
        ({"B": "v", "A": "u"}, "A", (["v", "u"], "B")),
        ({"text": ["u", "v", "w"], "label": ["1", "2", "3"]}, "2", (["u", "v", "w"], "B")),
        (["8", "9"], "1", (["8", "9"], "B")),
        (["1", "1"], "1", (["1", "1"], "B")),
    ],
)
def test_choices_in_any_form(choices, answer, found: tuple[list[str], str]) -> None:
    assert gold(choices, answer) == found


@pytest.mark.parametrize(
    ("choices", "answer", "complaint"),
    [
        ("red, green", "red", "'choices' is one text, 'red, green', and not 'A"),
        ("A) red C) blue", "A", "is one text"),
        ("A. Vitamin C. B. Iron", "A", "is one text"),
        ("['u' 'v']", "u", "is one text"),
        ("A) red", "A", "'choices' has 1 entries"),
        (7, 0, "'choices' is 7, not a list of choices"),
        (["B) u", "A) v"], "A", "labelled B, A: not in order"),
        (["1", "0"], "0", "'0' can mean A or B"),
        (["B", "A"], "A", "'A' can mean A or B"),
        ({"text": ["u", "v"], "label": ["A"]}, "A", "2 texts and 1 labels"),
        ([{"u": 1}, {"v": 2}], "A", "where text or a number belongs"),
    ],
)
def test_choices_that_cannot_be_told_are_refused_not_dropped(choices, answer, complaint: str) -> None:
    with pytest.raises(RowError, match=complaint):
        check_choice(dict(zip(("choices", "answer"), gold(choices, answer), strict=True), question="Q"))


@pytest.mark.parametrize(
    ("answers", "letters"),
    [(("2", "0"), "CA"), (("2", "24"), "BC"), (("C", "B"), "CB"), (("two", "C"), "DC")],
    ids=["indexes", "texts", "letters", "texts and letters"],
)
def test_what_an_answer_means_follows_from_all_rows(tmp_path, answers: tuple[str, str], letters: str) -> None:
    choices = ["8", "2", "24", "C"] if answers[0] != "two" else ["8", "C2", "24", "two"]
    path = tmp_path / "mine.jsonl"
    rows = [{"question": "Q", "choices": choices, "answer": answer} for answer in answers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare_own("mine", path, tmp_path / "data")
    benchmark = Catalogue(data_dir=tmp_path / "data").load("own_mine")
    assert "".join(row["answer"] for row in prepared_sets.load_rows(tmp_path / "data", benchmark)) == letters


def test_no_prompt_asks_an_expert_in_nothing_or_doubles_a_letter(tmp_path) -> None:
    path = tmp_path / "mine.jsonl"
    for subject in ({}, {"subject": "unknown"}, {"subject": ""}):
        path.write_text(json.dumps({"question": "2+3?", "choices": ["A)5", "B)6"], "answer": 0} | subject))
        prepare_own("mine", path, tmp_path / "data", replace=True)
        benchmark = Catalogue(data_dir=tmp_path / "data").load("own_mine")
        (row,) = prepared_sets.load_rows(tmp_path / "data", benchmark)
        for kind in [*benchmark.kinds.values(), *multi_choice_v2()]:
            asked = kind.stages[0].prompt(row)
            if kind.takes_chat:
                assert asked.endswith("\n\n2+3?\n\nA) 5\nB) 6\n\nAssistant:"), asked
                continue
            assert asked.startswith("User: You are a very talented expert."), asked
            assert "A. 5\nB. 6\n" in asked


def test_rows_that_an_older_version_read_are_read_again(tmp_path, file) -> None:
    manifest = prepare_own("mine", file, tmp_path / "data")
    place = prepared_sets.manifest_path(tmp_path / "data", "own_mine")
    place.write_bytes(place.read_bytes().replace(b'"benchmark_version": 2', b'"benchmark_version": 1'))
    assert prepared_sets.read_manifest(tmp_path / "data", "own_mine") != manifest
    assert prepare_own("mine", file, tmp_path / "data").benchmark_version == 2
    assert prepared_sets.load_rows(tmp_path / "data", Catalogue(data_dir=tmp_path / "data").load("own_mine"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "1+1?", "answer": 2}\n{"prompt": "2+2?", "answer": "4"}\n')
    return path


def test_a_set_of_ones_own(tmp_path, file) -> None:
    manifest = prepare_own("mine", file, tmp_path / "data")
    assert (manifest.benchmark, manifest.rows, manifest.complete, manifest.source) == (
        "own_mine",
        2,
        True,
        "mine.jsonl",
    )
    benchmark = Catalogue(data_dir=tmp_path / "data").load("own_mine")
    assert prepared_sets.read_manifest(tmp_path / "data", "own_mine") == manifest
    assert prepared_sets.load_rows(tmp_path / "data", benchmark) == [
        {"question": "1+1?", "answer": "2"},
        {"question": "2+2?", "answer": "4"},
    ]


def test_choices_of_a_table(tmp_path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,A,B,answer\nQ,None,N/A,B\n")
    prepare_own("own_mine", path, tmp_path / "data")
    benchmark = Catalogue(data_dir=tmp_path / "data").load("own_mine")
    assert benchmark.domain == "multi_choice"
    (row,) = prepared_sets.load_rows(tmp_path / "data", benchmark)
    assert row == {"question": "Q", "choices": ["None", "N/A"], "answer": "B"}


def test_others_take_their_place_only_when_asked(tmp_path, file) -> None:
    first = prepare_own("mine", file, tmp_path / "data")
    assert prepare_own("mine", file, tmp_path / "data") == first
    file.write_text('{"question": "Other?", "answer": "1"}\n')
    with pytest.raises(PrepareError, match="own_mine is there already, of other rows"):
        prepare_own("mine", file, tmp_path / "data")
    assert prepared_sets.read_manifest(tmp_path / "data", "own_mine") == first
    assert prepare_own("mine", file, tmp_path / "data", replace=True).rows == 1


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "A", "1a", "a-b", "x" * 49, "own_", "a\n", "ä"])
def test_names_that_are_none(tmp_path, file, name: str) -> None:
    with pytest.raises(PrepareError, match="is no name for rows"):
        prepare_own(name, file, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_all_rows_have_choices_or_none_has(tmp_path) -> None:
    path = tmp_path / "mixed.json"
    path.write_text(
        json.dumps([{"question": "Q", "answer": "1"}, {"question": "Q", "choices": ["u", "v"], "answer": 0}])
    )
    with pytest.raises(PrepareError, match=r"mixed\.json item 2: choices, unlike the rows before"):
        prepare_own("mixed", path, tmp_path / "data")
    assert not (tmp_path / "data" / "own_mixed").exists()


def test_a_file_that_is_none(tmp_path) -> None:
    with pytest.raises(PrepareError, match="No such file"):
        prepare_own("mine", tmp_path / "nothing.jsonl", tmp_path / "data")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(PrepareError, match="it is no plain file"):
        prepare_own("mine", tmp_path / "pipe.jsonl", tmp_path / "data")
