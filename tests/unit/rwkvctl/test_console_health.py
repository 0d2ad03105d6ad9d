"""The top line and the devices: what is idle, what works, and what is not known."""

from typing import Any

from rwkvctl.tui import health
from rwkvctl.tui.state import ConsoleState


def text_of(pieces: Any) -> str:
    return "".join(text for text, _ in pieces)


def heard(fake_daemon: Any, **known: Any) -> ConsoleState:
    state = ConsoleState()
    state.load(fake_daemon.Node(**known).on_status(), now=1_795_238_014.0)
    return state


def test_where_all_jobs_are_over_there_are_jobs_but_none_waits_or_runs(fake_daemon: Any) -> None:
    state = heard(fake_daemon, jobs=[fake_daemon.job(1, "done")], engines=[])
    for width in (80, 120):
        assert "no jobs waiting or running" in text_of(health.health(state, 1_795_238_020.0, width))


def test_what_is_not_heard_is_not_known(fake_daemon: Any) -> None:
    assert text_of(health.alerts(ConsoleState())) == " what needs you is not known yet"
    state = heard(fake_daemon, jobs=[], engines=[])
    assert "nothing needs you" in text_of(health.alerts(state))
    state.lose("gone", now=1_795_238_020.0)
    assert text_of(health.alerts(state)) == " what needs you is not known since 05:13:34"
