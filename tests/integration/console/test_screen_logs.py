"""Logs, driven by its keys against a real daemon."""

from pathlib import Path
from typing import Any

import pytest
from waiting import soon

from rwkvctl.tui.logs.view import LogView


def view(hands: Any) -> LogView:
    found = hands.app.query_one("#view-logs LogView", LogView)
    assert isinstance(found, LogView)
    return found


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_what_is_followed_is_chosen_and_told_with_times_and_sources(
    measured: Any, pressing: Any, size: tuple[int, int]
) -> None:
    async with pressing(measured, size=size) as hands:
        text = await hands.press("5", see=("daemon · following", "daemon j4 done · rwkv7-g1", "W daemon j7 held"))
        assert all(len(line) <= size[0] for line in text.splitlines())
        await hands.press("g", see=("UTC", "daemon", "lines below"))
        await hands.press("s", see=("Follow", "the newest running job", "j2  builtin × demo_arith free_response, done"))
        await hands.press("escape")
        hands.app.go("logs", "j2")
        await hands.see(
            "j2 · following", "j2     demo_arith free_response: 40 of 40 samples to do", "daemon done · builtin"
        )
        hands.app.go("logs", "j1+j2")
        await hands.see("j1 + j2 + daemon · following", "daemon j7")
        await hands.press(
            "slash", *"samples to do", "enter", see=("/samples to do", "j1     own_quiz", "j2     demo_arith")
        )


async def test_the_menu_goes_to_another_log(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("5", see="daemon · following")
        await hands.press("s", see="Follow")
        await hands.press("down", "down", "enter", see=("Logs › j6", "j6 · following", "j6     "))
        assert hands.app.frame.view.command() == "rwkvctl logs j6 -f"
        await hands.press("left_square_bracket", see="daemon · following")


async def test_every_key_of_the_log_does_what_it_says(measured: Any, pressing: Any, tmp_path: Path) -> None:
    async with pressing(measured) as hands:
        await hands.press("5", see=("daemon · following", "accuracy"))
        await hands.press("slash", *"accuracy", "enter", see=("/accuracy", " of "))
        await hands.press("escape")
        await hands.gone("/accuracy")
        await hands.press("ampersand", *"starting", "enter", see="&starting")
        assert not view(hands).follow
        first = view(hands).top
        await hands.press("n")
        assert view(hands).top > first
        await hands.press("N")
        assert view(hands).top == first
        await hands.press("w", see="wrapped")
        await hands.press("w")
        await hands.press("t", see="times relative")
        await hands.press("t", see="times off")
        await hands.press("t")
        await hands.press("v", see=("warnings and errors", "held"))
        await hands.press("v", see="errors only")
        await hands.press("v")
        await hands.gone("errors only")
        await hands.press("z", see="  folded")
        await hands.press("z")
        await hands.gone("  folded")
        await hands.press("g")
        await hands.press("m", "F", see=("mark 1", "following"))
        await hands.press("at", *"00:00", "enter")
        await hands.press("less_than_sign", "greater_than_sign", see="no more lines with an error")
        file = tmp_path / "shown.log"
        await hands.press("slash", *"accuracy", "enter", "S")
        hands.app.frame.prompt.fill(str(file))
        await hands.press("enter", see="lines written to")
        written = file.read_text(encoding="utf-8").splitlines()
        assert len([line for line in written if "accuracy" in line]) == 6
        assert len(written) == len(view(hands).places.scan.hits)
        await hands.press("x")
        hands.app.frame.prompt.fill(str(file))
        await hands.press("enter", see="already exists and was not changed")


async def test_the_newest_running_job_joins_in_by_itself(fresh: Any, pressing: Any) -> None:
    async with pressing(fresh) as hands:
        await hands.press("5", see="daemon · following")
        fresh.engines_do(answers=20)
        (job,) = fresh.dispatch()
        await hands.see(f"{job} + daemon · following", f"{job}     demo_arith", "samples to do")
        fresh.cli("stop", job)
        await hands.see(f"daemon {job} stopped · builtin demo_arith free_response")


async def test_after_a_restart_it_goes_on_where_it_was(fresh: Any, pressing: Any) -> None:
    async with pressing(fresh) as hands:
        await hands.press("5", see="daemon · following")
        store = view(hands).store
        fresh.kill()
        await hands.see("daemon gone")
        before = store.end
        fresh.start()
        fresh.api.post("/v1/pause", {"queue": True, "why": "a look at the log"})
        await hands.see("lines fetched", "● daemon up", "a look at the log")

        def told() -> int:
            return sum(b" daemon " in store.line(number) for number in range(store.first, store.end))

        def stored() -> int:
            return int(fresh.api.get("/v1/status", limit=1).value["last_event"])

        # what the daemon does by itself after its start (it looks at weights) may be stored and told after that look
        await soon(lambda: told() == stored(), "every event is told: nothing twice, nothing left out")
        assert store.end > before
