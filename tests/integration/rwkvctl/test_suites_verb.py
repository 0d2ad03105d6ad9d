"""`rwkvctl suites`, and `--suite` towards a daemon that is too old to know one."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkvctl.cli import client, main
from rwkvctl.cli.completion import candidates
from rwkvctl.http import server

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_daemon: Any) -> Iterator[Any]:
    """A fake daemon; the environment holds nothing else of ours."""
    for name in [name for name in os.environ if name.startswith("RWKVCTL_") or name in {"FORCE_COLOR", "COLUMNS"}]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RWKVCTL_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.setenv("RWKVCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    with fake_daemon.serving(tmp_path / "d.sock", fake_daemon.Node()) as playing:
        yield playing


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        out, err = capsys.readouterr()
        return int(code), out, err

    return call


def test_the_list_says_how_much_each_suite_measures_and_what_is_wrong_with_it(run: Run, node: Any) -> None:
    code, out, _ = run("suites")
    assert code == 0
    assert [line.split("\t") for line in out.splitlines()] == [
        ["suite", "benchmarks", "ready", "limit", "searches", "description"],
        ["nightly", "2", "1", "500", "rwkv7-*-2.9b*", "every checkpoint"],
        ["broken", "0", "0", "", "", "--suite broken: there is no own_gone any more."],
    ]
    node.suites = []
    assert "benchmarks.toml defines them as [suites.NAME]" in run("suites", "-o", "table")[1]


def test_one_suite_is_shown_with_its_kinds_rows_and_settings(run: Run, node: Any) -> None:
    code, out, err = run("suites", "nightly")
    assert code == 0
    assert [line.split("\t") for line in out.splitlines()] == [
        ["benchmark", "kind", "rows", "use", "settings"],
        ["gsm8k", "cot", "500", "measure", "k=4 seed=7"],
        ["gsm8k", "param_search_cot", "500", "search", ""],
        ["ifeval", "plain", "", "measure", ""],
    ]
    assert "1 benchmark without rows: `rwkvctl data prepare ifeval`" in err
    shown = run("suites", "nightly", "-o", "table")[1]
    assert shown.startswith(
        "nightly: every checkpoint\nonly the first 500 rows of each\n"
        "searches are of the newest data version of each size of rwkv7-"
    )


def test_what_keeps_a_suite_from_being_dispatched_is_said(run: Run, node: Any) -> None:
    code, _, err = run("suites", "broken")
    assert code == 0
    assert "there is no own_gone any more" in err


def test_json_of_one_suite_is_the_reply_with_that_suite_alone(run: Run, node: Any) -> None:
    whole, one = (json.loads(run(*words, "--json")[1]) for words in (("suites",), ("suites", "broken")))
    assert whole["schema"] == one["schema"] == "rwkvctl.suites/1"
    assert [item["name"] for item in whole["items"]] == ["nightly", "broken"]
    assert one["items"] == whole["items"][1:]


def test_an_unknown_suite_is_answered_with_those_that_exist_and_one_near_it(run: Run, node: Any) -> None:
    code, out, err = run("suites", "nihgtly")
    assert (code, out) == (4, "")
    assert "There is no suite nihgtly." in err
    assert "There are nightly, broken." in err
    assert "'nightly'" in err
    document = json.loads(run("suites", "nihgtly", "--json")[1])
    assert (document["code"], document["exit_code"]) == ("no-such-suite", 4)
    node.suites = []
    assert "benchmarks.toml defines them" in run("suites", "nightly")[2]


LINES = ("queue --suite nightly", "dispatch --suite nightly --yes", "dispatch --suite nightly --plan 77c1aa03",
         "watch add /runs/x --suite nightly")  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_an_old_daemon_is_told_of_no_suite(run: Run, node: Any, line: str) -> None:
    error = {"schema": "rwkvctl.error/1", "as_of": "", "node": "", "code": "no-such-route", "status": 404,
             "detail": "There is no /v1/suites.", "hint": "", "exit_code": 4}  # fmt: skip
    node.answers["/v1/suites"] = lambda _: server.Response(404, json.dumps(error).encode())
    code, out, err = run(*line.split())
    assert (code, out) == (5, "")
    assert "The daemon runs an older version, which has no suites, notes and baselines." in err
    assert "rwkvctl service restart" in err
    assert not [path for method, path, *_ in node.asked if method == "POST"], "it would measure everything"


@pytest.mark.parametrize("line", ["queue", "dispatch --yes"])
def test_who_names_no_suite_is_not_asked_for_a_newer_daemon(run: Run, node: Any, line: str) -> None:
    run(*line.split())
    assert "/v1/suites" not in [path for _, path, *_ in node.asked]


def test_suite_and_note_are_sent_as_they_were_typed(run: Run, node: Any) -> None:
    run("dispatch", "--suite", "nightly", "--note", "before the data change", "--yes")
    sent = [body["selection"] for _, path, _, body in node.asked if path == "/v1/dispatch"]
    assert sent == [{"suite": "nightly", "note": "before the data change"}]


@pytest.mark.parametrize("words", [["suites"], ["queue", "--suite"], ["dispatch", "--suite"], ["job-log", "--suite"]])
def test_the_shell_completes_the_names_of_suites(node: Any, words: list[str]) -> None:
    assert candidates([*words, ""], LIMIT_S) == ["broken", "nightly"]
    assert candidates([*words, "ni"], LIMIT_S) == ["nightly"]
