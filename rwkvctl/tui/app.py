"""The console's app: finds the screens, runs the feed, draws, goes from place to place, and holds the terminal back."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer, TimerCallback

from rwkvctl.cli.remote import Remote
from rwkvctl.text.sanitize import safe_line, safe_text
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui import screens
from rwkvctl.tui.console_app import ConsoleApp
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.daemon.feed import feed
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs.act import Act
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.options import Options
from rwkvctl.tui.samples.cache import SampleBooks
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.shell.command_runner import Commander
from rwkvctl.tui.shell.frame import Frame
from rwkvctl.tui.shell.navigation import History, Location
from rwkvctl.tui.shell.palette import PaletteEntries
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.terminal import clipboard
from rwkvctl.tui.terminal.backpressure import LOOK_S, FrameThrottle
from rwkvctl.tui.terminal.frame_diff import ScreenImage
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.theme import THEMES
from rwkvctl.tui.widgets.timers import kept

FRAME_S: Final = 0.2
TICK_S: Final = 1.0
"""Figures are drawn once a second; what happens to a job or an engine with the next frame."""

LOAD_S: Final = 0.1
QUIT_S: Final = 2.0


class Console(ConsoleApp):
    """The operator's console. It holds no truth: screens draw `state`, which one task feeds, and send requests."""

    frame: Frame
    commander: Commander

    TITLE = "rwkvctl"
    COMMANDS = {PaletteEntries}  # noqa: RUF012 - Textual's declaration
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "command", "Command", key_display=":"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "leave", "Leave"),
        Binding("escape", "back", "Back", show=False),
        Binding("left_square_bracket", "history(-1)", "Back", show=False, key_display="["),
        Binding("right_square_bracket", "history(1)", "Forward", show=False, key_display="]"),
        Binding("minus", "before", "Previous screen", show=False, key_display="-"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, key_display="^p"),
        Binding("ctrl+t", "next_theme", "Theme", show=False),
        Binding("ctrl+r", "again", "Redraw; reconnect now", show=False),
        Binding("ctrl+c", "interrupt", "Cancel; press twice to quit", show=False),
        Binding("Q,ctrl+q", "quit", "Quit", show=False, key_display="Q"),
    ]

    def __init__(self, socket: Path | Remote, options: Options | None = None) -> None:
        self.options = options or Options()
        self.look = self.options.look
        super().__init__(ansi_color=True if self.look.ansi else None)
        self.register_theme(self.look.textual)
        self.theme = self.look.name
        self.animation_level = "none"
        self.link, self.state = Link(socket), ConsoleState()
        self.shelf = SampleBooks()
        self.screen_image = ScreenImage() if self.options.differ else None
        self.frame_throttle = FrameThrottle()
        self.places = History(Location(next(iter(TABS))))
        self.undo: Sequence[Act] = ()
        self.wanted_priorities: dict[str, int] = {}
        self._drawn, self._drawn_at = (-1, -1), 0.0
        self._interrupted_at = 0.0

    def get_default_screen(self) -> Screen[Any]:
        """Return the frame, the only screen; dialogs are pushed onto it."""
        self.frame = Frame()
        self.commander = Commander(self)
        return self.frame

    def on_mount(self) -> None:
        """Show the first screen, and what is heard from then on."""
        for name, tab in TABS.items():
            if tab.key:
                key = "comma" if tab.key == "," else tab.key
                action = "help" if name == "help" else f"go('{name}')"
                self.bind(key, action, description=tab.title, show=False)
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.set_interval(FRAME_S, self._tick)
        if self.options.parent:
            self.set_interval(TICK_S, self._end_with_parent)
        self.run_worker(feed(self.link, self.state, self.draw), group="feed")
        self.run_worker(self._load_screens(), group="load")

    async def _load_screens(self) -> None:
        """Import the modules of the other screens while the console is idle, so that their keys need not wait."""
        for name in TABS:
            await asyncio.sleep(LOAD_S)
            screens.load(name)

    def _end_with_parent(self) -> None:
        if os.getppid() != self.options.parent:
            self.exit()

    # -- drawing ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Draw news at once, and changed figures and the time since a loss of connection once a second."""
        if self.frame_throttle.may_go(self._driver):
            self.screen.refresh()
        state, now = self.state, time.monotonic()
        due = now >= self._drawn_at + TICK_S
        if state.news != self._drawn[1] or (due and (state.revision != self._drawn[0] or state.problem)):
            self.draw()

    def draw(self) -> None:
        """Draw the screen in front; do nothing while the terminal cannot take another frame."""
        if self.is_running and self.frame.is_attached and not self.frame_throttle.held:
            self._drawn, self._drawn_at = (self.state.revision, self.state.news), time.monotonic()
            self.frame.paint(self.state)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Send a frame to the terminal: not while another is on its way, and only what differs from the last one."""
        driver = self._driver
        if not self._running or self._closed or self._batch_count or self.is_headless or driver is None:
            super()._display(screen, renderable)
            return
        if renderable is None:
            return
        if self.frame_throttle.must_wait(driver):
            self.set_timer(LOOK_S, self._when_free)
            return
        if self.screen_image is None or not isinstance(renderable, (ChopsUpdate, LayoutUpdate)):
            super()._display(screen, renderable)
            return
        text = self.screen_image.difference(renderable, self.console, self.size.width)
        if text:
            begin, end = ("\x1b[?2026h", "\x1b[?2026l") if self._sync_available else ("", "")
            driver.write(begin + text + end)
            driver.flush()
        self.post_display_hook()

    def _when_free(self) -> None:
        """Draw the newest state once the terminal has taken the last frame."""
        if self.frame_throttle.may_go(self._driver):
            self.screen.refresh()
        elif self.frame_throttle.held:
            self.set_timer(LOOK_S, self._when_free)

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's, which sets one for each change of size, but never left out."""
        return kept(super().set_timer(delay, callback, name=name, pause=pause))

    def on_resize(self) -> None:
        """What the terminal shows after a change of size is its own affair."""
        if self.screen_image is not None:
            self.screen_image.forget()

    def action_again(self) -> None:
        """Draw everything anew, and ask the daemon at once if it is gone."""
        if self.screen_image is not None:
            self.screen_image.forget()
        self.link.try_again()
        self.screen.refresh(layout=True)

    def action_next_theme(self) -> None:
        """Switch to the next theme and redraw everything in it."""
        names = list(THEMES)
        now = names.index(self.look.name.removesuffix("-ascii"))
        self.look = THEMES[names[(now + 1) % len(names)]]
        self.ansi_color = True if self.look.ansi else None
        self.register_theme(self.look.textual)
        self.theme = self.look.name
        self.say(f"theme {self.look.name}")
        self.refresh_css(animate=False)
        for widget in self.frame.walk_children():
            widget.refresh()

    # -- places ----------------------------------------------------------------------------------------------------

    def go(self, name: str, about: str = "") -> None:
        self.places.visit(Location(name, about))
        self._show_here()

    def _show_here(self) -> None:
        if not self.frame.show(*self.places.here):
            self.run_worker(self.frame.show_first(self.places.here.name), group="show")

    def action_go(self, name: str) -> None:
        """Go to a screen, about what it was about before."""
        self.frame.hush()  # what was said there
        view = next((view for view in self.frame.query(ConsoleScreen) if name == view.NAME), None)
        self.go(name, view.about if view is not None else "")

    def action_history(self, by: int) -> None:
        if self.places.move(by) is not None:
            self.frame.hush()
            self._show_here()

    def action_before(self) -> None:
        """Go to the place visited before this one."""
        self.places.before()
        self._show_here()

    async def action_back(self) -> None:
        """Undo what narrows the screen, else go back in the history; never leave the console."""
        if self.frame.view is not None:
            self.frame.view.action_back()

    async def action_leave(self) -> None:
        """Go back as `action_back` does; on an Overview that is not narrowed, leave the console."""
        here, view = self.places.here.name, self.frame.view  # where the operator went last may not be in front yet
        if view is not None and here == view.NAME == next(iter(TABS)) and not view.narrowed:
            self.exit()
        else:
            await self.action_back()

    def action_help(self) -> None:
        """Show the keys of this screen; on the help screen, go back."""
        here = self.places.here.name  # where the operator went last: it may not be mounted yet
        if here == "help":
            self.action_history(-1)
        else:
            self.go("help", here)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave the console without waiting for requests in flight: the widgets that would show the replies are
        removed."""
        self.workers.cancel_all()
        super().exit(result, return_code, message)

    async def action_interrupt(self) -> None:
        """Cancel the command that runs; a second press in a row quits. Jobs on the node are not affected."""
        if self.commander.stop():
            self.say("stopped")
        elif time.monotonic() < self._interrupted_at + QUIT_S:
            self.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.say("press ^c again to quit the console; jobs on the node continue", for_s=QUIT_S)

    # -- what screens ask for --------------------------------------------------------------------------------------

    def say(self, text: str, role: str = "", for_s: float = 8.0) -> None:
        """Show a sentence above the key bar for `for_s` seconds, with control characters made visible."""
        self.frame.say([safe_line(text)], role, for_s)

    def may_save(self) -> bool:
        """Return whether a file may be written on this machine; if not, tell the operator why."""
        if not self.options.files:
            self.say("This console is read-only and writes no files on the node: use `rwkvctl` there.", "warn")
        return self.options.files

    def may_write(self) -> bool:
        """Return whether something may be changed now; if not, tell the operator why."""
        if self.options.read_only:
            self.say("This console is read-only; start it without --read-only to change something.", "warn")
        elif self.state.problem:
            self.say("The daemon does not answer, so nothing can be changed now. Running jobs continue.", "warn")
        return not self.options.read_only and not self.state.problem

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Handle keys in the order in which they were typed, also if a slow line brings several at once. Textual checks
        the app's priority bindings first, and the others once the key has gone through the widgets: by then a later key
        may have opened the prompt. So both are checked at once unless the prompt has the focus."""
        done = await super()._check_bindings(key, priority)
        if done or not priority or self.screen is not self.frame or self.frame.prompt.display:
            return done
        return await super()._check_bindings(key)

    def action_command(self, begun: str = "") -> None:
        """Open the prompt for a command line that starts with `begun`."""
        self.frame.ask(":", begun, done=self.commander.line, complete=self.commander.complete)

    def copy(self, text: str) -> None:
        """Copy a text to the operator's clipboard, with control characters made visible."""
        if not text:
            return
        shown = safe_text(text)
        driver = self._driver
        way = clipboard.copy(shown, driver.write if driver is not None else lambda _: None, self.options.environ)
        self.say(f"copied by {way}: {shown}" if way else "Too long to copy; press x to export it to a file.")

    def choose_order(self, table: VTable[Any]) -> None:
        """Ask by which column a table is sorted; the column before breaks ties."""
        from rwkvctl.tui.shell.dialogs import Menu

        columns = table.listing.columns
        now = table.listing.sorts[0][0] + 1 if table.listing.sorts else 0

        def chosen(place: int | None) -> None:
            if place == 0:
                table.listing.unsort()
                table.repaint()
            elif place is not None:
                table.sort(place - 1)

        self.push_screen(Menu("Sort by", ["original order", *(column.field for column in columns)], now), chosen)

    def ask_export(self, table: VTable[Any]) -> None:
        """Ask for a file's name, then write what the table shows."""
        if not self.may_save():
            return
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        name = f"rwkvctl-{self.places.here.name}-{table.id}-{stamp}.csv"
        self.frame.ask("x", name, done=lambda text: self._export(table, text))

    def _export(self, table: VTable[Any], name: str) -> None:
        from rwkvctl.tui.widgets.table_export import written

        titles, rows = table.shown()
        path = Path(name).expanduser()
        written(path, titles, rows)
        self.say(f"{len(rows):,} rows written to {path.absolute()}", for_s=15.0)

    def ask_save(self, log: LogView) -> None:
        """Ask for a file's name, then write what a log shows."""
        from rwkvctl.tui.logs.save import save

        if not self.may_save():
            return
        name = f"rwkvctl-{self.places.here.about or 'log'}-{datetime.now(UTC):%Y%m%d-%H%M%S}.log"

        def chosen(text: str) -> None:
            self.run_worker(save(log, Path(text).expanduser(), self.say), group="save")

        self.frame.ask("S", name, done=chosen)

    def action_dispatch(self, *words: str) -> None:
        """Open the dispatch form, with these flags filled in."""
        if self.may_write():
            self.plan_with(words)

    def plan_with(self, words: Sequence[str]) -> None:
        """Open the form of filters. Its plan is shown on the queue's screen, unless it was dispatched at once."""
        self.run_worker(self._plan_with(tuple(words)), group="form", exclusive=True)

    async def _plan_with(self, words: tuple[str, ...]) -> None:
        from rwkvctl.tui.dispatch.form import DispatchForm  # forms are not part of the first frame

        chosen = await self.push_screen_wait(DispatchForm(words))
        if chosen is not None:
            self.go("queue", as_typed(chosen))

    @property
    def commands(self) -> Sequence[str]:
        """Return the last actions as command lines."""
        return self.commander.lines

    def did(self, *words: str) -> None:
        """Record an action as the command that does the same."""
        self.commander.lines.append(as_typed(("rwkvctl", *words)))
