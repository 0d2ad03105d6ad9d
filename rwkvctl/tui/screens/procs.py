"""Procs: which processes hold the GPUs, the evidence on one of them, what was ended; and which GPUs may be used."""

from collections.abc import Iterable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.protocol.gpus import GpusReply, GpusRequest, GpuView
from rwkvctl.protocol.zombies import ReapedView, ZombiesReply, ZombiesRequest
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node import gpu_columns, process_columns, reap_actions
from rwkvctl.tui.node.process_columns import ProcessRow
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

NOTHING = ZombiesReply(items=(), policy="")


class Procs(PollingScreen):
    """Two views: processes with the evidence on one, and GPUs with the details of one. `about` is a pid."""

    NAME = "procs"
    FIRST_PANEL = "processes"
    DEFAULT_CSS = """
    Procs #processes { max-height: 14; min-height: 3; }
    Procs #reaped { max-height: 8; min-height: 3; }
    Procs #gpus { max-height: 18; min-height: 3; }
    Procs.-dense #processes { max-height: 9; }
    Procs.-dense #reaped { max-height: 4; }
    Procs.-dense #gpus { max-height: 11; }
    Procs #gpus, Procs #gpu { display: none; }
    Procs.-gpus #gpus, Procs.-gpus #gpu { display: block; }
    Procs.-gpus #processes, Procs.-gpus #why, Procs.-gpus #reaped { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "reap", "Reap…", key_display="K"),
        Binding("c", "decide", "Condition…"),
        Binding("t", "tree", "Tree"),
        Binding("v", "turn_over", "GPUs"),
    ]

    as_tree = pointed = False
    found = NOTHING
    explained: ZombiesReply = NOTHING
    gpus = GpusReply(items=())

    def body(self) -> Iterable[Widget]:
        yield VTable[ProcessRow](process_columns.PROCESSES, process_columns.key, id="processes", empty=LOADING)
        yield Reading(id="why", wraps=True)
        yield VTable[ReapedView](process_columns.REAPED, lambda row: f"{row.at}/{row.pid}", id="reaped",
                                 empty="no process was ended yet", headed=False)  # fmt: skip
        yield VTable[GpuView](gpu_columns.GPUS, lambda item: item.id, id="gpus", empty=LOADING)
        yield Reading(id="gpu", wraps=True)

    @property
    def facing_gpus(self) -> bool:
        """Return whether the view of GPUs is shown, not that of processes."""
        return self.has_class("-gpus")

    def table(self, name: str) -> "VTable[Any]":
        return self.query_one(f"#{name}", VTable)

    def path(self) -> list[str]:
        return ["Procs", "GPUs"] if self.facing_gpus else ["Procs"]

    def command(self) -> str:
        chosen = self.process
        return "rwkvctl gpus" if self.facing_gpus else f"rwkvctl zombies{f' {chosen.item.pid}' if chosen else ''}"

    def headline(self, state: ConsoleState) -> Pieces:
        counts = " · ".join(f"{count} {name}" for name, count in process_columns.census(self.found.items))
        pieces = [(f" {' › '.join(self.path())}", "title"), (f"   {counts or 'no process holds a GPU'}", "")]
        pieces += [(f"   reap = {self.found.policy}", "dim")] if self.found.policy else []
        wrong = self.gpus.trouble or self.gpus.self_test or self.found.observing
        return [*pieces, (f"   no process is ended now: {wrong}", "warn")] if wrong else pieces

    # -- asking ----------------------------------------------------------------------------------------------------

    def arrive(self, about: str) -> None:
        """Show the screen; `about` may name a pid."""
        self.pointed = self.pointed and about == self.about
        super().arrive(about)

    async def fetch(self) -> None:
        link = self.console_app.link
        found = await link.ask(ZombiesRequest(), ZombiesReply)
        self.gpus = await link.ask(GpusRequest(), GpusReply)
        self.found = found  # with the GPUs: a screen drawn in between would show processes on none
        self.known = True
        self.draw(self.console_app.state)
        await self.explain()

    async def explain(self) -> None:
        """Ask for the evidence on the process under the cursor."""
        chosen = self.process
        if chosen is None:
            return
        try:
            reply = await self.console_app.link.ask(ZombiesRequest(pid=chosen.item.pid), ZombiesReply)
        except RwkvctlError as error:
            if error.exit_code != Exit.NOT_FOUND:  # it may have ended since
                raise
            return
        self.explained = reply
        self._show_why()

    async def _explain(self) -> None:
        try:
            await self.explain()
        except RwkvctlError as error:
            self.console_app.say(str(error), "bad")

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        processes = self.table("processes")
        processes.empty = "no process holds a GPU" if self.known else LOADING
        rows = (process_columns.tree if self.as_tree else process_columns.flat)(self.found.items)
        processes.show("Processes on GPUs" + (", as a tree" if self.as_tree else ""), rows, stale=stale)
        self._point_out(rows)
        self.table("reaped").show("Ended before, newest first", list(self.found.reaped), stale=stale)
        self.table("gpus").empty = "this node has no GPU" if self.known else LOADING
        self.table("gpus").show("GPUs: their use and condition", list(self.gpus.items),
                                stale=stale)  # fmt: skip
        self._show_why()
        self._show_gpu()

    def _point_out(self, rows: list[ProcessRow]) -> None:
        """Put the cursor on the pid that was asked for, or on the first orphaned process; once."""
        if self.known and not self.pointed:
            self.pointed = True
            named = [place for place, row in enumerate(rows) if self.about == str(row.item.pid)]
            wrong = [place for place, row in enumerate(rows) if row.item.cls == "orphan"]
            for place in (named or wrong)[:1]:
                self.table("processes").move_to(place)

    @property
    def process(self) -> ProcessRow | None:
        """Return the process under the cursor; None if there is none."""
        table = self.table("processes")
        return table.listing.row(table.cursor) if table.chosen else None

    def _show_why(self) -> None:
        chosen, panel, stale = self.process, self.query_one("#why", Reading), bool(self.console_app.state.problem)
        if chosen is None:
            panel.show([], title=[("Evidence", "title")], stale=stale)
            return
        known = (
            item
            for item in self.explained.items
            if process_columns.key(ProcessRow(item)) == process_columns.key(chosen)
        )
        item = next(known, chosen.item)
        title = f"Why pid {item.pid} is classed as {item.cls}"
        panel.show(process_columns.evidence(item), title=[(title, "title")], stale=stale)

    def _show_gpu(self) -> None:
        table, stale = self.table("gpus"), bool(self.console_app.state.problem)
        lines = gpu_columns.about(table.listing.row(table.cursor)) if table.chosen else []
        self.query_one("#gpu", Reading).show(lines, title=[("This GPU", "title")], stale=stale)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show what is known of the row that the cursor is on now."""
        message.stop()
        if message.table.id == "processes":
            self._show_why()
            self.run_worker(self._explain, group="explain", exclusive=True)
        elif message.table.id == "gpus":
            self._show_gpu()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Show the evidence on the whole screen."""
        message.stop()
        below = {"processes": "#why", "gpus": "#gpu"}.get(message.table.id or "")
        if below:
            self.query_one(below, Reading).focus()

    # -- acting ----------------------------------------------------------------------------------------------------

    def action_reap(self) -> None:
        """Ask whether to end the chosen processes."""
        if self.facing_gpus:
            self.action_turn_over()
        table = self.table("processes")
        chosen = set(self.targets_in(table))
        items = [item for item in self.found.items if process_columns.key(ProcessRow(item)) in chosen]
        pids = {item.pid for item in items}
        whole = [item for item in self.found.items if item.pid in pids]  # a process frees all of its GPUs
        if whole:
            self.run_worker(self._reap(whole), group="reap")

    async def _reap(self, items: list[Any]) -> None:
        await reap_actions.reap(self.console_app, items)
        self.action_ask_again()

    def action_decide(self) -> None:
        """Ask for a decision about the chosen GPUs, or the GPU of the process under the cursor."""
        process = self.process
        if self.facing_gpus:
            chosen = set(self.targets_in(self.table("gpus")))
        elif process is not None:
            chosen = {process.item.gpu}
        else:
            self.console_app.say(self.table("processes").why_no_row, "warn")
            return
        items = [item for item in self.gpus.items if item.id in chosen]
        self.run_worker(self._decide(items), group="decide")

    async def _decide(self, items: list[GpuView]) -> None:
        await reap_actions.decide(self.console_app, items)

    def action_tree(self) -> None:
        """Toggle between processes under their parents and processes by GPU."""
        self.as_tree = not self.as_tree
        self.draw(self.console_app.state)

    def action_turn_over(self) -> None:
        """Toggle between the views of processes and GPUs."""
        self.toggle_class("-gpus")
        self.table("gpus" if self.facing_gpus else "processes").focus()
        self.console_app.draw()


SCREEN = Procs
