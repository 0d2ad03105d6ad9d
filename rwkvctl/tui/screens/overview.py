"""Overview: is anything wrong, is any device idle, when is it done."""

from collections.abc import Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.messages import Event
from rwkvctl.render import Cell, Role, clock, duration
from rwkvctl.tui import devicecolumns, jobactions, jobcolumns
from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.columns import Column
from rwkvctl.tui.devicecolumns import Device
from rwkvctl.tui.health import needs_somebody
from rwkvctl.tui.jobcolumns import JobRow, reason, rows_of
from rwkvctl.tui.state import ConsoleState, seconds
from rwkvctl.tui.strips import Pieces
from rwkvctl.tui.table import VTable

FEW_DEVICES: Final = 3
"""With so few of them, even a small terminal has room for the events."""

SIGNS: Final[dict[str, tuple[str, Role]]] = {
    "done": ("✓", "ok"), "failed": ("✗", "bad"), "held": ("!", "warn"), "generating": ("▸", "ok"),
    "paused": ("‖", "dim"), "stopped": ("‖", "dim"),
}  # fmt: skip


def sign(event: Event) -> Cell:
    """What kind of news it is."""
    return Cell(*SIGNS.get(str(event.data.get("state", "")), ("·", "dim")))


def told(event: Event) -> str:
    """What happened to whom."""
    return " ".join(word for word in (event.job or event.engine, event.text or event.kind) if word)


EVENTS: Final[tuple[Column[Event], ...]] = (
    Column("AT", lambda event: Cell(clock(event.at), "dim"), 8, value=lambda event: event.at),
    Column("", sign, 1, live=True),
    Column("WHAT", told, 40, least=20, grow=1),
)


class Overview(ConsoleScreen):
    """The first screen."""

    NAME = "overview"
    KEY = "1"
    TITLE = "Overview"
    FIRST_PANEL = "running"
    DEFAULT_CSS = """
    Overview #devices { max-height: 17; }
    Overview #running { max-height: 14; min-height: 3; }
    Overview #queue { height: 1fr; min-height: 3; }
    Overview #events { height: 6; scrollbar-size-vertical: 0; }
    Overview.-dense #devices { max-height: 9; }
    Overview.-dense #running { max-height: 8; }
    Overview.-dense #events { height: 5; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop_job", "Stop…"),
        Binding("D", "dispatch", "Dispatch…", key_display="D"),
    ]

    def body(self) -> Iterable[Widget]:
        yield VTable[Device](devicecolumns.COLUMNS, devicecolumns.index, id="devices", titled=False)
        yield VTable[JobRow](jobcolumns.RUNNING, key, id="running", empty="nothing runs; D dispatches")
        yield VTable[JobRow](jobcolumns.WAITING, key, id="queue", empty="nothing waits")
        yield VTable[Event](EVENTS, lambda event: f"{event.seq}-{event.at}", id="events", headed=False,
                            empty="nothing happened since the console started", focusable=False)  # fmt: skip

    def path(self) -> list[str]:
        return []

    def headline(self, state: ConsoleState) -> Pieces:
        return alerts(state)

    def command(self) -> str:
        return "rwkvctl status"

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        running, waiting, ended = state.running, state.waiting, state.ended
        self.table("devices").show("", devicecolumns.devices_of(state), stale=stale)
        self.table("running").show(running_title(state), rows_of(running, state), stale=stale)
        held = sum(job.state == "held" for job in waiting)
        title = f"Queue {len(waiting)}" + (f" · {held} held" if held else "") + f" · ended {len(ended)}"
        self.table("queue").show(title, rows_of([*waiting, *ended], state), stale=stale)
        events = self.table("events")
        events.display = not self.has_class("-dense") or len(state.leases) <= FEW_DEVICES
        events.show("Events", list(state.events), stale=stale)

    def table(self, name: str) -> "VTable[object]":
        """A panel by its name."""
        return self.query_one(f"#{name}", VTable)

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """A job is opened, or the job of a device."""
        message.stop()
        job = message.key
        if message.table.id == "devices":
            found = devicecolumns.devices_of(self.console_app.state)
            jobs = next((device.jobs for device in found if devicecolumns.index(device) == message.key), ())
            job = next(iter(jobs), "")
        if job:
            self.console_app.go("job", job)

    def action_stop_job(self) -> None:
        """Ask whether to stop the chosen jobs."""
        panel = self.panel
        if isinstance(panel, VTable) and panel.id in {"running", "queue"}:
            self.run_worker(jobactions.stop(self.console_app, panel.targets), group="stop")

    def action_dispatch(self) -> None:
        """Open the dispatch form."""
        if self.console_app.may_write():
            self.run_worker(self._dispatch(), group="dispatch")

    async def _dispatch(self) -> None:
        from rwkvctl.tui.dispatching import DispatchForm  # forms are not part of the first frame

        said = await self.console_app.push_screen_wait(DispatchForm())
        if said:
            self.console_app.say(said, "ok")


def key(row: JobRow) -> str:
    """A job's id."""
    return row.job.id


def alerts(state: ConsoleState) -> Pieces:
    """What needs somebody, the worst first; nothing is said in words too."""
    lost = [lease for lease in state.leases.values() if needs_somebody(lease)]
    found: list[tuple[str, str]] = [
        (f" ! {lease.index or lease.id} {lease.use}: {lease.why or lease.reason or lease.condition}", "bad")
        for lease in lost
    ]
    failed = [job for job in state.ended if job.state == "failed"]
    found += [(f" ✗ {len(failed)} failed, last {failed[0].id}: {failed[0].detail}", "bad")] if failed else []
    held = [job for job in state.waiting if job.state == "held"]
    found += [(f" ! {len(held)} held, first {held[0].id}: {reason(held[0])}", "warn")] if held else []
    return found or [(" nothing needs you", "dim")]


def running_title(state: ConsoleState) -> str:
    """How many run, since when the oldest, and when the last is done as far as that is known."""
    running = state.running
    starts = [seconds(job.started) for job in running if job.started]
    oldest = f" · oldest {duration(max(0.0, state.heard_at - min(starts)))}" if any(starts) else ""
    etas = [job.eta_s for job in running if job.eta_s is not None]
    last = f" · all in {duration(max(etas))}" if etas and len(etas) == len(running) else ""
    return f"Running {len(running)}{oldest}{last}"


SCREEN = Overview
