"""What every screen is: a NAME, widgets, and a way to draw the state into them.

A screen is one file in `tui/screens`, and a line in `tui/tabs.py`. It is mounted when it is first shown and
stays. All of them lie in one frame, so going from one to another paints what differs and nothing else.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widget import Widget

from rwkvctl.tui.console_app import ConsoleApp, app_of
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.shell.screen_workers import ScreenWorkers
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import VTable

Panel = VTable | LogView  # type: ignore[type-arg]

SHORT: Final = 32
"""Below so many lines, and below `NARROW` columns, a screen is dense: no path line, fewer panels."""
NARROW: Final = 100


class ConsoleScreen(ScreenWorkers):
    """A screen of the console. Subclasses say what they are, compose `body`, and draw the state in `draw`.

    It has the class `-dense` on a small terminal. Actions that write go through `console_app.may_write`.
    """

    NAME: ClassVar[str]
    DEFAULT_CSS = "ConsoleScreen { height: 1fr; layout: vertical; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("ampersand", "search", "Search without hiding", show=False, key_display="&"),
        Binding("at", "time", "Go to a time", show=False, key_display="@"),
        Binding("x", "export", "Export…", show=False),
        Binding("tab", "app.focus_next", "Next panel", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous panel", show=False),
        Binding("o", "order", "Sort…", show=False),
        Binding("h", "column(-1)", "Column to the left", show=False),
        Binding("l", "column(1)", "Column to the right", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("Y", "copy_command", "Copy as command", show=False, key_display="Y"),
        Binding("z", "zoom", "Zoom panel", show=False),
    ]

    FIRST_PANEL: ClassVar[str] = ""
    """The id of the panel that has the keys at first; empty: the first one."""

    last_panel: Widget | None = None
    about = ""
    """What is shown: a job's id, a model; empty where the screen is about everything."""

    @property
    def console_app(self) -> ConsoleApp:
        return app_of(self)

    def compose(self) -> ComposeResult:
        yield from self.body()

    def body(self) -> Iterable[Widget]:
        """Yield the widgets between the path and the keys."""
        raise NotImplementedError

    def draw(self, state: ConsoleState) -> None:
        """Show the state in the widgets of the body."""
        raise NotImplementedError

    def on_resize(self, event: Resize) -> None:
        """Draw the screen for its new size."""
        self.draw(self.console_app.state)

    def arrive(self, about: str) -> None:
        """Called when the screen comes to the front; `about` is what it shows."""
        self.about = about

    def amend_place(self, about: str) -> None:
        """Note that something else is shown. In the history that replaces what was, unless another screen is about to
        be shown."""
        self.about = about
        if self.console_app.places.here.name == self.NAME:
            self.console_app.places.amend(about)

    def leave(self) -> None:
        """Called when another screen comes to the front; work that only serves the display may stop."""

    def start(self, group: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a worker of a group, cancelling the one before. It takes a callable, since a coroutine that is cancelled
        before it starts causes a warning."""
        self.run_worker(work, group=group, exclusive=True)

    def path(self) -> list[str]:
        """Return the path for the line above the body; empty if the tab says everything."""
        return [TABS[self.NAME].title]

    def headline(self, state: ConsoleState) -> Pieces:
        """Return the line above the body, shown on terminals with room for it."""
        return [(" " + " › ".join(self.path()), "title")]

    def command(self) -> str:
        """Return the command line that shows or does the same in a shell."""
        return f"rwkvctl {self.NAME}"

    @property
    def panel(self) -> Panel | None:
        """Return the list or log that keys act on."""
        focused = self.screen.focused
        if isinstance(focused, (VTable, LogView)) and self in focused.ancestors:
            return focused
        found = (widget for widget in self.query(Widget) if isinstance(widget, (VTable, LogView)) and widget.focusable)
        return next(found, None)

    def targets_in(self, table: "VTable[Any]") -> list[str]:
        """Return the keys of the rows of a table that a key acts on; if there are none, tell the operator why."""
        found = table.targets
        if not found:
            self.console_app.say(table.why_no_row, "warn")
        return found

    def on_vtable_no_row(self, message: VTable.NoRow) -> None:
        """Tell the operator why the key did nothing."""
        message.stop()
        self.console_app.say(message.table.why_no_row, "warn")

    def action_filter(self) -> None:
        """Ask for a filter; the list follows every letter."""
        panel = self.panel
        if panel is not None:
            self.console_app.frame.ask("/", panel.filter_text, changed=panel.filter, done=panel.filter)
            if isinstance(panel, VTable):
                self.call_after_refresh(panel.listing.searched)  # before the first letter comes

    def action_search(self) -> None:
        """Ask what to search for in a log; `n` and `N` repeat the search."""
        panel = self.panel
        if isinstance(panel, LogView):
            self.console_app.frame.ask("&", panel.search.text if panel.search else "", done=self._search)

    def _search(self, text: str) -> None:
        panel = self.panel
        if isinstance(panel, LogView):
            panel.find(text)

    def on_log_view_missed(self, message: LogView.Missed) -> None:
        """Tell the operator that the search found no further line in this direction."""
        self.console_app.say(f"no more lines with {message.what} in this direction", "warn")

    def action_time(self) -> None:
        """Ask for a time and go there in the log."""
        if isinstance(self.panel, LogView):
            self.console_app.frame.ask("@", "", done=self._go_to_time)

    def _go_to_time(self, text: str) -> None:
        panel = self.panel
        if isinstance(panel, LogView) and text and not panel.go_to_time(text):
            raise ValueError(f"{text}: no line is that late, or this is not a time (02:58, 02:58:41)")

    def action_order(self) -> None:
        """Open the menu of columns to sort the table by, if the panel is one."""
        if isinstance(self.panel, VTable):
            self.console_app.choose_order(self.panel)

    def action_column(self, by: int) -> None:
        """Move to another column of a table, or scroll a log sideways by 20 cells."""
        if isinstance(self.panel, VTable):
            self.panel.action_column(by)
        elif isinstance(self.panel, LogView):
            self.panel.action_sideways(20 * by)

    def action_copy(self) -> None:
        """Copy the cell under the cursor, or the line at the top of a log."""
        panel = self.panel
        if isinstance(panel, VTable) and not panel.chosen:
            self.console_app.say(panel.why_no_row, "warn")
        elif panel is not None:
            self.console_app.copy(panel.copied())

    def action_copy_command(self) -> None:
        """Copy the shell command for the same as it is displayed, so that nothing invisible is pasted."""
        self.console_app.copy(self.command())

    def action_export(self) -> None:
        """Ask for a file's name and write there what the list or the log shows."""
        if isinstance(self.panel, VTable):
            self.console_app.ask_export(self.panel)
        elif isinstance(self.panel, LogView):
            self.console_app.ask_save(self.panel)

    def action_zoom(self) -> None:
        """Give the whole body to the focused panel, or restore the others."""
        focused = self.panel
        others = [child for child in self.children if focused is None or child not in (focused, *focused.ancestors)]
        zoomed = self.has_class("-zoomed")
        for child in others:
            child.set_class(not zoomed, "-hidden")
        self.set_class(not zoomed, "-zoomed")
        if focused is not None:
            focused.set_class(not zoomed, "-whole")

    @property
    def narrowed(self) -> bool:
        """Return whether `back` has something to undo on this screen before it leaves it."""
        panel = self.panel
        marked = isinstance(panel, VTable) and bool(panel.listing.marks)
        return self.has_class("-zoomed") or marked or (panel is not None and bool(panel.filter_text))

    def action_back(self) -> None:
        """Undo the zoom, the filter or the marks; else go back to the screen before."""
        panel = self.panel
        if self.has_class("-zoomed"):
            self.action_zoom()
        elif panel is not None and panel.filter_text:
            panel.filter("")
        elif isinstance(panel, VTable) and panel.listing.marks:
            panel.action_unmark()
        else:
            self.console_app.action_history(-1)
