"""Events and the audit trail, driven by keys against a real daemon."""

from typing import Any

import pytest
from waiting import soon

from rwkvctl.tui.widgets.table import VTable


def events(hands: Any) -> Any:
    return hands.app.query_one("#view-events #events", VTable)


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_what_happened_newest_first_with_all_of_one_below(
    measured: Any, pressing: Any, size: tuple[int, int]
) -> None:
    async with pressing(measured, size=size) as hands:
        text = await hands.press("E", see=("Events, newest first  all loaded", "job.state"))
        assert all(len(line) <= size[0] for line in text.splitlines())
        numbers = [row.seq for row in events(hands).listing.rows]
        assert numbers == list(range(numbers[0], 0, -1))
        stored = measured.cli("events", "--since", "0", "-o", "tsv").stdout.splitlines()
        assert len(numbers) == len([line for line in stored if line[:1].isdigit()])
        await hands.press("G")
        await hands.settled()
        assert events(hands).cursor == len(numbers) - 1
        await hands.press("g", see=f"{numbers[0]} · 20")


async def test_every_key_of_the_events_does_what_it_says(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("E", see="all loaded")
        every = len(events(hands).listing.rows)
        await hands.press("v", see=("warnings and failures", "held", f" of {every}"))
        assert 0 < events(hands).count < every
        await hands.press("v", see="failures  0 of")
        await hands.press("v")
        await hands.gone("failures")
        for subject, kind in (("jobs", "job.state"), ("engines", "engine.state"), ("devices", ""), ("judge", ""),
                              ("daemon", "daemon")):  # fmt: skip
            text = await hands.press("f", see=f"newest first  {subject}")
            assert kind in text
        await hands.press("f")
        await hands.gone("newest first  daemon")
        await hands.press("slash", *"job:=j1", "enter", see="/job:=j1")
        await soon(
            lambda: {events(hands).listing.row(place).job for place in range(events(hands).count)} == {"j1"}, "j1"
        )
        await hands.press("enter", see="Jobs › j1")
        assert hands.app.places.here[:2] == ("job", "j1")
        await hands.press("left_square_bracket", "escape", see="all loaded")
        await hands.press("at", *"-0s", "enter")
        assert events(hands).cursor == 0
        await hands.press("at", *"2020-01-01", "enter", see="happened before that")
        assert events(hands).cursor == every - 1
        await hands.press("at", *"soon", "enter", see="is not a time")


async def test_an_engine_goes_to_its_log_and_a_job_may_be_named(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("E", see="all loaded")
        await hands.press("slash", *"engine.state", "enter", "enter", see="Logs › e")
        hands.app.go("events", "j2")
        await hands.see("Events › j2", "/job:=j2")
        hands.app.go("events", "")
        await hands.gone("/job:=j2")


async def test_the_audit_says_who_changed_what_and_what_was_asked(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("E", see="all loaded")
        await hands.press("a", see=("Events › audit", "hold", "dispatch", "done", '"off":true'))
        assert hands.app.frame.view.command() == "rwkvctl audit"
        await hands.press("j", see="wait for the new rows")
        await hands.press("enter", "a", see="Events, newest first")


async def test_what_happens_comes_on_top_and_moves_nothing_under_the_eye(fresh: Any, pressing: Any) -> None:
    async with pressing(fresh) as hands:
        await hands.press("E", see="all loaded")
        fresh.api.post("/v1/pause", {"queue": True, "why": "first look"})
        await hands.see("first look")
        assert events(hands).cursor == 0
        newest = events(hands).chosen
        await hands.press("j", "j", "j")
        chosen = events(hands).chosen
        fresh.api.post("/v1/pause", {"queue": True, "why": "second look"})
        await hands.see("second lo")
        assert events(hands).chosen == chosen
        assert events(hands).listing.key_at(0) > newest
        await hands.press("a", see="second look")
        fresh.api.post("/v1/pause", {"queue": True, "why": "third look"})
        await hands.see("third look")
