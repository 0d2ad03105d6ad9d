"""--json: what a verb says is one JSON document, and so is what is wrong, whichever program says it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli import client, main
from rwkvctl.cli.parser import metavar
from rwkvctl.cli.registry import Option, Verb, load_all

Run = Callable[..., tuple[int, str, str]]
FREE = {"completion words"}
"""Asked by the shell alone: it prints words whatever happens."""
ARGUMENTS = {
    "baseline add": "m --from /no/such/file.csv", "baseline unpin": "",
    "gpus reserve": "0 --for x", "gpus drain": "0 --reason x", "gpus quarantine": "0 --reason x", "reap": "99999",
    "samples same": "j99 --row 1", "samples exchange": "j99 7", "samples diff": "j99 j98", "priority": "j99 3",
    "review mark": "7 right", "gate": "a --baseline b", "import": "/no/such/place", "search select": "m",
    "service install": "--root /proc/no", "service uninstall": "--root /proc/no --odd", "tui": "",
    "report": "/no/such/folder/r.html", "export": "--format csv --samples", "completion": "no-such-shell",
    "migrate": "", "stop": "j99", "resume": "j99", "retry": "j99", "pause": "j99", "regrade": "j99", "man": "no-such",
    "config show": "--odd", "doctor": "--odd", "version": "--odd", "help": "no-such", "service status": "--odd",
    "data prepare": "no-such-set", "data list": "--odd", "data rows": "no-such-file", "weights list": "--odd",
    "weights download": "--odd", "weights merge": "no-such-file --base builtin --to /no/such/folder/m.pth",
}  # fmt: skip
"""What makes a verb fail where a daemon does not answer; a required argument is a word that names nothing."""


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a daemon."""
    for name in [name for name in os.environ if name.startswith("RWKVCTL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RWKVCTL_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.setenv("RWKVCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    return tmp_path


def words_of(verb: Verb) -> list[str]:
    """The verb with arguments that name nothing."""
    said = ARGUMENTS.get(verb.words)
    if said is None:
        said = " ".join(stand_in(option) for option in verb.options if option.required and not option.flags)
    return [*verb.words.split(), *said.split(), "--json"]


def stand_in(option: Option) -> str:
    return "7" if option.kind is int else f"no-such-{metavar(option).lower()}"


@pytest.mark.parametrize("verb", [verb for verb in load_all() if verb.words not in FREE], ids=lambda verb: verb.words)
@pytest.mark.usefixtures("programs")
def test_an_error_is_a_json_document(verb: Verb, nobody: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if verb.words in {"daemon", "rebuild"}:
        (nobody / "home").write_text("no folder", encoding="utf-8")
    words = words_of(verb)
    try:
        code = main.main(words)
    except SystemExit as ended:
        code = int(str(ended.code))
    out, err = capfd.readouterr()
    assert code != 0, (words, out)
    assert "Traceback" not in err
    assert err
    document: dict[str, Any] = json.loads(out)
    assert document["schema"] == "rwkvctl.error/1", document
    assert {"as_of", "node", "code", "detail", "hint"} <= document.keys()
    assert document["exit_code"] == code


@pytest.mark.parametrize("said", ["--json", "-o json", "-ojson", "-o=json", "--output json", "--output=json"])
def test_every_spelling_of_json_counts_for_errors(said: str, nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["jobs", *said.split()]) == 3
    assert json.loads(capsys.readouterr().out)["code"] == "unreachable"
    assert main.main(["jobs", *said.split(), "-o", "tsv"]) == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "schema"),
    [
        ("samples diff j1 j2", "rwkvctl.samples-diff/1"),
        ("judge retry", "rwkvctl.judge/1"),
        ("review mark 7 right", "rwkvctl.review/1"),
    ],
)
def test_these_say_json_too(
    line: str, schema: str, nobody: Path, fake_daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_daemon.serving(nobody / "d.sock", fake_daemon.Node()):
        assert main.main([*line.split(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == schema
    if line.startswith("samples diff"):
        assert (document["same"], document["lines"]) == (True, [])
