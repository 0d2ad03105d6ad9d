"""Labels from a file: which rows are meant, what a value is, and the sentence that each bad file ends in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError, PrepareError, SettingError
from rwkv_data.definition.registry import Catalogue
from rwkv_data.definition.row_filter import Scalar
from rwkv_data.labels import label_table
from rwkv_data.labels.label_file import StoredLabels
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare_own

DEMO = registry.load("demo_arith")
OWN = [
    {"id": "alg-1", "question": "How  much is\n1+1?", "answer": 2},
    {"id": "alg-2", "question": "How much is 2+2?", "answer": 4},
    {"id": "alg-3", "question": "How much is 3+3?", "answer": 6},
    {"id": "alg-4", "question": "How much is 3+3?", "answer": "six"},
]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def imported(
    tmp_path: Path, text: str, benchmark: Benchmark = DEMO, name: str = "levels.jsonl", column: str = ""
) -> StoredLabels:
    path = tmp_path / name
    path.write_text(text)
    return label_table.import_labels(tmp_path / "data", benchmark, path, "level", column)


def labels(stored: StoredLabels) -> dict[int, Scalar]:
    """The labels by the index of their rows."""
    values = enumerate(stored.column.values(stored.labels.field))
    return {index: value for index, value in values if value is not None}


def complaint(tmp_path: Path, text: str, name: str = "levels.jsonl", column: str = "") -> str:
    with pytest.raises(DataError) as caught:
        imported(tmp_path, text, name=name, column=column)
    assert not (tmp_path / "data" / "demo_arith" / "labels").exists()
    return str(caught.value)


@pytest.fixture
def own(tmp_path: Path) -> Benchmark:
    path = tmp_path / "mine.jsonl"
    path.write_text(lines(*OWN))
    prepare_own("mine", path, tmp_path / "data")
    return Catalogue(data_dir=tmp_path / "data").load("own_mine")


def test_rows_are_matched_by_name_by_place_and_by_index(tmp_path: Path, own: Benchmark) -> None:
    text = lines(
        {"row": "alg-1", "level": 1},
        {"row": "own_mine/1", "level": 2},
        {"row": 2, "level": 3},
        {"row": "3", "level": 4},
    )
    assert labels(imported(tmp_path, text, own)) == {0: 1, 1: 2, 2: 3, 3: 4}


def test_rows_of_a_built_in_benchmark_are_matched_by_place_and_by_index(tmp_path: Path) -> None:
    text = lines({"row": "demo_arith/299", "level": 1}, {"row": 7, "level": 2}, {"row": "0", "level": 3})
    assert labels(imported(tmp_path, text)) == {299: 1, 7: 2, 0: 3}


@pytest.mark.parametrize("row", ["other/1", -1, 4, "alg-5", None, True, [1], {"a": 1}, "", 1.5, "x" * 5000])
def test_names_of_no_row_are_passed_over(tmp_path: Path, own: Benchmark, row: Any) -> None:
    stored = imported(tmp_path, lines({"row": row, "level": 5}, {"row": "alg-2", "level": 1}), own)
    assert labels(stored) == {1: 1}


@pytest.mark.parametrize("name", ["question", "problem", "prompt", " Problem "])
def test_rows_are_matched_by_their_problem_whatever_its_blanks(tmp_path: Path, own: Benchmark, name: str) -> None:
    text = lines(
        {name: " How much is 1+1? ", "level": 1},
        {name: "How\tmuch\u00a0is   2+2?\n", "level": 2},
        {name: 5, "level": 3},
    )
    assert labels(imported(tmp_path, text, own)) == {0: 1, 1: 2}


def test_rows_that_share_a_problem_all_get_its_label(tmp_path: Path, own: Benchmark) -> None:
    assert labels(imported(tmp_path, lines({"problem": "How much is 3+3?", "level": 3}), own)) == {2: 3, 3: 3}


def test_a_problem_of_a_built_in_benchmark_is_found(tmp_path: Path) -> None:
    rows = prepared_sets.load_rows(tmp_path, DEMO)
    text = lines(*({"question": row["question"], "level": index} for index, row in enumerate(rows[:3])))
    assert labels(imported(tmp_path, text)) == {0: 0, 1: 1, 2: 2}


@pytest.mark.parametrize("name", ["id", "unique_id", "uuid"])
def test_rows_are_matched_by_their_id(tmp_path: Path, own: Benchmark, name: str) -> None:
    assert labels(imported(tmp_path, lines({name: "alg-3", "level": 9}, {name: "none", "level": 8}), own)) == {2: 9}


def test_a_row_is_looked_for_by_name_first_then_by_problem_then_by_id(tmp_path: Path, own: Benchmark) -> None:
    named = {"id": "alg-3", "problem": "How much is 2+2?", "row": "alg-1", "level": 5}
    assert labels(imported(tmp_path, lines(named), own)) == {0: 5}
    del named["row"]
    assert labels(imported(tmp_path, lines(named), own)) == {1: 5}
    del named["problem"]
    assert labels(imported(tmp_path, lines(named), own)) == {2: 5}


def test_the_column_of_the_labels_may_have_another_name(tmp_path: Path) -> None:
    stored = imported(tmp_path, lines({"row": 0, "gpt_difficulty": 6, "level": 1}), column="gpt_difficulty")
    assert (labels(stored), stored.labels.field) == ({0: 6}, "level")


def test_the_column_of_the_labels_is_not_taken_for_the_problem(tmp_path: Path, own: Benchmark) -> None:
    stored = imported(tmp_path, lines({"task": "algebra", "id": "alg-1"}), own, column="task")
    assert labels(stored) == {0: "algebra"}


def test_numbers_that_a_table_holds_as_text_become_numbers(tmp_path: Path, own: Benchmark) -> None:
    text = "problem,answer,level\nHow much is 1+1?,2,4\nHow much is 2+2?,4, 7.5 \nHow much is 3+3?,6,4.0\n"
    stored = imported(tmp_path, text, own, "levels.csv")
    assert labels(stored) == {0: 4, 1: 7.5, 2: 4, 3: 4}
    assert (stored.labels.kind, stored.labels.lowest, stored.labels.highest) == ("number", 4, 7.5)


def test_numbers_as_text_stay_text_beside_a_word(tmp_path: Path) -> None:
    stored = imported(tmp_path, lines({"row": 0, "level": "4"}, {"row": 1, "level": "hard"}))
    assert (labels(stored), stored.labels.kind) == ({0: "4", 1: "hard"}, "text")


def test_a_table_and_json_lines_of_the_same_labels_have_the_same_column(tmp_path: Path, own: Benchmark) -> None:
    table = imported(tmp_path, "problem,answer,level\nHow much is 1+1?,2,4\n", own, "levels.csv")
    json_lines = imported(tmp_path, lines({"problem": "How much is 1+1?", "level": 4}), own)
    assert table.path.read_bytes().split(b"\n")[1:] == json_lines.path.read_bytes().split(b"\n")[1:]


@pytest.mark.parametrize("value", ["-1", '"-1"', "-1.0", "null", '""', '"  "', "NaN", "Infinity", "-Infinity"])
def test_values_that_say_there_is_none(tmp_path: Path, value: str) -> None:
    stored = imported(tmp_path, f'{{"row": 0, "level": {value}}}\n' + lines({"row": 1, "level": 2}))
    assert labels(stored) == {1: 2}
    assert stored.labels.unlabelled == {"not in the file": 298, "without a value": 1}


@pytest.mark.parametrize("value", [0, -2, 0.5, False, "x" * 200])
def test_values_that_are_labels(tmp_path: Path, value: Scalar) -> None:
    found = labels(imported(tmp_path, lines({"row": 0, "level": value})))
    assert [(type(one), one) for one in found.values()] == [(type(value), value)]


def test_lines_that_agree_are_one_value(tmp_path: Path) -> None:
    stored = imported(tmp_path, lines({"row": 0, "level": 3}, {"row": "demo_arith/0", "level": 3}))
    assert (labels(stored), stored.labels.unlabelled) == ({0: 3}, {"not in the file": 299})


@pytest.mark.parametrize("values", [[3, 4], [3, 4, 3], [3, 4, None], [None, 3, 4], [3, 4, 4]])
def test_a_row_with_values_that_differ_has_no_label(tmp_path: Path, values: list[Any]) -> None:
    rows = [{"row": 0, "level": value} for value in values]
    stored = imported(tmp_path, lines({"row": 1, "level": 1}, *rows))
    assert labels(stored) == {1: 1}
    assert stored.labels.unlabelled == {"not in the file": 298, "with several values": 1}


@pytest.mark.parametrize("values", [[None, 3], [3, None], [3, -1, 3], ["", 3]])
def test_a_line_without_a_value_takes_none_away(tmp_path: Path, values: list[Any]) -> None:
    assert labels(imported(tmp_path, lines(*({"row": 0, "level": value} for value in values)))) == {0: 3}


def test_what_labels_are_made_of_is_kept(tmp_path: Path) -> None:
    stored = imported(tmp_path, lines({"row": 0, "level": 3}))
    told = stored.labels
    assert (told.benchmark, told.rule, told.source, told.rows, told.labelled) == (
        *("demo_arith", "imported/1", "levels.jsonl"),
        *(300, 1),
    )
    assert told.rows_sha256 == prepared_sets.current_manifest(tmp_path, DEMO).sha256
    assert told.facts["revision"].startswith("sha256:")


def test_imported_labels_pick_rows(tmp_path: Path, own: Benchmark) -> None:
    imported(
        tmp_path, lines({"id": "alg-1", "level": 1}, {"id": "alg-2", "level": 5}, {"id": "alg-3", "level": 9}), own
    )
    kind = own.default_kind.with_settings({"where": "level>=5 answer!=6"})
    assert prepared_sets.asked_indices(tmp_path / "data", own, kind) == [1]


def test_a_long_file_is_reported_on_the_way(tmp_path: Path) -> None:
    path, told = tmp_path / "levels.jsonl", list[int]()
    path.write_text(lines({"row": 0, "level": 1}) * 4100)
    label_table.import_labels(tmp_path / "data", DEMO, path, "level", report=told.append)
    assert told == [2000, 4000]


@pytest.mark.parametrize("value", ["[1]", "[]", '{"a": 1}'])
def test_a_value_that_is_no_scalar_is_told_with_its_place(tmp_path: Path, value: str) -> None:
    text = lines({"row": 0, "level": 1}) + f'{{"row": 1, "level": {value}}}\n'
    assert complaint(tmp_path, text) == f"{tmp_path}/levels.jsonl:2: the label is no number and no text"


def test_a_value_that_is_too_long_is_told_with_its_place(tmp_path: Path) -> None:
    assert complaint(tmp_path, lines({"row": 0, "level": "x" * 1201})) == (
        f"{tmp_path}/levels.jsonl:1: a label of 1,201 characters; none has more than 200"
    )


def test_a_file_without_the_column_is_told_with_those_it_has(tmp_path: Path) -> None:
    assert complaint(tmp_path, lines({"row": 0, "difficulty": 1})) == (
        "the file has no column 'level'; name the one that holds the labels with --column: 'row', 'difficulty'"
    )
    assert complaint(tmp_path, lines({"row": 0, "level": 1}), column="hardness") == (
        "the file has no column 'hardness'; name the one that holds the labels with --column: 'row', 'level'"
    )
    assert complaint(tmp_path, "{}\n").endswith("with --column: none")


@pytest.mark.parametrize("note", ["_file", "_config"])
def test_a_note_of_the_reader_is_no_column(tmp_path: Path, note: str) -> None:
    assert complaint(tmp_path, lines({"row": 0}), column=note) == (
        f"the file has no column '{note}'; name the one that holds the labels with --column: 'row'"
    )


def test_a_name_that_looks_like_an_index_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "digits.jsonl"
    path.write_text(lines(*({"id": id_, "question": f"q{id_}", "answer": "1"} for id_ in ("2", "0", "1", "7"))))
    prepare_own("digits", path, tmp_path / "data")
    digits = Catalogue(data_dir=tmp_path / "data").load("own_digits")
    text = lines({"row": "2", "level": 22}, {"row": "7", "level": 77}, {"row": 1, "level": 1})
    assert labels(imported(tmp_path, text, digits)) == {0: 22, 3: 77, 2: 1}


def test_an_index_is_no_id_of_the_set(tmp_path: Path, own: Benchmark) -> None:
    assert "no row of" in told(imported, tmp_path, lines({"id": 1, "level": 5}), own)
    assert complaint(tmp_path, lines({"id": 1, "level": 5})) == (
        "the file says by 'id' which row is meant, and the rows of demo_arith have no ids of their own; write what "
        "they are called here as 'row', or the problem"
    )


def told(act: Callable[..., object], *given: Any) -> str:
    with pytest.raises(DataError) as caught:
        act(*given)
    return str(caught.value)


def test_a_problem_that_rows_ask_with_other_choices_labels_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "which.jsonl"
    rows = [{"question": "Which of these is true?", "choices": [f"a{n}", "b"], "answer": "A"} for n in range(2)]
    path.write_text(lines(*rows, {"question": "Which is false?", "choices": ["c", "d"], "answer": "B"}))
    prepare_own("which", path, tmp_path / "data")
    which = Catalogue(data_dir=tmp_path / "data").load("own_which")
    text = lines({"question": rows[0]["question"], "level": 3}, {"question": "Which is false?", "level": 4})
    stored = imported(tmp_path, text, which)
    assert labels(stored) == {2: 4}
    assert stored.labels.unlabelled == {"with a problem that other rows ask with other choices or texts": 2}


def test_the_problem_is_the_column_of_the_best_name(tmp_path: Path, own: Benchmark) -> None:
    text = lines({"task": "math", "problem": "How much is 2+2?", "level": 3})
    assert labels(imported(tmp_path, text, own)) == {1: 3}


@pytest.mark.parametrize("header", ["row,level", "row,level,note", "row\tlevel"])
def test_the_first_line_of_a_table_names_its_columns(tmp_path: Path, header: str) -> None:
    sign, more = ("\t", "") if "\t" in header else (",", ",x" * (header.count(",") - 1))
    text = f"{header}\n0{sign}2{more}\n1{sign}3{more}\n"
    assert labels(imported(tmp_path, text, name="levels.tsv" if sign == "\t" else "levels.csv")) == {0: 2, 1: 3}


@pytest.mark.parametrize("values", [["2", "2.0"], ["5", 5], [4, 4.0]])
def test_spellings_of_one_number_agree(tmp_path: Path, values: list[Any]) -> None:
    stored = imported(tmp_path, lines(*({"row": 0, "level": value} for value in values)))
    assert labels(stored) == {0: int(float(values[0]))}


def test_true_and_1_differ(tmp_path: Path) -> None:
    text = lines({"row": 0, "level": True}, {"row": 0, "level": 1}, {"row": 1, "level": True})
    assert imported(tmp_path, text).labels.unlabelled["with several values"] == 1


def test_spellings_of_the_same_numbers_are_the_same_column(tmp_path: Path) -> None:
    stored = [imported(tmp_path, lines({"row": 0, "level": value})) for value in (4, 4.0, "4", "4.0")]
    assert len({one.path.read_text().split("\n", 1)[1] for one in stored}) == 1


def test_a_lone_surrogate_is_stored_in_printable_characters(tmp_path: Path) -> None:
    assert labels(imported(tmp_path, '{"row": 0, "level": "\\ud800"}\n')) == {0: "\\ud800"}


def test_a_number_of_too_many_digits_is_told_with_its_place(tmp_path: Path) -> None:
    told = complaint(tmp_path, '{"row": 0, "level": 1' + "0" * 400 + "}\n")
    assert told.endswith("levels.jsonl:1: the label is a number of more than 18 digits")
    assert labels(imported(tmp_path, lines({"row": 0, "level": "1" * 100}))) == {0: "1" * 100}


def test_a_table_without_names_is_told(tmp_path: Path) -> None:
    assert complaint(tmp_path, "0,1\n1,2\n", "levels.csv") == (
        "the file has no column 'level'; name the one that holds the labels with --column: '0', '1'"
    )


@pytest.mark.parametrize(
    ("row", "shown"), [({"level": 1, "source": "x", "n": 1}, "'source', 'n'"), ({"level": 1}, "no other column")]
)
def test_a_file_that_tells_no_rows_is_told(tmp_path: Path, row: dict[str, Any], shown: str) -> None:
    assert complaint(tmp_path, lines(row)) == (
        f"nothing says which row is meant: the file has {shown}; rows are matched by 'row', by the problem (question, "
        "problem, prompt, input, instruction, query, task, text) or by an id (id, task_id, unique_id, uuid, key)"
    )


def test_a_file_of_other_rows_is_told_with_what_was_compared(tmp_path: Path) -> None:
    path = tmp_path / "levels.jsonl"
    assert complaint(tmp_path, lines({"row": 300, "level": 1})) == (
        f"no row of {path} is a row of demo_arith: they were compared by 'row', which is '300' in the first"
    )
    assert complaint(tmp_path, lines({"problem": "x" * 999, "level": 1})) == (
        f"no row of {path} is a row of demo_arith: they were compared by 'problem', which is {'x' * 80!r} in the first"
    )


def test_a_file_in_which_no_row_has_a_value_is_told(tmp_path: Path) -> None:
    text = lines({"row": 0, "level": -1}, {"row": 1, "level": None}, {"row": 2, "level": 1}, {"row": 2, "level": 2})
    assert complaint(tmp_path, text) == (
        "no row of demo_arith would have a label: 297 not in the file, 1 with several values, 2 without a value"
    )


@pytest.mark.parametrize(("name", "text"), [("levels.jsonl", ""), ("levels.jsonl", "\n \n"), ("levels.csv", "")])
def test_an_empty_file_is_told(tmp_path: Path, name: str, text: str) -> None:
    assert complaint(tmp_path, text, name) == f"{tmp_path / name} has no rows"


def test_a_file_that_is_no_json_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "levels.jsonl"
    text = lines({"row": 0, "level": 1}) + "garbage\n"
    assert complaint(tmp_path, text) == f"{path}:2: not JSON (Expecting value: line 1 column 1 (char 0))"


def test_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(PrepareError) as caught:
        label_table.import_labels(tmp_path / "data", DEMO, tmp_path, "level")
    assert str(caught.value) == f"{tmp_path} cannot be read: it is no plain file"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    with pytest.raises(PrepareError) as caught:
        label_table.import_labels(tmp_path / "data", DEMO, path, "level")
    assert str(caught.value) == f"{path} cannot be read: there is none"


def test_the_name_is_checked_before_the_file_is_read(tmp_path: Path) -> None:
    for field, says in (("answer", "the rows have a field 'answer' of their own"), ("Level", "is no name for labels")):
        with pytest.raises(SettingError, match=says):
            label_table.import_labels(tmp_path / "data", DEMO, tmp_path / "none.jsonl", field)


def test_a_set_that_was_never_prepared_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `rwkvctl data prepare gsm8k`"):
        imported(tmp_path, lines({"row": 0, "level": 1}), registry.load("gsm8k"))
