"""Judge: its endpoints, its waiting jobs, its cost, and how far its verdicts can be trusted; and the models behind
endpoints, which are asked in the same way."""

import contextlib
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from msgspec import structs
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.protocol.replies import ChangedReply, EndpointsReply, JudgeReply
from rwkvctl.protocol.requests import EndpointsRequest, EndpointsRetry, JudgeRequest, JudgeRetry, RegradeRequest
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import actions
from rwkvctl.tui.node import judge_columns
from rwkvctl.tui.node.judge_columns import Endpoint, JudgedJob
from rwkvctl.tui.scores.summary import KnownScores
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

UNSET: Final = (
    "No judge is configured: set [judge] in config.toml, or JUDGE_MODEL in the daemon's environment. Answers that only "
    "a judge can grade wait until then; `:help judge` says more."
)


NO_JOBS: Final = "no jobs: none waits for a judge or an endpoint, none lacks a verdict"


def with_endpoints(reply: JudgeReply, endpoints: EndpointsReply) -> JudgeReply:
    """Return the judges, and after them the models behind endpoints as if they were some."""
    return structs.replace(reply, judges=(*reply.judges, *(item.service for item in endpoints.items)))


class Judge(PollingScreen):
    """Endpoints on top, then facts in lines, then the jobs that wait or lack a verdict."""

    NAME = "judge"
    DEFAULT_CSS = """
    Judge #endpoints { max-height: 10; min-height: 3; }
    Judge #judged { height: 1fr; min-height: 4; }
    Judge #facts { height: 12; }
    Judge.-dense #endpoints { max-height: 6; }
    Judge.-dense #facts { height: 8; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "regrade", "Judge again…"),
        Binding("R", "retry", "Retry keys", key_display="R"),
        Binding("p", "pause", "Pause or resume"),
    ]

    said = JudgeReply(judges=())

    def body(self) -> Iterable[Widget]:
        self.scores = KnownScores()
        yield VTable[Endpoint](judge_columns.ENDPOINTS, judge_columns.key_of, id="endpoints", empty=LOADING)
        yield Reading(id="facts", wraps=True)
        yield VTable[JudgedJob](judge_columns.JOBS, lambda row: row.job, id="judged",
                             empty=LOADING)  # fmt: skip

    async def fetch(self) -> None:
        link = self.console_app.link
        self.said = await link.ask(JudgeRequest(), JudgeReply)
        with contextlib.suppress(RefusedError):  # a daemon of the version before knows no endpoints
            self.said = with_endpoints(self.said, await link.ask(EndpointsRequest(), EndpointsReply))
        await self.scores.fetch(link, self.console_app.state)

    def command(self) -> str:
        return "rwkvctl judge"

    def headline(self, state: ConsoleState) -> Pieces:
        parked = next((judge.parked for judge in self.said.judges if judge.parked), "")
        names = " · ".join(f"{judge.role} {judge.model}" for judge in self.said.judges)
        return [(" Judge", "title"), (f"   {names}", ""), *([(f"   ! {parked}", "warn")] if parked else [])]

    def table(self, name: str) -> "VTable[Any]":
        return self.query_one(f"#{name}", VTable)

    def draw(self, state: ConsoleState) -> None:
        stale, endpoints = bool(state.problem), self.table("endpoints")
        endpoints.empty = "no judge and no endpoint is configured" if self.known else LOADING
        endpoints.show("Endpoints", judge_columns.endpoints_of(self.said), stale=stale)
        facts = self.query_one("#facts", Reading)
        lines = judge_columns.about(self.said) or [[(f" {UNSET}" if self.known else "", "dim")]]
        facts.show(lines, title=[("Status and cost", "title")], stale=stale)
        rows = judge_columns.jobs_of(self.said, self.scores.items, state)
        judged = self.table("judged")
        judged.empty = NO_JOBS if self.known else LOADING
        judged.show("Jobs that ask, and finished jobs without all verdicts", rows, stale=stale)

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go to the job that was opened in the table of judged jobs; rows of other tables open nothing."""
        message.stop()
        if message.table.id == "judged":
            self.console_app.go("job", message.key.removeprefix("check-"))

    # -- acting ----------------------------------------------------------------------------------------------------

    def action_retry(self) -> None:
        """Try refused keys again, after the cause has been corrected."""
        if self.console_app.may_write():
            self.run_worker(self._retry(), group="retry")

    async def _retry(self) -> None:
        console = self.console_app
        console.did("judge", "retry")
        try:
            self.said = with_endpoints(
                await console.link.ask(JudgeRetry(request_id=request_id()), JudgeReply),
                await console.link.ask(EndpointsRetry(request_id=request_id()), EndpointsReply),
            )
        except RwkvctlError as error:
            console.say(str(error), "bad")
            return
        self.draw(console.state)
        console.say("all keys will be tried again" if self.said.judges else UNSET, "ok" if self.said.judges else "warn")

    def action_pause(self) -> None:
        """Pause requests to the judge and the checker, or resume them. Neither loses anything."""
        if self.console_app.may_write():
            off = any(pause.scope == "judge" for pause in self.console_app.state.pauses)
            self.run_worker(actions.do(self.console_app, [actions.judge(off=off)]), group="pause")

    def action_regrade(self) -> None:
        """Ask whether to send samples without a verdict to the judge again."""
        judged = self.table("judged")
        if judged.is_loading:
            self.console_app.say(judged.why_no_row, "warn")
            return
        chosen = set(judged.targets)
        rows = judge_columns.jobs_of(self.said, self.scores.items, self.console_app.state)
        wanted = [row for row in rows if row.job in chosen and row.unjudged and row.state == "done"]
        if not wanted:
            self.console_app.say("Select a finished job with samples that have no verdict.", "warn")
        elif self.console_app.may_write():
            self.run_worker(self._regrade(wanted), group="regrade")

    async def _regrade(self, rows: list[JudgedJob]) -> None:
        from rwkvctl.tui.shell.dialogs import Question  # dialogs are not part of the first frame

        console, names = self.console_app, tuple(row.job for row in rows)
        if (
            not await console.push_screen_wait(Question(judge_columns.regrade_question(rows)))
            or not console.may_write()
        ):
            return
        console.did("regrade", *names)
        try:
            reply = await console.link.ask(RegradeRequest(jobs=names, request_id=request_id()), ChangedReply)
        except RwkvctlError as error:
            console.say(str(error), "bad")
            return
        actions.tell(console, reply.items)


SCREEN = Judge
