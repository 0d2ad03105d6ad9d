"""The top line and the devices: what is idle, what works, and what is not known."""

from typing import Any

import pytest

from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node.device_columns import devices_of, state_cell
from rwkvctl.tui.shell import status_line


def text_of(pieces: Any) -> str:
    return "".join(text for text, _ in pieces)


def heard(fake_daemon: Any, **known: Any) -> ConsoleState:
    state = ConsoleState()
    state.load(fake_daemon.Node(**known).on_status(), now=1_795_238_014.0)
    return state


def test_where_all_jobs_are_over_there_are_jobs_but_none_waits_or_runs(fake_daemon: Any) -> None:
    state = heard(fake_daemon, jobs=[fake_daemon.job(1, "done")], engines=[])
    for width in (80, 120):
        assert "no jobs waiting or running" in text_of(status_line.health(state, 1_795_238_020.0, width))


def test_where_all_jobs_are_over_nothing_is_said_of_their_end(fake_daemon: Any) -> None:
    state = heard(fake_daemon, jobs=[fake_daemon.job(1, "done")], engines=[])
    state.eta_s = 1.0  # what was expected a moment ago
    assert status_line.drained(state) == ""
    state = heard(fake_daemon, jobs=[fake_daemon.job(1, "queued")], engines=[])
    state.eta_s = 60.0
    assert status_line.drained(state).startswith("all done in 1m")


def test_what_is_not_heard_is_not_known(fake_daemon: Any) -> None:
    assert text_of(status_line.alerts(ConsoleState())) == " alerts: not known yet"
    state = heard(fake_daemon, jobs=[], engines=[])
    assert "no alerts" in text_of(status_line.alerts(state))
    state.lose("gone", now=1_795_238_020.0)
    assert text_of(status_line.alerts(state)) == " alerts: not known since 05:13:34"


@pytest.mark.parametrize(
    ("engine", "word", "counted"),
    [
        ({"running": 0}, "○ warm", " 1 CPU 0▸ 1○"),
        ({"running": 0, "state": "loading"}, "◌ load", " 1 CPU 1▸"),
        ({"running": 0, "jobs": ("j1",)}, "▸ run", " 1 CPU 1▸"),
        ({"running": 3}, "▸ run", " 1 CPU 1▸"),
    ],
)
def test_only_an_engine_that_has_work_runs(fake_daemon: Any, engine: Any, word: str, counted: str) -> None:
    state = heard(fake_daemon, jobs=[], engines=[fake_daemon.engine(**engine)])
    assert state_cell(devices_of(state)[0]).text == word
    assert text_of(status_line.devices(state)) == counted


def test_a_store_that_is_away_comes_first_in_the_headline(fake_daemon: Any) -> None:
    state = heard(fake_daemon, jobs=[], engines=[])
    assert "store" not in text_of(status_line.health(state, 1_795_238_020.0, 120))
    state.trouble, state.stale = "the store cannot be used since 03:12:07: it does not answer", "03:12:06"
    assert "✗ store" in text_of(status_line.health(state, 1_795_238_020.0, 80))
    said = text_of(status_line.alerts(state))
    assert said.startswith(" ! the store cannot be used since 03:12:07: it does not answer · jobs as of 03:12:06")
