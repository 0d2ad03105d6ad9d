"""Small parts: theme, pictures, history, command line, clipboard, export, health, keys and help."""

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from rwkvctl.cli.registry import load_all
from rwkvctl.cli.render import MARKS
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.sanitize import cell_width, safe_line
from rwkvctl.tui import screens
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.shell.command_parser import ELSEWHERE, READING, Quit, Run, completed, understand
from rwkvctl.tui.shell.help_text import MARKS as HELP_MARKS
from rwkvctl.tui.shell.key_bar import key_name
from rwkvctl.tui.shell.navigation import History, Location
from rwkvctl.tui.shell.status_line import health
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.terminal import clipboard
from rwkvctl.tui.widgets import table_export
from rwkvctl.tui.widgets.chart import Canvas, Point, plot, spark, ticks
from rwkvctl.tui.widgets.highlight import HIGHLIGHT_S, Highlights
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import ruled, strip, wrapped
from rwkvctl.tui.widgets.theme import ANSI, DARK, LIGHT, MONO, ROLES, THEMES, pick

XTERM = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(front: str, back: str) -> float:
    low, high = sorted((luminance(front), luminance(back)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("roles", "ground"), [(DARK, "#0b0f14"), (LIGHT, "#fbfcfd")])
def test_every_role_can_be_read_on_its_ground(roles: dict[str, str], ground: str) -> None:
    for role in ROLES:
        colour = roles[role].split()[-1]
        least = 1.5 if role == "rule" else 4.5  # WCAG AA for text
        assert contrast(colour, ground) >= least, (role, colour)
    for role in ("chosen", "badge"):
        front, _, back = roles[role].removeprefix("bold ").partition(" on ")
        assert contrast(front, back) >= 4.5


def test_themes_know_the_same_roles_and_bad_is_never_told_by_colour_alone() -> None:
    assert set(DARK) == set(LIGHT) == set(ANSI) == set(MONO) >= set(ROLES)
    for look in THEMES.values():
        bad = look.style("bad")
        assert bad.bold or bad.reverse
        assert look.style("bad") != look.style("")
        assert look.textual.name == look.name


@pytest.mark.parametrize(
    ("environ", "wanted", "name"),
    [(XTERM, "auto", "dark"), (XTERM | {"COLORFGBG": "0;15"}, "auto", "light"),
     (XTERM | {"NO_COLOR": "1"}, "dark", "mono"),
     ({"TERM": "linux"}, "auto", "ansi-ascii"), ({"TERM": "dumb"}, "auto", "mono"), (XTERM, "light", "light")],
)  # fmt: skip
def test_the_look_follows_the_terminal(environ: dict[str, str], wanted: str, name: str) -> None:
    assert pick(environ, wanted).name == name


def test_mono_has_no_colour_and_ascii_no_other_sign() -> None:
    for role in MONO:
        style = THEMES["mono"].style(role)
        assert style.color is None or style.color.is_default
        assert style.bgcolor is None
    look = pick(XTERM, plain=True)
    text = "▸✓✗!◌‖·▲▼~?●○…━╸┄─│┌┐└┘├┤±°⣿⠀数é"
    assert look.drawn(text).isascii()
    assert cell_width(look.drawn(text)) == cell_width(text)
    assert THEMES["dark"].drawn(text) == text


@given(st.text(max_size=30).map(safe_line), st.integers(0, 40))
def test_a_strip_is_exactly_as_wide_as_it_says(text: str, width: int) -> None:
    for made in (strip([(text, "bad")], width), ruled([(text, "title")], width)):
        assert made.cell_length == width
        assert sum(cell_len(segment.text) for segment in made) == width


@given(st.lists(st.text(max_size=30).map(safe_line), max_size=3), st.integers(2, 20))
def test_wrapped_lines_fit_and_say_everything(texts: list[str], width: int) -> None:
    lines = wrapped([(text, "") for text in texts], width)
    assert "".join(piece for line in lines for piece, _ in line) == "".join(texts)
    assert all(sum(cell_width(piece) for piece, _ in line) <= width for line in lines)


def test_spark_has_a_fixed_scale() -> None:
    assert spark([1.0] * 8, 4) == "⣿⣿⣿⣿"
    assert spark([0.0, 0.0, 0.5, 1.0], 4) == "⠀⠀⠀⣴"[:3] + spark([0.5, 1.0], 1)
    assert spark([], 3) == "⠀⠀⠀"
    assert spark([9.0, -1.0], 1) == spark([1.0, 0.0], 1)


def test_plot_shows_values_whiskers_and_words() -> None:
    points = [Point(70, 68, 72, "07-21"), Point(75, 74, 76, "08-02"), Point(72, label="08-22")]
    lines = plot(points, (40, 8), (66, 80))
    texts = ["".join(text for text, _ in line) for line in lines]
    assert len(texts) == 8
    assert {len(text) for text in texts} == {40}
    assert "07-21" in texts[-1]
    assert "08-22" in texts[-1]
    assert texts[0].startswith(" 80")
    assert {"dim", "info", "bold"} <= {role for line in lines for _, role in line}
    assert plot([Point(1.0)], (20, 4), (0, 0))
    assert len(plot([], (20, 4), (0, 1))) == 4


@given(st.integers(0, 100), st.integers(1, 100), st.integers(0, 3), st.integers(2, 12))
def test_the_values_along_an_axis_differ_and_are_what_they_say(low: int, tall: int, digits: int, rows: int) -> None:
    bottom, top = low / 10**digits, (low + tall) / 10**digits
    said, step = ticks(bottom, top, rows), (top - bottom) / (rows - 1)
    assert len(set(said)) == len(said) == rows
    assert all(abs(float(text) - (top - step * place)) <= 0.51 * step for place, text in enumerate(said))
    assert float(said[0]) == pytest.approx(top, abs=0.06 * step)


def test_an_axis_of_near_scores_has_the_digits_it_needs() -> None:
    assert ticks(98, 100, 5) == ["100.0", "99.5", "99.0", "98.5", "98.0"]
    assert ticks(60, 80, 5) == ["80", "75", "70", "65", "60"]
    assert ticks(98, 100, 7)[1] == "99.67"
    labels = [line[0][0].strip() for line in plot([Point(100.0), Point(99.4)], (40, 7), (99, 100))[:-1]]
    assert len(set(labels)) == len(labels)


@given(st.integers(-9, 30), st.integers(-9, 30), st.integers(-9, 30), st.integers(-9, 30))
def test_lines_may_leave_the_canvas(a: int, b: int, c: int, d: int) -> None:
    canvas = Canvas(5, 3)
    canvas.line((a, b), (c, d), "info")
    assert [len(row) for row in canvas.rows()] == [5, 5, 5]


def test_history_goes_back_forward_and_to_the_place_before() -> None:
    history = History(Location("overview"))
    history.visit(Location("job", "j1"))
    history.visit(Location("job", "j2"))
    history.visit(Location("job", "j2"))
    assert history.move(-1) == Location("job", "j1")
    assert history.move(-1) == Location("overview")
    assert history.move(-1) is None
    assert history.move(1) == Location("job", "j1")
    history.visit(Location("scores"))
    assert history.move(1) is None
    assert history.before() == Location("job", "j1")
    assert history.before() == Location("scores")


def test_a_hot_value_cools_after_a_while_and_not_before() -> None:
    highlights: Highlights[str] = Highlights()
    highlights.touch("a", 10.0)
    highlights.touch("b", 10.5)
    assert highlights.cool(10.0 + HIGHLIGHT_S) == {"a"}
    assert "a" not in highlights
    assert "b" in highlights
    highlights.touch("b", 11.0)
    assert highlights.cool(10.5 + HIGHLIGHT_S) == set()
    assert highlights.cool(11.0 + HIGHLIGHT_S) == {"b"}
    assert not highlights


SCREENS = {"overview", "job", "jobs"}


def test_lines_after_the_colon_are_screens_verbs_or_sentences() -> None:
    assert understand("", SCREENS) is None
    assert understand(" q ", SCREENS) == Quit()
    assert understand("overview", SCREENS) == Location("overview")
    assert understand("job j12", SCREENS) == Location("job", "j12")
    assert understand("jobs", SCREENS) == Location("jobs")
    found = understand("rwkvctl jobs --state failed", SCREENS)
    assert isinstance(found, Run)
    assert found.line == "rwkvctl jobs --state failed"
    assert isinstance(understand("stop --help", SCREENS), Run)
    for line, said in (("stpo j1", "did you mean|Did you mean"), ("jobs --nonsense", "unknown flag"),
                       ("logs 'x", "quotation"),
                       ("daemon", "another shell"), ("tui", "another shell")):  # fmt: skip
        with pytest.raises((ValueError, RwkvctlError), match=said):
            understand(line, SCREENS)


def test_a_read_only_console_runs_what_only_reads() -> None:
    assert isinstance(understand("scores", set(), read_only=True), Run)
    assert isinstance(understand("feedback w1", set(), read_only=True), Run)
    for line in ("stop j1", "feedback w1 --reveal"):
        with pytest.raises(ValueError, match="read-only"):
            understand(line, set(), read_only=True)
    known = {verb.words for verb in load_all()}
    assert known >= ELSEWHERE - {"engine serve"}
    writers = {"stop", "resume", "dispatch", "regrade", "reap", "reload", "judge retry", "weights download", "import"}
    assert not READING & writers
    assert known | {"weights inspect", "weights list"} >= READING


@pytest.mark.parametrize(
    ("text", "found", "line", "several"),
    [("st", ["status", "stop"], "st", ["status", "stop"]), ("sta", ["status"], "status ", []), ("x", [], "x", []),
     ("jobs --st", ["--state", "--status"], "jobs --stat", ["--state", "--status"]), ("logs ", ["j1"], "logs j1 ", [])],
)  # fmt: skip
def test_completion_goes_as_far_as_all_agree(text: str, found: list[str], line: str, several: list[str]) -> None:
    assert completed(text, found) == (line, several)


def test_copying_chooses_the_way_that_reaches_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    assert clipboard.copy("päng", written.append, {"TERM": "xterm"}) == "terminal"
    assert written.pop() == "\x1b]52;c;cMOkbmc=\x07"
    assert clipboard.copy("x" * 3000, written.append, {"TERM": "screen.xterm"}) == "screen"
    sent = written.pop()
    assert sent.count("\x1bP") == sent.count("\x1b\\") > 4
    assert clipboard.copy("x" * 100_000, written.append, {"TERM": "xterm"}) == ""
    assert not written
    fake = tmp_path / "tmux"
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\ncat > {tmp_path}/copied\n', encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert clipboard.copy("by tmux", written.append, {"TMUX": "1", "TERM": "tmux"}) == "tmux"
    assert (tmp_path / "copied").read_text(encoding="utf-8") == "by tmux"
    assert (tmp_path / "args").read_text(encoding="utf-8").split() == ["load-buffer", "-w", "-"]
    fake.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert clipboard.copy("x", written.append, {"TMUX": "1", "TERM": "tmux"}) == "terminal"


def test_export_writes_each_kind_and_never_over_a_file(tmp_path: Path) -> None:
    titles, rows = ["name", "note"], [["a", 'says "x", y'], ["b|c", ""]]
    for kind, said in (
        (".csv", '"says ""x"", y"'),
        (".tsv", "name\tnote"),
        (".md", "| b\\|c |  |"),
        (".json", '"b|c"'),
    ):
        path = tmp_path / f"out{kind}"
        table_export.written(path, titles, rows)
        assert said in path.read_text(encoding="utf-8")
        with pytest.raises(RwkvctlError, match="exists"):
            table_export.written(path, titles, rows)
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))[0] == {"name": "a", "note": 'says "x", y'}
    with pytest.raises(ValueError, match="must end in"):
        table_export.written(tmp_path / "out.exe", titles, rows)
    with pytest.raises(RwkvctlError, match="cannot be written"):
        table_export.written(tmp_path / "no" / "out.csv", titles, rows)


def texts(pieces: Any) -> str:
    return "".join(text for text, _ in pieces)


def test_health_says_what_is_there_and_how_long_it_is_gone(fake_daemon: Any) -> None:
    state = ConsoleState()
    assert "reconnecting" in texts(health(state, 0.0, 120))
    state.load(fake_daemon.Node().on_status(), 10_000.0)
    line = texts(health(state, 10_060.0, 120))
    for words in ("fake", "up 1h02m", "1 CPU 1▸", "jobs 1▸ 1◌", "tok/s 559k", "disk 5.0 GiB"):
        assert words in line
    assert texts(health(state, 10_060.0, 80, ["Job", "j1"])).endswith(" › Job › j1")
    state.lose("why", 10_100.0, 10_105.0)
    state.lose("why", 10_102.0, 10_110.0)
    assert "daemon gone 4s, reconnecting in 6s" in texts(health(state, 10_104.0, 120))


def test_every_state_has_a_mark_that_the_help_explains() -> None:
    explained = {mark for mark, _, _ in HELP_MARKS}
    assert {mark for mark, _ in MARKS.values()} <= explained


def test_keys_are_named_as_they_are_typed() -> None:
    assert [key_name(key) for key in ("slash", "ctrl+d", "ctrl+p", "j", "escape")] == ["/", "^d", "^p", "j", "esc"]


def test_every_file_of_a_screen_has_its_tab_and_a_key_of_its_own() -> None:
    assert set(TABS) == {info.name for info in pkgutil.iter_modules(screens.__path__)}
    assert all(name == screens.load(name).NAME for name in TABS)
    keys = [tab.key for tab in TABS.values() if tab.key]
    assert len(set(keys)) == len(keys)
    assert all(tab.title for tab in TABS.values())


def test_the_console_starts_without_what_only_forms_need() -> None:
    """Each of these costs a tenth of the time until something is seen."""
    code = "import sys, rwkvctl.tui.app; print([name for name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in (
        "httpx",
        "rwkvctl.tui.screens.jobs",
        "rwkvctl.tui.dispatch.form",
        "rwkvctl.tui.shell.dialogs",
        "csv",
        "numpy",
        "textual.widgets._text_area",
    ):
        assert f"'{name}'" not in loaded, name


class Reader(App[None]):
    """Lines to read, and nothing else."""

    def compose(self) -> ComposeResult:
        yield Reading(id="reading", wraps=True)


async def test_a_folded_line_loses_nothing_to_the_scroll_bar(driving: Any) -> None:
    path = "/weights/" + "a" * 60 + ".pth"
    app = Reader()
    async with app.run_test(size=(20, 4)):
        app.query_one(Reading).show([[(path, "")], [("the end", "")]])
        await driving.settled(app)
        assert app.query_one(Reading).scrollable_size.width == 19
        rows = ["".join(text for text, _ in row) for row in app.query_one(Reading).lines[:-1]]
        assert "".join(row.strip() for row in rows) == path
        assert max(map(len, rows)) == 19
        assert "…" not in driving.screen_text(app)
