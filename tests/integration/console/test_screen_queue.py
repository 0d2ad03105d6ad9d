"""The queue's screen and the dispatch form against a real daemon: the same plan as the command line's, every key."""

import json
from typing import Any

import pytest
from waiting import soon

from rwkvctl.tui.dispatch.form import DispatchForm
from rwkvctl.tui.screens.queue import Queue
from rwkvctl.tui.widgets.table import VTable

SETS = ("--models", "builtin", "--only-datasets", "demo_arith", "demo_choice", "--only-jobs", "free_response",
        "multi_choice_plain", "--limit", "7")  # fmt: skip


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_the_screen_has_every_row_of_the_plan_that_the_command_line_prints(
    measured: Any, pressing: Any, size: tuple[int, int]
) -> None:
    printed = json.loads(measured.cli("queue", *SETS, "-o", "json").stdout)
    async with pressing(measured, size=size) as hands:
        hands.app.go("queue", " ".join(SETS))
        text = await hands.see(
            "j7", "! held", "wait for the new rows", "+ new", "same as  rwkvctl queue --models builtin"
        )
        assert all(len(line) <= size[0] for line in text.splitlines())
        view = hands.app.query_one(Queue)
        assert view.planned is not None
        shown = [(row.model, row.benchmark, row.kind, row.action, row.reason) for row in view.planned.reply.rows]
        assert shown == [tuple(row[name] for name in ("model", "benchmark", "kind", "action", "reason"))
                         for row in printed["rows"]]  # fmt: skip
        assert view.planned.reply.hash == printed["hash"]
        fresh = [turn.row for turn in view.query_one("#order", VTable).listing.rows if turn.row]
        left = [row for line in view.query_one("#groups", VTable).listing.rows for row in line.rows]
        assert len(fresh) + len(left) == len(printed["rows"])


async def test_groups_open_and_close_and_their_rows_lead_to_jobs(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        hands.app.go("queue", "--models builtin --only-datasets demo_arith own_quiz --limit 40")
        await hands.see("▸ done", "Would not run")
        await hands.press("tab")
        assert hands.app.focused.id == "groups"
        place = next(n for n, line in enumerate(hands.app.focused.listing.rows) if line.reason == "done")
        await hands.press(*["down"] * place, "enter", see=("▾ done", "own_quiz multi_choice_plain builtin"))
        await hands.press("enter")
        await hands.gone("▾ done")
        await hands.press("enter", "down", "enter", see=("Jobs › j", "✓ done"))
        await hands.press("escape", see=("Queue › preview of --models", "▾ done"))
        await hands.press("Y", see="copied by terminal: rwkvctl queue --models builtin --only-datasets demo_arith")


async def test_a_filter_that_says_nothing_is_refused_in_words(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        hands.app.go("queue", "--model-regex (")
        await hands.see("is not a valid regular expression")
        hands.app.go("queue", "--only-datasets demo_aritt")
        await hands.see("demo_arith")  # what it may have meant
        await hands.press("f", see="New dispatch")
        assert isinstance(hands.app.screen, DispatchForm)
        await hands.press("escape")
        await hands.gone("New dispatch")


async def test_what_is_filtered_in_the_form_is_planned_dispatched_as_shown_and_undone(
    fresh: Any, pressing: Any
) -> None:
    fresh.cli("pause", "--queue")
    async with pressing(fresh, "the queue is paused") as hands:
        await hands.press("2", "f", see="New dispatch")
        await hands.type("builtin")
        await hands.press("down", *"demo_arith", *["down"] * 7, *"9", "enter", see=("dispatch these 1", "y dispatch"))
        await hands.press("e", see="enter preview")
        await hands.press(
            "enter", "enter", see=("preview of --models builtin --only-datasets demo_arith --limit 9", "+ new")
        )
        await hands.press("D", see=("Dispatch this job?", "same as  rwkvctl dispatch --models builtin"))
        await hands.press("escape")
        await hands.gone("Dispatch this job?")
        assert len(fresh.api.get("/v1/jobs").value["items"]) == 7
        await hands.press("D", see="Dispatch this job?")
        await hands.press("y", see=("1 job queued", "U undoes this"))  # for some seconds; the row may come later
        await hands.see("j8 ◌ queued")
        assert hands.app.commands[-1].startswith(
            "rwkvctl dispatch --models builtin --only-datasets demo_arith --limit 9 --plan"
        )
        await hands.press("U", see="j8 stopped")
        assert fresh.job("j8")["state"] == "stopped"
        # what is done can be planned again
        hands.app.go("queue", "--models builtin --only-datasets own_quiz --only-jobs multi_choice_plain --limit 40")
        await hands.see("▸ done")
        await hands.press("O", see=("+ new", "--overwrite"))
        await hands.press("O", see="▸ done")
        await hands.press("O", see="+ new")
        await hands.press("D", see="Dispatch this job?")
        await hands.press("y")
        await soon(lambda: len(fresh.api.get("/v1/jobs").value["items"]) == 9, "j9 is queued")
        assert fresh.job("j9")["version"] == 2


async def test_the_order_is_changed_held_released_paused_and_all_of_it_undone(fresh: Any, pressing: Any) -> None:
    fresh.cli("pause", "--queue")
    fresh.dispatch(limit=3)
    fresh.dispatch(limit=4)
    async with pressing(fresh, "the queue is paused") as hands:
        await hands.press("2", see=("1    j8 ◌ queued", "2    j9 ◌ queued"))
        table = hands.app.query_one("#order", VTable)
        assert [turn.key for turn in table.listing.rows][:3] == ["j8", "j9", "j7"]
        await hands.press("down")
        await hands.press("plus", see=("1    j9", "2    j8", "U undoes this: rwkvctl priority j9 0"))
        assert fresh.job("j9")["priority"] == 1
        await hands.press("U", see=("1    j8", "2    j9"))
        await hands.press("minus", see=("1    j8", "U undoes this: rwkvctl priority j9 0"))
        assert fresh.job("j9")["priority"] == -1
        await hands.press("H", see="type a reason; enter holds")
        await hands.press(*"odd rows", "enter", see=("j9 ! held", "odd rows"))
        assert fresh.job("j9")["detail"] == "odd rows"
        assert "rwkvctl hold j9 --reason 'odd rows'" in hands.app.commands
        assert table.chosen == "j9"
        await hands.press("u", see="j9 ◌ queued")
        await hands.press("p", see=("pause j9", "pause all jobs of builtin", "resume the queue", "drain this node"))
        await hands.press("enter", see="j9 ‖ paused")
        await hands.press("e", see="j9 ◌ queued")
        await hands.press("p", "down", "enter", see=("‖ paused", "U undoes this: rwkvctl resume --model builtin"))
        await hands.press("s", see="Stop j9?")
        await hands.press("y", see="U undoes this: rwkvctl resume j9")
        assert fresh.job("j9")["state"] == "stopped"
        await hands.press("U", see="j9 ◌ queued")
        await hands.press("g", "u", see="u releases jobs that were held with H")
        await hands.press("l", see="Logs ›")
        await hands.press("escape", "enter", see="Jobs › j8")
