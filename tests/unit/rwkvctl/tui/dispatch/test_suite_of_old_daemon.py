"""The console's form: a suite is planned only by a daemon that knows suites, as on the command line."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.replies import PlanReply
from rwkvctl.protocol.requests import PlanRequest
from rwkvctl.tui.dispatch import planner


class OldDaemon:
    """Knows no suites, and ignores the name of one."""

    remote = "elsewhere"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def ask(self, request: Any, *_: object) -> PlanReply:
        self.asked.append(request)
        if not isinstance(request, PlanRequest):
            raise RefusedError("no-such-route", "There is no /v1/suites.")
        return PlanReply(hash="77c1", rows=(), counts={}, computed_ms=1.0, models=0, benchmarks=0)


def planned(daemon: OldDaemon, *words: str) -> planner.PlannedDispatch:
    return asyncio.run(planner.plan(cast("Any", SimpleNamespace(link=daemon)), words))


def test_an_old_daemon_plans_what_names_no_suite() -> None:
    assert planned(OldDaemon(), "--models", "builtin").reply.hash == "77c1"


def test_an_old_daemon_is_asked_for_no_plan_of_a_suite() -> None:
    daemon = OldDaemon()
    with pytest.raises(RefusedError, match="an older version, which has no suites"):
        planned(daemon, "--suite", "nightly")
    assert not [request for request in daemon.asked if isinstance(request, PlanRequest)], "it would plan everything"
