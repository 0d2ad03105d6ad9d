"""The one screen that holds all views: health line, tabs, path, the view, messages, and keys."""

import time
from collections.abc import Sequence
from typing import Final

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Resize
from textual.reactive import Reactive
from textual.widget import Widget

from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui import screens
from rwkvctl.tui.console_app import ConsoleApp, ConsoleFrame, app_of
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.screen import NARROW, SHORT, ConsoleScreen
from rwkvctl.tui.shell.key_bar import KeyBar, keys_of
from rwkvctl.tui.shell.prompt import Prompt, Said
from rwkvctl.tui.shell.status_line import health
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.label_lines import Lines
from rwkvctl.tui.widgets.strips import Pieces, wrapped

SAID_ROWS: Final = 5
LEAST: Final = (80, 24)
"""A terminal smaller than this has no bar of screens."""


class Frame(ConsoleFrame, inherit_bindings=False):
    """Shows one view at a time. Views that have been shown stay mounted, hidden."""

    DEFAULT_CSS = """
    Frame { background: $background; layout: vertical; }
    Frame > #body { height: 1fr; }
    Frame > #said { dock: bottom; margin-bottom: 1; }
    Frame.-dense > #path, Frame.-tiny > #tabs { display: none; }
    Frame .-hidden { display: none; }
    Frame .-whole { height: 1fr; max-height: 100%; }
    """
    AUTO_FOCUS = None
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As Textual's, which paints the whole screen whenever the keys go to another panel."""

    def __init__(self) -> None:
        super().__init__(id="frame")
        self.view: ConsoleScreen | None = None
        self._until = 0.0
        self._said_by_prompt = False

    @property
    def console_app(self) -> ConsoleApp:
        return app_of(self)

    def compose(self) -> ComposeResult:
        yield Lines(id="health")
        yield Lines(id="tabs")
        yield Lines(id="path")
        with Container(id="body"):
            yield self._made(next(iter(TABS)))
        yield Lines(id="said", grows=True)
        yield KeyBar(id="keys")
        yield Prompt()

    def on_mount(self) -> None:
        """Show the first view, and watch for changes of the keys."""
        self._set_density()
        self.query_one("#said").display = False
        self.bindings_updated_signal.subscribe(self, lambda _: self.show_keys())
        self._bring(self.query_one(ConsoleScreen), "")

    @property
    def dense(self) -> bool:
        """Return whether the terminal is lower than SHORT rows or narrower than NARROW columns."""
        size = self.app.size
        return size.height < SHORT or size.width < NARROW

    def on_resize(self, event: Resize) -> None:
        """Choose the density for the new size and repaint everything."""
        self._set_density()
        self.paint(self.console_app.state)

    def _set_density(self) -> None:
        size = self.app.size
        self.set_class(self.dense, "-dense")
        self.set_class(size.width < LEAST[0] or size.height < LEAST[1], "-tiny")
        for view in self.query(ConsoleScreen):
            view.set_class(self.dense, "-dense")

    def show(self, name: str, about: str) -> bool:
        """Bring a view that was shown before to the front, at once: keys typed right behind are for it. Whether there
        is one; one that is being mounted comes by itself."""
        found = next((view for view in self.query(ConsoleScreen) if name == view.NAME), None)
        if found is not None and found.is_mounted:
            with self.app.batch_update():
                self._bring(found, about)
        return found is not None

    async def show_first(self, name: str) -> None:
        """Mount a view, and bring it to the front if that is still where we want to be."""
        body = self.query_one("#body", Container)
        if not body.is_attached:  # a key that came while the console was being left
            return
        with self.app.batch_update():
            view = self._made(name)
            await body.mount(view)
            view.display = False
            here = self.console_app.places.here
            if here.name == name:
                self._bring(view, here.about)

    def _made(self, name: str) -> ConsoleScreen:
        return screens.load(name)(id=f"view-{name}", classes="-dense" if self.dense else None)

    def _bring(self, view: ConsoleScreen, about: str) -> None:
        """Put a mounted view in front in place of the one before."""
        if self.view is not None:
            self.view.last_panel = self.focused
            self.view.leave()
            self.view.display = False
        self.view = view
        view.display = True
        view.arrive(about)
        if self.console_app.places.here.name == view.NAME:
            self.console_app.places.amend(view.about)
        self._focus(view)
        self.paint(self.console_app.state)

    def _focus(self, view: ConsoleScreen) -> None:
        """Give the keys to the panel that had them when the view was left, or to its first one; a view without panels
        has them itself, or its own keys would do nothing."""
        panels = [widget for widget in view.query(Widget) if widget.focusable]
        first = next((panel for panel in panels if panel.id == view.FIRST_PANEL), next(iter(panels), view))
        view.can_focus = first is view
        self.set_focus(view.last_panel if view.last_panel in panels else first, scroll_visible=False)

    def paint(self, state: ConsoleState) -> None:
        """Draw health line, tabs, path and the view in front."""
        view = self.view
        if view is None:
            return
        path = view.path()
        now = time.time()
        said = health(state, now, self.size.width, path if self.dense else ())
        self.query_one("#health", Lines).show([said])
        self.query_one("#tabs", Lines).show([self._tabs(view)])
        self.query_one("#path", Lines).show([view.headline(state)], stale=bool(state.problem))
        view.draw(state)
        if self._until and now > self._until:
            self.hush()

    def _tabs(self, active_view: ConsoleScreen) -> Pieces:
        shown = {name: tab for name, tab in TABS.items() if tab.key}
        titles, gap = [tab.title for tab in shown.values()], " "
        if sum(len(title) + 3 for title in titles) > self.size.width:
            gap, room = "", self.size.width - 2 * len(titles)
            titles = abbreviated(titles, room, list(shown).index(active_view.NAME) if active_view.NAME in shown else -1)
        pieces: list[tuple[str, str]] = []
        for (name, tab), title in zip(shown.items(), titles, strict=True):
            role = "accent" if name == active_view.NAME else "dim"
            pieces += [(f" {tab.key}", role if role == "accent" else "title"), (f"{title}{gap}", role)]
        return pieces

    def show_keys(self) -> None:
        """Show the keys that act now."""
        if self.is_attached:
            self.query_one("#keys", KeyBar).show(keys_of(list(self.active_bindings.values())))

    # -- sentences -------------------------------------------------------------------------------------------------

    def say(self, texts: Sequence[str], role: str = "", for_s: float = 8.0) -> None:
        """Show sentences above the keys in full, for some seconds or until the next ones."""
        width = max(20, self.size.width - 2)
        rows = [row for text in texts for row in wrapped([(text, role)], width)][:SAID_ROWS]
        shown = self.query_one("#said", Lines)
        shown.show([[(" ", ""), *row] for row in rows])
        shown.display = True
        self._until = time.time() + for_s

    def hush(self) -> None:
        """Hide the sentences above the keys."""
        self._until = 0.0
        self.query_one("#said").display = False

    # -- the prompt ------------------------------------------------------------------------------------------------

    def ask(self, sign: str, value: str = "", *, changed: Said | None = None, done: Said | None = None,
            complete: Said | None = None) -> None:  # fmt: skip
        """Open the prompt in place of the key bar; `sign` stands before it and `value` is its first text."""
        self.query_one("#keys").display = False
        self.prompt.ask(sign, value, changed, done, complete)

    @property
    def active_view(self) -> ConsoleScreen | None:
        return self.view

    @property
    def active_view_name(self) -> str:
        return self.view.NAME if self.view is not None else ""

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    def on_prompt_misunderstood(self, message: Prompt.Misunderstood) -> None:
        """Show why the prompt's text cannot be read, or clear that message."""
        if message.sentence:
            self.say([safe_line(message.sentence)], "bad")
        elif self._until and self._said_by_prompt:
            self.hush()
        self._said_by_prompt = bool(message.sentence)

    def on_prompt_closed(self, message: Prompt.Closed) -> None:
        """Show the key bar again, which the prompt had replaced."""
        self.query_one("#keys").display = True


def abbreviated(titles: Sequence[str], room: int, active_view: int) -> list[str]:
    """Titles that fit into so many cells: the longest loses a letter until they do, never the one in front."""
    found = list(titles)
    while sum(map(len, found)) > room:
        longest = max((place for place in range(len(found)) if place != active_view), key=lambda n: (len(found[n]), n))
        found[longest] = found[longest][:-1]
    return found
