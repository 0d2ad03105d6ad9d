"""MMLU as own rows, in every form of answers: each of the 14,042 references is the published one."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition.registry import Catalogue
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own

LETTERS = "ABCD"


@pytest.fixture(scope="module")
def published(real_rows: Path) -> list[tuple[str, list[str], str]]:
    """(question, choices, letter) of the test split."""
    with zipfile.ZipFile(real_rows / "mmlu" / "mmlu.zip") as archive:
        names = sorted(name for name in archive.namelist() if "/test/" in name and name.endswith(".csv"))
        tables = [io.StringIO(archive.read(name).decode("utf-8-sig"), newline="") for name in names]
        return [(cells[0], cells[1:5], cells[5]) for table in tables for cells in csv.reader(table)]


@pytest.mark.parametrize(
    "form",
    [
        "index as text",
        *(
            pytest.param(form, marks=pytest.mark.slow("golds"))
            for form in ("the hub's index", "letter", "letter in columns", "labelled")
        ),
    ],
)
def test_golds_of_mmlu(published: list[tuple[str, list[str], str]], tmp_path: Path, form: str) -> None:
    """75 rows have a choice whose text is the index of another one."""
    assert len(published) == 14_042
    clashes = sum(str(LETTERS.index(letter)) in choices for _, choices, letter in published)
    assert clashes > 75

    def raw(question: str, choices: list[str], letter: str) -> dict[str, Any]:
        index = LETTERS.index(letter)
        match form:
            case "letter in columns":
                return {"Question": question, **dict(zip(LETTERS, choices, strict=True)), "Answer": letter}
            case "labelled":
                choices = [f"{name}) {text}" for name, text in zip(LETTERS, choices, strict=True)]
                return {"question": question, "options": choices, "answer": index}
        answers = {"the hub's index": index, "index as text": str(index), "letter": letter}
        return {"question": question, "choices": choices, "answer": answers[form]}

    path = tmp_path / "mmlu.jsonl"
    path.write_text("".join(json.dumps(raw(*row)) + "\n" for row in published), encoding="utf-8")
    prepare_own("mmlu", path, tmp_path / "data")
    rows = prepared_sets.load_rows(tmp_path / "data", Catalogue(data_dir=tmp_path / "data").load("own_mmlu"))
    assert [row["answer"] for row in rows] == [letter for _, _, letter in published]
    differ = [
        row
        for row, (_, given, _) in zip(rows, published, strict=True)
        if [choice.strip() for choice in row["choices"]] != [choice.strip() for choice in given]
    ]
    assert len(differ) <= 1, "one row has choices that say their letters"
