"""/proc as text: names that try to look like fields, and what a snapshot says of threads."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.gpus.zombies.phrases import printable
from rwkv_daemon.gpus.zombies.procfs import LONGEST_COMMAND, Machine, ProcessSnapshot, ProcessStat

LINE = b"4711 (%s) S 12 4711 4710 34816 4711 4194304 1 2 3 4 500 250 0 0 20 0 1 0 99887 1 2 18446744073709551615"


@pytest.mark.parametrize("name", [b"python", b"a) R 1 (x", b"((", b")", b"", b"tab\tand\nline", b"\xff\xfe"])
def test_a_name_is_no_field(name: bytes) -> None:
    stat = ProcessStat.of(LINE % name)
    assert (stat.state, stat.parent, stat.session, stat.tty) == ("S", 12, 4710, 34816)
    assert (stat.cpu_ticks, stat.start_ticks) == (750, 99887)
    assert stat.comm == name.decode(errors="replace")


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_any_name_the_kernel_takes(name: bytes) -> None:
    assert ProcessStat.of(LINE % name).start_ticks == 99887


@pytest.mark.parametrize("end", [b"\r", b"\x0b", b"\x0c", b"\x1c", "\x85".encode(), "\u2028".encode()])
def test_a_name_that_seems_to_end_its_line_sets_no_field(end: bytes, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_bytes(b"Name:\tx%bUid:\t0 0 0\nUid:\t5 5 5 5\nNSpid:\t7\n" % end)
    (tmp_path / "7" / "cgroup").write_bytes(b"0::/a%b1:name:/b\n" % end)
    machine = Machine(proc=tmp_path)
    assert (machine.status(7)["Uid"], len(machine.status(7))) == ("5 5 5 5", 3)
    assert len(machine.cgroups(7)) == 1


@pytest.mark.parametrize("longer", [0, 1, 500])
def test_a_command_that_is_cut_says_so(longer: int, tmp_path: Path) -> None:
    """What was cut in the middle of a word must not look like the whole of it."""
    whole = "python serve " + "x" * (LONGEST_COMMAND - 13 + longer)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(whole.replace(" ", "\0").encode() + b"\0")
    shown = Machine(proc=tmp_path).command(7, ProcessStat.of(LINE % b"python"))
    assert shown == (whole if not longer else f"{whole[: LONGEST_COMMAND - 1]}…")


@given(st.binary(max_size=200))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    try:
        ProcessStat.of(text)
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
    process = ProcessSnapshot(pid=1, stat=replace(ProcessStat.of(LINE % b"x"), state=state), tasks=tasks)
    assert (process.defunct, process.blocked) == (defunct, blocked)


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    assert printable("a\x1b]52;c;x\x07b\nc") == "a?]52;c;x?b c"
