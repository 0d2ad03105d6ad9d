"""Rows and grades over pipes, and pipes that end early."""

import io
import json
from pathlib import Path

import msgspec
import pytest
from training_rows import lineage, plain_row

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.files.piped_rows import Grades, written

HEAD = b'{"rows":2,"card":{"title":"r3"}}\n'
ROWS = [msgspec.json.encode(plain_row(text, "A", number=number)) + b"\n" for number, text in enumerate(("Q1", "Q2"))]


def test_rows_of_a_pipe_become_a_file(tmp_path: Path) -> None:
    done = written(io.BytesIO(HEAD + b"".join(ROWS)), tmp_path / "t.jsonl", "messages", "human/gpt", replace=False)
    assert done.stamp.rows == 2
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [line["messages"][0]["content"] for line in lines] == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "the rows ended early"),
        (HEAD, "the rows ended early"),
        (HEAD + ROWS[0], "the rows ended early"),
        (HEAD + ROWS[0] + ROWS[1][:-1], "the rows ended early"),
        (b"[]\n", "cannot be read"),
        (HEAD + b"\xff\n" + ROWS[1], "cannot be read"),
        (HEAD + ROWS[0] + b'{"turns": 7}\n', "cannot be read"),
    ],
)
def test_a_pipe_that_ends_early_or_holds_something_else_writes_nothing(tmp_path: Path, sent: bytes, says: str) -> None:
    with pytest.raises(PrepareError, match=says):
        written(io.BytesIO(sent), tmp_path / "t.jsonl", "messages", "human/gpt", replace=False)
    assert list(tmp_path.iterdir()) == []


def test_grades_are_asked_for_in_one_line_and_answered_in_one() -> None:
    questions, samples = io.BytesIO(), lineage().samples
    grades = Grades(io.BytesIO(json.dumps([True] * len(samples)).encode() + b"\n"), questions)
    assert grades.known(samples) == [True] * len(samples)
    assert grades.asked == len(samples)
    (asked,) = map(json.loads, questions.getvalue().splitlines())
    places = [(sample.job, sample.row, sample.repeat) for sample in samples]
    assert [(one["job"], one["row"], one["repeat"]) for one in asked["asked"]] == places
    with pytest.raises(PrepareError, match="nobody answers"):
        grades.known(samples)
