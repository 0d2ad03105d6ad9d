"""No verb lets a text of others reach the terminal as it is: every verb, in every mode, against a daemon and on a
machine where all texts are hostile."""

import contextlib
import os
import platform
import re
from pathlib import Path
from typing import Final

import hostile
import hostile_daemon
import pytest
from glass import on_a_terminal

from rwkvctl.cli import client, main
from rwkvctl.cli.registry import Verb, load_all
from rwkvctl.cli.render import SGR

DENSE: Final = "".join(
    ("\x1b]0;EVIL\x07", "\x1b[2J", "\x9b35m", "\r", "\nFORGED ", "\t", "\x00", "\x08", "\u202e", "\u200b", "\u00ad",
     "\u2028FORGED ", "\x85FORGED ", "\ud800", "\udc9b", "\U000e0041", "\ue000", "e\u0301\u0302\u0303\u0304\u0305")
)  # fmt: skip
"""One text with a character of each class that a terminal obeys or hides."""

TYPED: Final = DENSE.replace("\x00", "").replace("\ud800", "")
"""What of it an argument or a name of a file can hold."""

OURS: Final = re.compile(f"\x1b\\[(?:0|{'|'.join(map(re.escape, SGR.values()))})m|\r(?=\x1b\\[K|[\\d━╸┄])|\x1b\\[K")
"""The escapes of our own style, and of a meter that is taken away."""

MODES: Final = ("table", "wide", "tsv", "json")
WHOLE: Final = frozenset({"export", "csv", "markdown", "--full", "--repro"})
"""Words of command lines that ask for whole texts."""
SAID: Final = {
    "audit": ("",), "backup": ("", "{evil}.db"), "benchmarks diff": ("gsm8k 1 2", "{evil} 1 2"),
    "benchmarks show": ("gsm8k", "gsm8k cot"),
    "baseline": ("",), "baseline pin": ("{evil}", "m --for {evil}"), "baseline unpin": ("", "{evil}"),
    "baseline add": ("{evil} --from {evil}", "m --from {given}", "m --from {given} --check"),
    "compare": ("a b", "a b --flips 3"), "completion": ("bash", "{evil}"), "config show": ("", "--daemon"),
    "daemon": ("{evil}",),
    "data label": ("{evil} --from {evil}", "gsm8k --from {evil} --field {evil}", "{evil} --jobs 1"),
    "data own": ("{evil}",), "data prepare": ("{evil}", "gsm8k --dry-run"),
    "data rows": ("", "{evil}", "{evil} --name {evil} --licence {evil}"),
    "decontaminate": ("{evil}", "{evil} --to {out} --field {evil}"),
    "delete": ("j1", "j1 --yes"), "dispatch": ("--models builtin", "--models builtin --plan x"),
    "engine serve": ("--model {evil}",), "engine verify": ("--model {evil}",), "events": ("", "--all"),
    "export": ("", "--samples", "--format csv", "--format markdown", "--format lm-eval", "--to {out}"),
    "gate": ("a --baseline b",), "gpus": ("",), "gpus drain": ("0 --reason x",), "gpus history": ("", "0"),
    "gpus quarantine": ("0 --reason x",), "gpus reserve": ("0 --for x",), "import": ("/x", "{evil}"),
    "job-log": ("", "--all", "--format csv", "--format markdown"), "logs": ("j1", "j1 --timestamps", "j1 --grep ."),
    "man": ("", "status", "{evil}"), "priority": ("j1 3",), "prune": ("--older-than 1d", "--older-than 1d --yes"),
    "queue": ("--models builtin", "--model-regex {evil}"), "reap": ("7", "7 --start 7 --yes"),
    "report": ("{out}.html",), "restore": ("{evil}",), "review mark": ("7 right",),
    "samples": ("j1", "j1 --full", "j1 --limit 1 --text {evil}"), "samples diff": ("j1 j2", "j1 j2 --row 7 --repeat 7"),
    "samples exchange": ("j1 7",), "samples same": ("j1 --row 1",), "scores": ("", "--session-id {evil}"),
    "search select": ("m", "m --dispatch"), "serve": ("{evil}",), "service install": ("--dry-run --root {out}",),
    "service uninstall": ("--root {out}",), "show": ("j1", "j1 --repro"), "status": ("", "--session-id {evil}"),
    "stop": ("j1", "--all", "--model {evil}"), "suites": ("", "{evil}"),
    "watch": ("",), "watch show": ("w1", "{evil}"), "tui": ("--odd {evil}",),
    "weights download": ("{evil}", "--to {evil} --odd"),
    "weights inspect": ("{weights}", "{evil}"), "weights merge": ("{evil} --base {evil} --to {evil}",),
    "weights show": ("{weights}", "{evil}"), "weights verify": ("{weights}", "{evil}"), "zombies": ("", "7"),
    "pause": ("j1", "--queue --reason x"), "resume": ("j1", "--queue"), "help": ("", "status", "{evil}"),
    "doctor": ("",),
}  # fmt: skip
"""What is said to a verb, where one word for each argument would not do."""


@pytest.fixture
def evil_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which whatever can have a name has a hostile one; the folder that holds it all."""
    for name in [name for name in os.environ if name.startswith("RWKVCTL_")]:
        monkeypatch.delenv(name)
    name = TYPED
    home = tmp_path / f"h{name}"
    (home / "weights").mkdir(parents=True)
    for text in (name, *hostile.SHORT):
        file = text.replace("\x00", "").replace("/", "").replace("\ud800", "")[:60]
        (home / "weights" / f"rwkv7-{file}.pth").write_bytes(b"no checkpoint")
    for data in hostile.HOSTILE_BYTES:
        (home / "weights" / os.fsdecode(data.data.replace(b"\x00", b"").replace(b"/", b"")[:99] + b".pth")).touch()
    given = f'model,benchmark,kind,metric,value,n\nm,{TYPED[:9]},k,accuracy,0.5,3\n"{TYPED}",b,k,accuracy,0.5,3\n'
    (tmp_path / "given.csv").write_text(given, encoding="utf-8", errors="replace")
    monkeypatch.setenv("RWKVCTL_HOME", str(home))
    monkeypatch.setenv("RWKVCTL_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.setenv(f"RWKVCTL_{name}", name)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    monkeypatch.setattr(platform, "node", lambda: name)
    return tmp_path


def lines_of(verb: Verb, home: Path) -> list[list[str]]:
    """The command lines with which a verb is tried."""
    places = {"evil": TYPED, "out": str(home / "out" / "x\x1b[2J"), "given": str(home / "given.csv"),
              "weights": next(str(path) for path in sorted((home).glob("h*/weights/*.pth")))}  # fmt: skip
    wanted = [option for option in verb.options if option.required and not option.flags]
    stand_in = " ".join("7" if option.kind is int else "j1" for option in wanted)
    said = SAID.get(verb.words, (stand_in,))
    return [[*verb.words.split(), *(word.format(**places) for word in line.split())] for line in said]


def forms_of(verb: Verb, modes: tuple[str, ...]) -> list[list[str]]:
    """What asks a verb for each form; one that another program answers has a plain one and JSON."""
    if verb.passed:
        return [["--json"] if mode == "json" else [] for mode in modes if mode in {"table", "json"}]
    return [["--json"] if mode == "json" else ["-o", mode] for mode in modes]


def seen(words: list[str], monkeypatch: pytest.MonkeyPatch, typed: str = "") -> str:
    """What a command line writes on a terminal."""
    with on_a_terminal(monkeypatch, typed) as glass, contextlib.suppress(SystemExit):
        main.main(words)
    return glass.text


def check(words: list[str], sent: str, ours: re.Pattern[str] = OURS) -> None:
    """Nothing that a terminal obeys or hides, no line that a text began, no traceback."""
    rest = ours.sub("", sent)
    found = hostile.FORBIDDEN.search(rest.replace("\t", " "))
    assert found is None, (words, rest[max(0, found.start() - 200) : found.end() + 80])
    assert "\x1b" not in rest
    assert "\r" not in rest
    assert "Traceback" not in sent, (words, sent[-3000:])
    if words[0] != "logs":
        assert not [line for line in rest.split("\n") if line.lstrip().startswith("FORGED")], (words, rest[:2000])


VERBS: Final = load_all()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
@pytest.mark.usefixtures("programs")
def test_no_answer_reaches_the_terminal_as_it_is(verb: Verb, evil_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = hostile_daemon.HostileDaemon(lambda: DENSE)
    short = hostile_daemon.HostileDaemon(hostile_daemon.cycling(hostile.SHORT))
    long = hostile_daemon.HostileDaemon(lambda: "long \x1b[2J" * 10_000)
    for daemon, modes in ((dense, MODES), (short, ("table", "json")), (long, ("table",))):
        with hostile_daemon.serving(evil_home / "d.sock", daemon.handle):
            for form in forms_of(verb, modes):
                for words in lines_of(verb, evil_home):
                    asked = [*words, *form]
                    sent = seen(asked, monkeypatch, "y\ny\n")
                    check(asked, sent)
                    assert daemon is not long or WHOLE & set(words) or len(sent) < 400_000, asked


STAYING: Final = (
    "status --watch=0.1", "status --watch=0.1 --plain", "status --watch=0.1 --json", "events --follow", "logs j1 -f",
    "logs daemon -f --timestamps", "dispatch --models builtin --wait --yes",
)  # fmt: skip
"""Command lines that go on until Ctrl-C."""
IN_PLACE: Final = re.compile(OURS.pattern + r"|\x1b\[\?(?:1049|25|2026)[hl]|\x1b\[\d*H|\x1b\[2J")
"""And what draws in place."""


@pytest.mark.parametrize("line", STAYING)
@pytest.mark.usefixtures("programs")
def test_no_verb_that_stays_lets_one_through(line: str, evil_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (lambda: DENSE, hostile_daemon.cycling(hostile.STORABLE)):
        daemon = hostile_daemon.HostileDaemon(text)
        daemon.patience = 4
        with hostile_daemon.serving(evil_home / "d.sock", daemon.handle):
            check(line.split(), seen(line.split(), monkeypatch), IN_PLACE)
        assert daemon.sent


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
@pytest.mark.usefixtures("programs")
def test_no_error_reaches_the_terminal_as_it_is(verb: Verb, evil_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = hostile_daemon.HostileDaemon(lambda: DENSE)
    daemon.fails = True
    with hostile_daemon.serving(evil_home / "d.sock", daemon.handle):
        for words in lines_of(verb, evil_home):
            for mode in ([], ["--json"]):
                check([*words, *mode], seen([*words, *mode], monkeypatch, "n\nn\n"))
    for words in lines_of(verb, evil_home):  # nobody answers, and a flag is not known
        check(words, seen(words, monkeypatch, "n\nn\n"))
        check(words, seen([*words, f"--{TYPED}"], monkeypatch))
        check(words, seen([*words, "-o", TYPED], monkeypatch))
    check([TYPED], seen([TYPED], monkeypatch))
    check([TYPED], seen([verb.words.split()[0], TYPED], monkeypatch))
