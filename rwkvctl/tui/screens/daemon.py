"""Daemon: how it is, what it is configured with and from where, what the doctor finds; and while it is gone, what is
known of it."""

import json
import time
from collections.abc import Iterable
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.protocol.replies import InfoReply, StatusReply
from rwkvctl.protocol.requests import InfoRequest, StatusRequest
from rwkvctl.protocol.service import (
    ConfigReply,
    ConfigRequest,
    MetricsReply,
    MetricsRequest,
    ReloadReply,
    ReloadRequest,
    SettingView,
)
from rwkvctl.tui.daemon import facts, offline_probe
from rwkvctl.tui.daemon.facts import DaemonReplies, DoctorResult, OutsideView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.shell import verb_process
from rwkvctl.tui.shell.command_parser import Run, understand
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable


class Daemon(PollingScreen):
    """Facts on top; below them the settings in force, or with `d` what `rwkvctl doctor` finds."""

    NAME = "daemon"
    FIRST_PANEL = "settings"
    DEFAULT_CSS = """
    Daemon #settings, Daemon #findings { height: 1fr; min-height: 4; }
    Daemon #findings { display: none; }
    Daemon.-doctor #findings { display: block; }
    Daemon.-doctor #settings { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "doctor", "Doctor or settings"),
        Binding("c", "changed", "Hide defaults"),
        Binding("R", "reload", "Reload…", key_display="R"),
    ]

    info: InfoReply | None = None
    metrics = MetricsReply(items=())
    notes: tuple[str, ...] = ()
    config = ConfigReply(items=())
    outside = OutsideView()
    findings: tuple[DoctorResult, ...] = ()
    only_set = False

    def body(self) -> Iterable[Widget]:
        yield Lines(id="facts", grows=True)
        yield VTable[SettingView](facts.SETTINGS, lambda row: row.name, id="settings", empty=LOADING)
        yield VTable[DoctorResult](facts.FINDINGS, lambda row: f"{row.name} {row.what}", id="findings",
                              empty="looking")  # fmt: skip

    @property
    def doctored(self) -> bool:
        """Return whether doctor's findings are shown in place of the settings."""
        return self.has_class("-doctor")

    def path(self) -> list[str]:
        return ["Daemon", "doctor" if self.doctored else "settings"]

    def command(self) -> str:
        return "rwkvctl doctor" if self.doctored else "rwkvctl config show --daemon"

    # -- asking ----------------------------------------------------------------------------------------------------

    async def fetch(self) -> None:
        link = self.console_app.link
        try:
            info = await link.ask(InfoRequest(), InfoReply)
        except UnreachableError:
            await self._look_from_outside()
            raise
        if self.info is None or info.started != self.info.started:
            self.config = await link.ask(ConfigRequest(), ConfigReply)
        self.info = info
        self.metrics = await link.ask(MetricsRequest(), MetricsReply)
        self.notes = (await link.ask(StatusRequest(limit=1), StatusReply)).notes

    async def _look_from_outside(self) -> None:
        remote = self.console_app.link.remote is not None
        self.outside = OutsideView(local=False) if remote else await offline_probe.look(self.console_app.state.home)
        self.draw(self.console_app.state)

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        lines: list[Pieces] = facts.gone(state, time.time(), self.outside) if stale else []
        if self.info is not None and not (stale and self.has_class("-dense")):
            settings = {row.name: row for row in self.config.items}
            told = facts.facts(state, DaemonReplies(self.info, self.metrics, settings, self.notes))
            lines += [[(text, "stale") for text, _ in line] for line in told] if stale else told
        self.query_one("#facts", Lines).show(lines)
        rows = [row for row in self.config.items if not self.only_set or row.origin != facts.DEFAULT]
        table: VTable[SettingView] = self.query_one("#settings", VTable)
        table.empty = LOADING
        table.show(self._title(), rows, stale=stale)
        findings: VTable[DoctorResult] = self.query_one("#findings", VTable)
        findings.show("Doctor: this machine", list(self.findings), stale=False)

    def _title(self) -> Pieces:
        found = [("Settings in force", "title")]
        if not self.config.items:
            return found
        if self.only_set:
            return [*found, ("  defaults hidden", "accent")]
        own = sum(row.origin != facts.DEFAULT for row in self.config.items)
        return [*found, (f"  {own} of {len(self.config.items)} are set", "dim")]

    # -- keys ------------------------------------------------------------------------------------------------------

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Show a setting or a finding completely."""
        message.stop()
        row: Any = message.table.listing.row(message.table.cursor)
        if isinstance(row, SettingView):
            later = "  A change needs a restart." if row.restart else ""
            self.console_app.say(f"{row.name} = {row.value}  ({row.origin}): {row.help}.{later}", for_s=30.0)
        else:
            self.console_app.say(f"{row.name}: {row.what}" + (f" → {row.remedy}" if row.remedy else ""), for_s=30.0)

    def action_changed(self) -> None:
        """Toggle between all settings and those without the defaults."""
        self.only_set = not self.only_set
        self.draw(self.console_app.state)

    def action_doctor(self) -> None:
        """Toggle between the settings and the findings of a new run of doctor."""
        self.toggle_class("-doctor")
        panel = self.query_one("#findings" if self.doctored else "#settings", VTable)
        self.screen.set_focus(panel, scroll_visible=False)
        if self.doctored:
            self.run_worker(self._examine(), group="doctor", exclusive=True)
        self.console_app.draw()

    async def _examine(self) -> None:
        """Run the verb itself, beside the console: it takes seconds."""
        console, table = self.console_app, self.query_one("#findings", VTable)
        found = understand("doctor --json", ())
        assert isinstance(found, Run)
        pieces: list[str] = []
        words = verb_process.command(found, console.options.flags)
        await verb_process.follow(
            words, verb_process.environment(console.options.environ, 80, 24, colour=False), pieces.append
        )
        try:
            items = json.loads("".join(pieces))["items"]
        except (ValueError, KeyError):
            table.empty = f"the doctor failed: {''.join(pieces)[-200:]}"
        else:
            rows = [DoctorResult(item["name"], item["verdict"], item["what"], item["remedy"]) for item in items]
            self.findings = tuple(sorted(rows, key=lambda row: facts.ORDER.index(row.verdict)))
        console.draw()

    def action_reload(self) -> None:
        """Ask whether the configuration is to be read anew."""
        if self.console_app.may_write():
            self.run_worker(self._reload(), group="reload")

    async def _reload(self) -> None:
        from rwkvctl.tui.shell.dialogs import Question

        console = self.console_app
        files = ", ".join(self.config.files) or "its files"
        asked: list[Pieces] = [
            [("Reload the configuration?", "title")],
            [("reads    ", "dim"), (f"{files}, and benchmarks.toml", "")],
            [("checks   ", "dim"), ("everything first: if there is one mistake, nothing changes", "")],
            [("loses    ", "dim"), ("nothing: jobs, engines and clients continue", "")],
            [("same as  ", "dim"), ("rwkvctl reload", "info")],
        ]
        if not await console.push_screen_wait(Question(asked)) or not console.may_write():
            return
        console.did("reload")
        try:
            reply = await console.link.ask(ReloadRequest(request_id=request_id()), ReloadReply)
        except RwkvctlError as error:
            console.frame.say([str(error)], "bad", 30.0)
            return
        self.info = None  # settings are asked for again
        self.action_ask_again()
        said = [*reply.changed, *[f"needs a restart: {name}" for name in reply.waits], *reply.warnings]
        console.frame.say(said or ["no changes"], "warn" if reply.waits or reply.warnings else "ok", 15.0)


SCREEN = Daemon
