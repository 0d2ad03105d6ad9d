"""The command `python -m rwkv_data` in this process: rows are prepared, and all sets are listed."""

import json

import pytest

from rwkv_data import __main__ as cli

GOOD = '{"question": "Q", "answer": "#### 7"}\n'


@pytest.fixture(autouse=True)
def no_configuration(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


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
