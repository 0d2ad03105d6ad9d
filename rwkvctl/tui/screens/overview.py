"""Overview: is anything wrong, is any device idle, when is it done."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.render import Cell, Role, clock
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.views import JobView
from rwkvctl.text.quantities import duration
from rwkvctl.tui.daemon.event_wording import news
from rwkvctl.tui.daemon.state import ConsoleState, seconds
from rwkvctl.tui.jobs import columns
from rwkvctl.tui.jobs.columns import JobRow, rows_of
from rwkvctl.tui.jobs.keys import VERBS, JobScreen
from rwkvctl.tui.node import device_columns
from rwkvctl.tui.node.device_columns import Device
from rwkvctl.tui.shell.status_line import DAY_S, alerts, drained
from rwkvctl.tui.shell.time_travel_screen import TimeScreen
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import Column

LARGE: Final = (160, 45)
"""On a terminal of this size there is room for what has ended, too."""

FEW_DEVICES: Final = 3
"""With so few of them, even a small terminal has room for the events."""

SIGNS: Final[dict[str, tuple[str, Role]]] = {
    "done": ("✓", "ok"), "failed": ("✗", "bad"), "held": ("!", "warn"), "generating": ("▸", "ok"),
    "paused": ("‖", "dim"), "stopped": ("‖", "dim"),
}  # fmt: skip


def sign(event: Event) -> Cell:
    """Return the sign of the job state that an event reports; `·` if it reports none."""
    return Cell(*SIGNS.get(str(event.data.get("state", "")), ("·", "dim")))


def told(event: Event) -> str:
    """Return the event's text, preceded by its job or engine unless it begins with that."""
    whom, text = event.job or event.engine, news(event.job, event.text)
    return text if text.startswith(whom) and text else f"{whom} {text or event.kind}".strip()


EVENTS: Final[tuple[Column[Event], ...]] = (
    Column("AT", lambda event: Cell(clock(event.at), "dim"), 8, value=lambda event: event.at),
    Column("", sign, 1, live=True),
    Column("WHAT", told, 40, least=20, grow=1),
)


class Overview(TimeScreen, JobScreen):
    """The first screen: devices, jobs that run and wait, the newest results, and events."""

    NAME = "overview"
    FIRST_PANEL = "running"
    DEFAULT_CSS = """
    Overview #devices { max-height: 17; }
    Overview #running { max-height: 14; min-height: 3; }
    Overview #queue { height: 1fr; min-height: 3; }
    Overview #results { height: 1fr; min-height: 3; }
    Overview #events { height: 6; scrollbar-size-vertical: 0; }
    Overview.-past #running, Overview.-past #queue, Overview.-past #results { display: none; }
    Overview #results.-small { display: none; }
    Overview.-dense #devices { max-height: 9; }
    Overview.-dense #running { max-height: 8; }
    Overview.-dense #events { height: 5; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *VERBS,
        Binding("K", "app.go('procs')", "Reap…", key_display="K"),
        Binding("D", "app.dispatch", "Dispatch…", key_display="D"),
    ]

    def body(self) -> Iterable[Widget]:
        yield Lines(id="alerts")
        yield VTable[Device](device_columns.COLUMNS, device_columns.index, id="devices", titled=False)
        yield VTable[JobRow](columns.RUNNING, key, id="running", empty="no jobs are running; press D to dispatch")
        yield VTable[JobRow](columns.WAITING, key, id="queue", empty="no jobs are waiting")
        yield VTable[JobRow](columns.RESULTS, key, id="results", empty="no jobs finished")
        yield from self.jobs_then()
        yield VTable[Event](EVENTS, lambda event: f"{event.seq}-{event.at}", id="events", headed=False,
                            empty="no events since the console started", focusable=False)  # fmt: skip

    def path(self) -> list[str]:
        return []

    def headline(self, state: ConsoleState) -> Pieces:
        return alerts(state)

    def command(self) -> str:
        return "rwkvctl status"

    def draw(self, state: ConsoleState) -> None:
        stale, dense = bool(state.problem), self.has_class("-dense")
        state = self.shown(state)
        self.table("devices").show("", device_columns.devices_of(state), stale=stale)
        self.table("running").show(running_title(state), rows_of(state.running, state), stale=stale)
        self.table("queue").show(queue_title(state), rows_of(state.waiting, state), stale=stale)
        ended, size = ended_lately(state), self.app.size
        results = self.table("results")
        results.set_class(size.width < LARGE[0] or size.height < LARGE[1], "-small")
        results.show(results_title(state, ended), rows_of(ended, state), stale=stale)
        roomy = len(state.leases) <= FEW_DEVICES
        above = self.query_one("#alerts", Lines)
        above.display = dense and roomy
        above.show([alerts(state)], stale=stale)
        events = self.table("events")
        events.display = not dense or roomy
        events.show("Events", list(state.events), stale=stale)

    def table(self, name: str) -> "VTable[object]":
        return self.query_one(f"#{name}", VTable)

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Open a job, or the job of a device; for a device without one, show what else is on it."""
        message.stop()
        if message.table.id != "devices":
            self.console_app.go("job", message.key)
        elif self.chosen_jobs:
            self.console_app.go("job", self.chosen_jobs[0])
        else:
            self.console_app.go("procs")

    @property
    def chosen_jobs(self) -> list[str]:
        """Return the jobs chosen in the focused panel; for a device, the jobs that run on it."""
        panel = self.panel
        if not isinstance(panel, VTable):
            return []
        if panel.id != "devices":
            return panel.targets
        found = device_columns.devices_of(self.console_app.state)
        return [job for device in found if device_columns.index(device) in panel.targets for job in device.jobs]

    @property
    def why_no_job(self) -> str:
        panel = self.panel
        if isinstance(panel, VTable) and panel.id == "devices" and panel.chosen:
            return "No job runs on this device."
        return super().why_no_job


def key(row: JobRow) -> str:
    return row.job.id


def running_title(state: ConsoleState) -> str:
    """Return how many jobs run, since when the oldest, and when the last is expected to end."""
    if state.problem:
        return "Running"
    running = state.running
    starts = [seconds(job.started) for job in running if job.started]
    oldest = f" · oldest {duration(max(0.0, state.heard_at - min(starts)))}" if any(starts) else ""
    etas = [job.eta_s for job in running if job.eta_s is not None]
    last = f" · all done in {duration(max(etas))}" if etas and len(etas) == len(running) else ""
    return f"Running {len(running)}{oldest}{last}"


def ended_lately(state: ConsoleState) -> list[JobView]:
    """Jobs that ended in the last day, the newest end first."""
    found = [job for job in state.ended if seconds(job.finished) > state.heard_at - DAY_S]
    return sorted(found, key=lambda job: job.finished, reverse=True)


def results_title(state: ConsoleState, ended: Sequence[JobView]) -> str:
    """Return how many jobs ended in the last day, by outcome."""
    if state.problem:
        return "Ended in the last 24 h"
    counts = Counter(job.state for job in ended)
    return " · ".join(
        [f"Ended in the last 24 h {len(ended):,}", *(f"{counts[name]:,} {name}" for name in sorted(counts))]
    )


def queue_title(state: ConsoleState) -> str:
    """Return how many jobs wait and are held, how many ended, and when all are expected to be done."""
    if state.problem:
        return "Queue"
    counts = state.counts
    parts = [f"Queue {sum(counts.get(name, 0) for name in ('queued', 'held', 'paused')):,}"]
    parts += [f"{counts[name]:,} {name}" for name in ("held", "paused") if counts.get(name)]
    parts += [f"paused: {pause.scope}{' ' + pause.name if pause.name else ''}" for pause in state.pauses]
    return " · ".join([*parts, *filter(None, [drained(state)])])


SCREEN = Overview
