"""Rows of one's own: fields under whatever names, in whatever form, become a prepared set of their own."""

import json
import os

import pytest

from rwkv_data import sets
from rwkv_data.errors import PrepareError, RowError
from rwkv_data.prepare import prepare_own
from rwkv_data.registry import Catalogue
from rwkv_data.sources.own_rows import from_source


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
        ({"cells": ["Q", "1"], "subject": "x"}, "to ask"),
    ],
)
def test_rows_that_say_too_little(raw, complaint: str) -> None:
    with pytest.raises(RowError, match=complaint):
        from_source(raw)


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
    assert sets.read_manifest(tmp_path / "data", "own_mine") == manifest
    assert sets.load_rows(tmp_path / "data", benchmark) == [
        {"question": "1+1?", "answer": "2"},
        {"question": "2+2?", "answer": "4"},
    ]


def test_choices_of_a_table(tmp_path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,A,B,answer\nQ,None,N/A,B\n")
    prepare_own("own_mine", path, tmp_path / "data")
    benchmark = Catalogue(data_dir=tmp_path / "data").load("own_mine")
    assert benchmark.domain == "multi_choice"
    (row,) = sets.load_rows(tmp_path / "data", benchmark)
    assert row == {"question": "Q", "choices": ["None", "N/A"], "answer": "B"}


def test_others_take_their_place_only_when_asked(tmp_path, file) -> None:
    first = prepare_own("mine", file, tmp_path / "data")
    assert prepare_own("mine", file, tmp_path / "data") == first
    file.write_text('{"question": "Other?", "answer": "1"}\n')
    with pytest.raises(PrepareError, match="own_mine is there already, of other rows"):
        prepare_own("mine", file, tmp_path / "data")
    assert sets.read_manifest(tmp_path / "data", "own_mine") == first
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
