"""A screen that can show an earlier second of the node: `@` asks for it, the arrows move, End returns to the
present."""

import time
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.gpus import GpuHistoryReply, GpuHistoryRequest
from rwkvctl.protocol.record import JobLogReply, JobLogRequest, JobLogView
from rwkvctl.protocol.requests import EventsRequest
from rwkvctl.tui.daemon import snapshot
from rwkvctl.tui.daemon.snapshot import Snapshot
from rwkvctl.tui.daemon.state import ConsoleState, seconds
from rwkvctl.tui.daemon.time_input import moment
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.table import VTable

MINUTE_S: Final = 60
TEN_S: Final = 10 * MINUTE_S
EVENTS: Final = 50
JOBS: Final = 200


class TimeScreen(ConsoleScreen):
    """Subclasses yield `jobs_then` in their body, and draw `shown(state)`; panels that only the present has are hidden
    by the class `-past`."""

    DEFAULT_CSS = """
    TimeScreen #timebar, TimeScreen #then { display: none; }
    TimeScreen.-past #timebar, TimeScreen.-past #then { display: block; }
    TimeScreen #then { height: 1fr; min-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", f"move_time(-{MINUTE_S})", "One minute back", show=False, priority=True),
        Binding("right", f"move_time({MINUTE_S})", "One minute forward", show=False, priority=True),
        Binding("shift+left", f"move_time(-{TEN_S})", "Ten minutes back", show=False, priority=True, key_display="⇧←"),
        Binding(
            "shift+right", f"move_time({TEN_S})", "Ten minutes forward", show=False, priority=True, key_display="⇧→"
        ),
        Binding("end", "live", "Back to live", show=False, priority=True),
    ]

    then: Snapshot | None = None
    asked_at = 0

    def compose(self) -> ComposeResult:
        yield Lines(id="timebar")
        yield from self.body()

    def jobs_then(self) -> Iterable[Widget]:
        """Return the list of jobs that ran at that second."""
        yield VTable[JobLogView](snapshot.JOBS, lambda row: row.job, id="then", empty="no jobs ran at that time")

    def shown(self, state: ConsoleState) -> ConsoleState:
        """Return the state to draw: the present one, or that of the past second."""
        if self.then is None:
            return state
        wide = not self.has_class("-dense")
        self.query_one("#timebar", Lines).show(
            [snapshot.bar(self.then.at, time.time(), len(self.then.jobs), wide=wide)]
        )
        table: VTable[JobLogView] = self.query_one("#then", VTable)
        table.show(f"Jobs running at that time {len(self.then.jobs)}", list(self.then.jobs))
        return self.then.picture

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow the arrows to move in time only while the past is shown."""
        if action in {"move_time", "live"} and self.then is None:
            return False
        return super().check_action(action, parameters)

    def action_time(self) -> None:
        """Ask for a time: 02:58, -2h; or End for now."""
        self.console_app.frame.ask("@", "", done=self._go_to_time)

    def _go_to_time(self, text: str) -> None:
        if text.strip().lower() in {"", "end", "now", "live"}:
            self.action_live()
        else:
            self._look_at(snapshot.within(seconds(moment(text)), time.time()))

    def action_move_time(self, by_s: int) -> None:
        """Move to an earlier or later second; beyond the present, return to it."""
        at, now = self.asked_at + by_s, time.time()
        if at >= now - 1:
            self.action_live()
        else:
            self._look_at(max(at, int(now) - snapshot.DAY_S + 1))

    def action_live(self) -> None:
        """Show the present again, and stop reading the past."""
        self.workers.cancel_group(self, "past")
        self.then = None
        self._turn(self.FIRST_PANEL)

    @property
    def narrowed(self) -> bool:
        """Return whether `back` has something to undo; the past counts."""
        return self.then is not None or super().narrowed

    def action_back(self) -> None:
        """Return to the present if the past is shown, else go back as on every screen."""
        if self.then is not None and not self.has_class("-zoomed"):
            self.action_live()
        else:
            super().action_back()

    def _look_at(self, at: int) -> None:
        self.asked_at = at
        self.run_worker(self._fetch(at), group="past", exclusive=True)

    async def _fetch(self, at: int) -> None:
        """Fetch the state of that second; a later request replaces this one."""
        link, state, end = self.console_app.link, self.console_app.state, snapshot.stamp_ms(at + 1)
        try:
            history = GpuHistoryRequest(since=at - snapshot.BEFORE_S, until=at + 1, step_s=1)
            gpus = await link.ask(history, GpuHistoryReply)
            jobs = await link.ask(JobLogRequest(at=snapshot.stamp_ms(at), until=end, limit=JOBS), JobLogReply)
            events = [event async for event in link.events(EventsRequest(limit=EVENTS, until=end))]
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")
            return
        self.then = Snapshot(at, snapshot.picture(state, gpus, events, at), jobs.items)
        self._turn("then")

    def _turn(self, panel: str) -> None:
        """Show the panels of the past or those of the present, and give the keys to one of them."""
        turned = self.has_class("-past") is not (self.then is not None)
        self.set_class(self.then is not None, "-past")
        if turned:
            self.screen.set_focus(self.query_one(f"#{panel}"), scroll_visible=False)
        self.console_app.draw()
