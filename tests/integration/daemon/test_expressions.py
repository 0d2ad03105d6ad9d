"""Expressions that run away: they end, and whoever sent them waits alone."""

import asyncio
from pathlib import Path

import pytest
from waiting import LIMIT_S

from rwkv_daemon import expressions
from rwkv_daemon.plan import SelectionError

NAMES = ["rwkv7-g1d-0.1b-20260129-ctx8192", "other"]
RUNAWAY = r"^((\w|-|\.)+)+!$"


async def test_names_are_found() -> None:
    assert await expressions.matching(["^rwkv", "nothing"], NAMES) == {NAMES[0]}
    assert await expressions.matching([], NAMES) == frozenset()


async def test_one_that_runs_away_is_ended_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "CPU_S", 1)
    monkeypatch.setattr(expressions, "LIMIT_S", LIMIT_S)
    asked = asyncio.ensure_future(expressions.matching([RUNAWAY], NAMES))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    with pytest.raises(SelectionError, match="takes too long"):
        await asked


async def test_one_that_is_killed_from_outside_is_asked_again_and_no_expression_is_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its memory may have run out, or somebody ends what computes: the first one dies, then both."""
    dies = f"import os, signal\nif not os.path.exists({str(tmp_path / 'once')!r}):\n"
    dies += f"    open({str(tmp_path / 'once')!r}, 'w').close()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    with monkeypatch.context() as patched:
        patched.setattr(expressions, "PROGRAM", dies + expressions.PROGRAM)
        assert await expressions.matching(["^rwkv"], NAMES) == {NAMES[0]}
        assert (tmp_path / "once").exists()
        patched.setattr(expressions, "PROGRAM", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        with pytest.raises(SelectionError, match=r"ended from outside twice \(SIGKILL\); try again"):
            await expressions.matching(["^rwkv"], NAMES)


async def test_a_machine_that_is_too_busy_is_not_taken_for_a_bad_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "LIMIT_S", 0.0)
    with pytest.raises(SelectionError, match="the machine is busy; try again"):
        await expressions.matching(["^rwkv"], NAMES)


@pytest.mark.parametrize(("expression", "says"), [("[", "no.* valid expression"), ("x" * 1001, "characters in all")])
async def test_what_is_none_or_too_long_is_said(expression: str, says: str) -> None:
    with pytest.raises(SelectionError, match=says):
        await expressions.matching([expression], NAMES)
