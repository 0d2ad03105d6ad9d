"""Suites and notes are asked only of a daemon that knows them: an older one would ignore them, and run all."""

from typing import Any

import pytest

from rwkvctl.cli.client import Client
from rwkvctl.cli.selection import SelectionError, WorkFilters, check_daemon, work
from rwkvctl.protocol.errors import RefusedError, UnreachableError


class Daemon(Client):
    """Answers every question with one error, if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, list[str]()

    def get(self, route: str, **_: object) -> Any:
        self.asked.append(route)
        if self.error:
            raise self.error


def test_a_selection_without_a_suite_and_a_note_asks_nothing() -> None:
    daemon = Daemon(RefusedError("no-such-route", "There is no /v1/suites."))
    check_daemon(daemon, {"models": ["builtin"]})
    assert daemon.asked == []
    with pytest.raises(RefusedError, match="an older version"):
        check_daemon(daemon, {"note": "x"})


def test_an_empty_name_of_a_suite_is_refused_and_no_name_is_none() -> None:
    work(WorkFilters())
    for name in ("", " "):
        with pytest.raises(SelectionError, match="--suite: the name is empty"):
            work(WorkFilters(suite=name))


def test_a_note_that_is_too_long_is_refused_in_terms_of_its_flag() -> None:
    with pytest.raises(SelectionError, match="--note may have 500 characters; there are 501"):
        work(WorkFilters(note="x" * 501))


def test_a_daemon_that_knows_suites_is_asked_once() -> None:
    daemon = Daemon()
    check_daemon(daemon, {"suite": "nightly"})
    assert daemon.asked == ["/v1/suites"]


def test_a_daemon_without_the_route_is_refused_as_too_old() -> None:
    with pytest.raises(RefusedError, match="an older version, which has no suites") as caught:
        check_daemon(Daemon(RefusedError("no-such-route", "There is no /v1/suites.")), {"suite": "nightly"})
    assert (caught.value.code, caught.value.exit_code) == ("no-such-route", 5)


@pytest.mark.parametrize("error", [RefusedError("role", "You may not."), UnreachableError("Nobody answers.")])
def test_every_other_error_is_told_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        check_daemon(Daemon(error), {"suite": "nightly"})
    assert caught.value is error
