"""/proc as text: names that try to look like fields, and what a snapshot says of threads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.zombies.proc import Process, Stat
from rwkv_daemon.zombies.words import printable

LINE = b"4711 (%s) S 12 4711 4710 34816 4711 4194304 1 2 3 4 500 250 0 0 20 0 1 0 99887 1 2 18446744073709551615"


@pytest.mark.parametrize("name", [b"python", b"a) R 1 (x", b"((", b")", b"", b"tab\tand\nline", b"\xff\xfe"])
def test_a_name_is_no_field(name: bytes) -> None:
    stat = Stat.of(LINE % name)
    assert (stat.state, stat.parent, stat.session, stat.tty) == ("S", 12, 4710, 34816)
    assert (stat.cpu_ticks, stat.start_ticks) == (750, 99887)
    assert stat.comm == name.decode(errors="replace")


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_any_name_the_kernel_takes(name: bytes) -> None:
    assert Stat.of(LINE % name).start_ticks == 99887


@given(st.binary(max_size=200))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    try:
        Stat.of(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    ("state", "tasks", "defunct", "blocked"),
    [
        ("S", (), False, False),
        ("Z", (), True, False),
        ("Z", ("Z",), True, False),
        ("Z", ("Z", "S"), False, False),
        ("Z", ("Z", "D"), False, True),
        ("D", ("D",), False, True),
        ("D", ("D", "S"), False, False),
        ("X", (), True, False),
        ("T", (), False, False),
    ],
)
def test_threads(state: str, tasks: tuple[str, ...], defunct: bool, blocked: bool) -> None:
    process = Process(pid=1, stat=replace(Stat.of(LINE % b"x"), state=state), tasks=tasks)
    assert (process.defunct, process.blocked) == (defunct, blocked)


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    assert printable("a\x1b]52;c;x\x07b\nc") == "a?]52;c;x?b c"
