"""The differ sends less and shows the same; the throttle sends nothing while a frame is on its way."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console as RichConsole
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip
from waiting import wait_for

from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.terminal.backpressure import FrameThrottle
from rwkvctl.tui.terminal.frame_diff import ScreenImage

WIDTH, HEIGHT = 14, 4
WORDS = ["red", "bold red", "on blue", "bold underline #010203 on #040506", "default on default"]
STYLES = [None, *map(Style.parse, WORDS)]
TEXTS = st.text(st.sampled_from("ab 数é中━⣿e\u0301한♥"), max_size=WIDTH).map(safe_line)


def piece(text: str, style: Style | None) -> Segment:
    return Segment(text, style)


SEGMENTS = st.lists(st.builds(piece, TEXTS, st.sampled_from(STYLES)), max_size=4)
ROWS = st.lists(SEGMENTS.map(lambda made: Strip(made).adjust_cell_length(WIDTH)), min_size=HEIGHT, max_size=HEIGHT)
SPANS = st.lists(st.tuples(st.integers(0, HEIGHT - 1), st.integers(0, WIDTH), st.integers(0, WIDTH)), max_size=4)


def whole(rows: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[strip] for strip in rows], Region(0, 0, WIDTH, HEIGHT))


def halves(strip: Strip) -> dict[int, Strip]:
    """A row as two widgets draw it: none begins with a mark on the other's last character."""
    cut = WIDTH // 2
    left, right = strip.crop(0, cut), list(strip.crop(cut, WIDTH))
    while right and not right[0].cell_length:
        del right[0]
    if right:
        marks = len(right[0].text) - len(right[0].text.lstrip("\u0301"))
        right[0] = Segment(right[0].text[marks:], right[0].style)
    return {0: left, cut: Strip(right)}


def partial(rows: list[Strip], spans: list[tuple[int, int, int]]) -> ChopsUpdate:
    chops: list[Any] = [halves(strip) for strip in rows]
    return ChopsUpdate(chops, [(y, min(a, b), max(a, b)) for y, a, b in spans], [[WIDTH // 2, WIDTH]] * HEIGHT)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_whole_frames_show_the_same_as_textual_draws(terminal_kind: Any, frames: list[list[Strip]]) -> None:
    glass, rich = ScreenImage(), RichConsole(color_system="truecolor", force_terminal=True)
    ours = terminal_kind(WIDTH, HEIGHT)
    for rows in frames:
        theirs = terminal_kind(WIDTH, HEIGHT)
        theirs.feed(whole(rows).render_segments(rich))
        ours.feed(glass.difference(whole(rows), rich, WIDTH))
        assert ours.lines() == theirs.lines()
        assert ours.styled() == theirs.styled()
    assert glass.difference(whole(frames[-1]), rich, WIDTH) == ""


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS, SPANS)
def test_partial_frames_change_what_is_dirty_and_nothing_else(
    terminal_kind: Any, before: list[Strip], after: list[Strip], spans: list[tuple[int, int, int]]
) -> None:
    glass, rich = ScreenImage(), RichConsole(color_system="truecolor", force_terminal=True)
    ours, expected = terminal_kind(WIDTH, HEIGHT), terminal_kind(WIDTH, HEIGHT)
    ours.feed(glass.difference(whole(before), rich, WIDTH))
    ours.feed(glass.difference(partial(after, spans), rich, WIDTH))
    expected.feed(whole(before).render_segments(rich))
    for y, a, b in spans:
        for x, half in halves(after[y]).items():
            start, end = max(x, min(a, b)), min(x + half.cell_length, max(a, b))
            if start < end:
                shown = half.crop(start - x, end - x).render(rich)
                expected.feed(f"\x1b[{y + 1};{start + 1}H{shown}\x1b[0m")
    dirty = {(x, y) for y, a, b in spans for x in range(min(a, b), max(a, b))}
    for y in range(HEIGHT):
        for x in range(WIDTH):
            if (x, y) in dirty:
                assert ours.styled()[y][x] == expected.styled()[y][x], (x, y)
    # what a cut wide character leaves behind is repaired by the next whole frame
    ours.feed(glass.difference(whole(before), rich, WIDTH))
    again = terminal_kind(WIDTH, HEIGHT)
    again.feed(whole(before).render_segments(rich))
    assert ours.lines() == again.lines()


def test_one_changed_cell_costs_a_few_bytes() -> None:
    glass, rich = ScreenImage(), RichConsole(color_system="truecolor", force_terminal=True)
    style = Style.parse("#d8dee4 on #0b0f14")
    rows = [Strip([Segment("x" * WIDTH, style)])] * HEIGHT
    assert len(glass.difference(whole(rows), rich, WIDTH)) < WIDTH * HEIGHT + 80
    changed = [rows[0], Strip([Segment("x" * 5 + "y" + "x" * 8, style)]), *rows[2:]]
    assert len(glass.difference(whole(changed), rich, WIDTH)) < 60
    assert glass.difference(whole(changed), rich, WIDTH) == ""


def test_another_width_or_another_writer_makes_it_send_everything() -> None:
    glass, rich = ScreenImage(), RichConsole(color_system="truecolor", force_terminal=True)
    rows = [Strip([Segment("x" * WIDTH)])] * HEIGHT
    first = glass.difference(whole(rows), rich, WIDTH)
    glass.forget()
    assert glass.difference(whole(rows), rich, WIDTH) == first
    assert glass.difference(whole(rows), rich, WIDTH + 1) == first


def test_links_are_never_opened() -> None:
    glass, rich = ScreenImage(), RichConsole(color_system="truecolor", force_terminal=True)
    rows = [Strip([Segment("x", Style(link="https://evil"))]).adjust_cell_length(WIDTH)] * HEIGHT
    assert "\x1b]" not in glass.difference(whole(rows), rich, WIDTH)


def driver_with(waiting: int) -> Any:
    return SimpleNamespace(_writer_thread=SimpleNamespace(_queue=SimpleNamespace(qsize=lambda: waiting)))


def test_governor_holds_while_the_line_is_busy_and_lets_one_go_then() -> None:
    governor = FrameThrottle()
    assert not governor.must_wait(driver_with(0))
    assert governor.must_wait(driver_with(2))
    assert governor.must_wait(driver_with(0))  # one is due: it is drawn when the line is looked at
    assert not governor.may_go(driver_with(1))
    assert governor.may_go(driver_with(0))
    assert not governor.may_go(driver_with(0))
    assert not governor.must_wait(None)


def test_with_and_without_the_differ_the_terminal_shows_the_same(
    socket_path: Path, fake_daemon: Any, console_module: Callable[[str], Any]
) -> None:
    """Both streams, over a walk through the console, read by a terminal: the same screens, a fraction of the bytes."""
    size, node = (100, 33), fake_daemon.Node(heartbeat_s=3600.0)
    node.jobs = [fake_daemon.job(1, model="模型-数学-2.9b", detail="e\u0301a\u0301"), *node.jobs[1:]]
    walk = [
        ("", "Running 1"),
        ("\r", "Samples, newest first"),
        ("2", "Would not run · would run 1"),
        ("3", "all 2"),
        ("1", "Running 1"),
        ("\t", "Queue"),
        ("?", "keys of"),
        ("q", "Running 1"),
    ]
    kind = console_module("console_terminal").Shell
    with fake_daemon.serving(socket_path, node):
        shells = [kind(socket_path, size, RWKVCTL_TUI_DIFF=differ) for differ in "10"]
        try:
            for key, words in walk:
                for shell in shells:
                    shell.type(key, words)
                become_alike(shells, f"both show the same after {key!r}")
            assert 3 * len(shells[0].received) < len(shells[1].received)
        finally:
            for shell in shells:
                shell.end()


def become_alike(shells: list[Any], saying: str) -> None:
    """Wait until both terminals show the same, but for the line that counts seconds."""

    def seen() -> list[list[str]]:
        return [[line for line in shell.screen.lines() if "up " not in line] for shell in shells]

    def read() -> None:
        for shell in shells:
            shell.read(0.02)

    wait_for(lambda: seen()[0] == seen()[1], saying, lambda: "\n".join(map("\n".join, seen())), pause=read)
