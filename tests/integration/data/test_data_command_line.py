"""The command `python -m rwkv_data` in this process: rows are prepared, and all sets are listed."""

import json

import pytest

from rwkv_data import __main__ as cli
from rwkvctl.cli.selection import prepared

GOOD = '{"question": "Q", "answer": "#### 7"}\n'


@pytest.fixture(autouse=True)
def no_configuration(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def test_the_first_own_row_is_shown_as_read_and_as_asked(tmp_path, capsys) -> None:
    """The row is printed on standard error, because scripts read the name from standard output."""
    path = tmp_path / "sums.csv"
    path.write_text("Question,A,B,Answer\nWhat is 2+3?,A) 5,B) 6,A\nWhat is 3+3?,A) 5,B) 6,B\n")
    assert cli.main(["own", str(path), "--home", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.out == "own_sums\n"
    assert '"What is 2+3?"' in said.err
    assert "What is 3+3?" not in said.err
    assert "User: You are a very talented expert. Answer this question:\nWhat is 2+3?\nA. 5\nB. 6\n\n" in said.err
    assert "(the answer that counts: A)" in said.err
    path.write_text("Frage,Answer\nWhat is 2+3?,5\n")
    assert cli.main(["own", str(path), "--home", str(tmp_path), "--replace"]) != 0
    assert "none of question, " in capsys.readouterr().err


def test_rows_of_a_dispatch_are_shown_before_anything_is_queued(tmp_path, capsys) -> None:
    path = tmp_path / "sums.jsonl"
    path.write_text('{"question": "What is 2+3?", "answer": 5}\n')
    assert prepared(str(path), str(tmp_path)) == "own_sums"
    assert "User: What is 2+3?\n\nAssistant: <think" in capsys.readouterr().err


def test_command_line(tmp_path, capsys) -> None:
    (tmp_path / "test.jsonl").write_text(GOOD)
    arguments = ["prepare", "gsm8k", "--home", str(tmp_path), "--from", str(tmp_path)]
    assert cli.main(arguments) == 0
    assert "gsm8k: 1 of 1319 rows from test.jsonl in " in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    assert cli.main(["list", "--home", str(tmp_path), "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["gsm8k"]["manifest"]["rows"] == 1
    assert listed["mmlu"]["manifest"] is None
    assert cli.main(["list", "--home", str(tmp_path)]) == 0
    assert "demo_arith       built in       free_response" in capsys.readouterr().out


def test_the_list_for_a_pipe_has_plain_cells(tmp_path, capsys) -> None:
    assert cli.main(["list", "--home", str(tmp_path), "--tabs"]) == 0
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == ["name", "prepared", "rows", "kinds", "title", "use"]
    assert {len(row) for row in rows} == {6}
    known = {row[0]: row[1:3] for row in rows}
    assert known["mmlu"] == ["no", ""]
    assert known["demo_arith"][0] == "built in"
    assert known["demo_arith"][1].isdecimal()


def test_what_is_wrong_is_a_json_document_too(tmp_path, capsys) -> None:
    assert cli.main(["show", "nope", "--home", str(tmp_path), "--json"]) != 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "rwkvctl.error/1"
    assert err.startswith("rwkv_data: ")


def test_a_set_says_by_which_fields_its_rows_can_be_picked_and_that_it_is_there_to_train_on(tmp_path, capsys) -> None:
    rows, home = tmp_path / "mine.jsonl", ["--home", str(tmp_path)]
    row = {"question": "1+1?", "answer": "2", "difficulty": 4.5, "\x1b[2J": "x", "note": "n" * 300}
    rows.write_text(json.dumps(row) + "\n")
    assert cli.main(["own", str(rows), "--training", *home]) == 0
    capsys.readouterr()
    assert cli.main(["show", "own_mine", *home]) == 0
    shown = capsys.readouterr().out
    assert "a training set: it runs only when it is named\n" in shown
    assert "fields for where and order: ␛[2J (text), answer (text), difficulty (number), question (text)\n" in shown
    assert cli.main(["show", "gsm8k_train", *home]) == 0
    assert "fields for where" not in capsys.readouterr().out, "its rows are not prepared"
