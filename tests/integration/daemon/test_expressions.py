"""Expressions that run away: they end, and whoever sent them waits alone."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from waiting import LIMIT_S

from rwkv_daemon.catalogue import regex_guard
from rwkv_daemon.catalogue.regex_guard import AT_ONCE, WAITING, Searches
from rwkv_daemon.rules.plan import SelectionError

NAMES = ["rwkv7-g1d-0.1b-20260129-ctx8192", "other"]
SLOW_TO_READ = "(?i)" + "".join(f"[{chr(0x100 + number)}-\U0010fffe]" for number in range(190))
RUNAWAY = r"^((\w|-|\.)+)+!$"


async def test_names_are_found() -> None:
    assert await Searches().matching(0, ["^rwkv", "nothing"], NAMES) == {NAMES[0]}
    assert await Searches().matching(0, [], NAMES) == frozenset()


async def test_one_that_runs_away_is_ended_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_guard, "CPU_S", 1)
    monkeypatch.setattr(regex_guard, "LIMIT_S", LIMIT_S)
    asked = asyncio.ensure_future(Searches().matching(0, [RUNAWAY], NAMES))
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
        patched.setattr(regex_guard, "PROGRAM", dies + regex_guard.PROGRAM)
        assert await regex_guard.matching(["^rwkv"], NAMES) == {NAMES[0]}
        assert (tmp_path / "once").exists()
        patched.setattr(regex_guard, "PROGRAM", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        with pytest.raises(SelectionError, match=r"ended from outside twice \(SIGKILL\); try again"):
            await regex_guard.matching(["^rwkv"], NAMES)


async def test_a_machine_that_is_too_busy_is_not_taken_for_a_bad_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_guard, "LIMIT_S", 0.0)
    with pytest.raises(SelectionError, match="the machine is busy; try again"):
        await Searches().matching(0, ["^rwkv"], NAMES)


@pytest.mark.parametrize(("expression", "says"), [("[", "no.* valid expression"), ("x" * 1001, "characters in all")])
async def test_what_is_none_or_too_long_is_said(expression: str, says: str) -> None:
    with pytest.raises(SelectionError, match=says):
        await Searches().matching(0, [expression], NAMES)


def children(pid: str = "self") -> list[Path]:
    """The processes that match, of this one."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # threads come and go
            for child in (task / "children").read_text().split():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    if regex_guard.PROGRAM.strip().encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(Path(f"/proc/{child}"))
    return found


async def test_one_user_has_one_process_and_all_together_have_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_guard, "CPU_S", 1)
    monkeypatch.setattr(regex_guard, "LIMIT_S", LIMIT_S)
    searches = Searches()
    asked = [
        asyncio.ensure_future(searches.matching(who, [RUNAWAY], NAMES)) for who in range(4) for _ in range(WAITING)
    ]
    most = 0
    for task in asked[:2]:
        while not task.done():
            most = max(most, len(children()))
            await asyncio.sleep(0.01)
    assert 1 <= most <= AT_ONCE
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)
    assert not children()
    assert (dict(searches.asked), dict(searches.turns)) == ({}, {})


async def test_who_has_too_many_searches_is_told_so_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_guard, "LIMIT_S", LIMIT_S)
    searches = Searches()
    greedy = [asyncio.ensure_future(searches.matching("greedy", [RUNAWAY], NAMES)) for _ in range(48)]
    while sum(task.done() for task in greedy) < 48 - WAITING:
        await asyncio.sleep(0.01)
    refused = [task.exception() for task in greedy if task.done()]
    assert all("searches of yours are under way" in str(error) for error in refused)
    assert await searches.matching("other", ["^rwkv"], NAMES) == {NAMES[0]}, "beside the greedy one"
    for task in greedy:
        task.cancel()
    await asyncio.wait(greedy)


async def test_who_waits_too_long_for_a_turn_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches()
    async with searches.turn("me"):
        monkeypatch.setattr(regex_guard, "LIMIT_S", 0.0)
        with pytest.raises(SelectionError, match="other searches took all of"):
            await searches.matching("me", ["^rwkv"], NAMES)


async def test_one_that_takes_long_to_be_read_does_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading this one takes a second; the loop of whoever reads it stands still."""
    monkeypatch.setattr(regex_guard, "LIMIT_S", LIMIT_S)
    asked = asyncio.ensure_future(Searches().matching(0, [SLOW_TO_READ], NAMES))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    assert await asked == frozenset(), "it was read to its end, and is in no name"
