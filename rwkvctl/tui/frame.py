"""The one screen that all views lie in: health on top, tabs, the path, the view, what was said, and keys."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.events import Resize
from textual.reactive import Reactive
from textual.screen import Screen

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.tui.base import NARROW, SHORT, ConsoleScreen
from rwkvctl.tui.health import health
from rwkvctl.tui.keybar import KeyBar, keys_of
from rwkvctl.tui.lines import Lines
from rwkvctl.tui.prompt import Prompt, Said
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.strips import Pieces, wrapped

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console

TYPED_KEPT: Final = 100


class Frame(Screen[None], inherit_bindings=False):
    """Shows one view at a time. Views that have been shown stay mounted, hidden."""

    DEFAULT_CSS = """
    Frame { background: $background; layout: vertical; }
    Frame > #body { height: 1fr; }
    Frame > #said { dock: bottom; margin-bottom: 1; }
    Frame > #ask { dock: bottom; height: 1; }
    Frame #sign { width: 3; }
    Frame.-dense > #tabs, Frame.-dense > #path { display: none; }
    Frame .-hidden { display: none; }
    Frame .-whole { height: 1fr; max-height: 100%; }
    """
    AUTO_FOCUS = None
    focused = Reactive(None, repaint=False)
    """As Textual's, which paints the whole screen whenever the keys go to another panel."""

    def __init__(self, views: list[type[ConsoleScreen]]) -> None:
        super().__init__(id="frame")
        self.kinds = {view.NAME: view for view in views}
        self.view: ConsoleScreen | None = None
        self.typed: dict[str, list[str]] = {}
        self._until = 0.0

    @property
    def console_app(self) -> "Console":
        """The app, by its own type."""
        return self.app  # type: ignore[return-value]

    def compose(self) -> ComposeResult:
        yield Lines(id="health")
        yield Lines(id="tabs")
        yield Lines(id="path")
        with Container(id="body"):
            yield self._made(next(iter(self.kinds)))
        yield Lines(id="said", grows=True)
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Show the first view; keys are shown as they change."""
        self.set_class(self.dense, "-dense")
        self.query_one("#said").display = False
        self.bindings_updated_signal.subscribe(self, lambda _: self.show_keys())
        self._bring(self.query_one(ConsoleScreen), "")

    @property
    def dense(self) -> bool:
        """Whether the terminal is small."""
        size = self.app.size
        return size.height < SHORT or size.width < NARROW

    def on_resize(self, event: Resize) -> None:
        """Other panels may fit now."""
        self._set_density()
        self.paint(self.console_app.state)

    def _set_density(self) -> None:
        self.set_class(self.dense, "-dense")
        for view in self.query(ConsoleScreen):
            view.set_class(self.dense, "-dense")

    async def show(self, name: str, about: str) -> None:
        """Bring a view to the front; it is mounted the first time."""
        before = self.view
        body = self.query_one("#body", Container)
        found = next((view for view in self.query(ConsoleScreen) if name == view.NAME), None)
        with self.app.batch_update():
            if before is not None:
                before.last_panel = before.panel
                before.leave()
                before.display = False
            if found is None:
                found = self._made(name)
                await body.mount(found)
            self._bring(found, about)

    def _made(self, name: str) -> ConsoleScreen:
        return self.kinds[name](id=f"view-{name}", classes="-dense" if self.dense else None)

    def _bring(self, view: ConsoleScreen, about: str) -> None:
        """Put a view that is mounted in front."""
        self.view = view
        view.display = True
        view.arrive(about)
        self._focus(view)
        self.paint(self.console_app.state)

    def _focus(self, view: ConsoleScreen) -> None:
        """Give the keys to the panel that had them when the view was left, or to its first one."""
        panels = view.panels()
        first = next((panel for panel in panels if panel.id == view.FIRST_PANEL), next(iter(panels), None))
        panel = view.last_panel if view.last_panel in panels else first
        self.set_focus(panel, scroll_visible=False)

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

    def _tabs(self, front: ConsoleScreen) -> Pieces:
        pieces: list[tuple[str, str]] = []
        for kind in self.kinds.values():
            if kind.KEY:
                role = "accent" if kind.NAME == front.NAME else "dim"
                pieces += [(f" {kind.KEY}", role if role == "accent" else "title"), (f"{kind.TITLE} ", role)]
        return pieces

    def show_keys(self) -> None:
        """Show the keys that are at hand now."""
        if self.is_attached:
            self.query_one("#keys", KeyBar).show(keys_of(list(self.active_bindings.values())))

    # -- sentences -------------------------------------------------------------------------------------------------

    def say(self, text: str, role: str = "", for_s: float = 8.0) -> None:
        """A sentence above the keys, whole, for some seconds or until the next one."""
        rows = wrapped([(text, role)], max(20, self.size.width - 2))[:5]
        shown = self.query_one("#said", Lines)
        shown.show([[(" ", ""), *row] for row in rows])
        shown.display = True
        self._until = time.time() + for_s

    def hush(self) -> None:
        """Take the sentence away."""
        self._until = 0.0
        self.query_one("#said").display = False

    # -- the prompt ------------------------------------------------------------------------------------------------

    def ask(self, sign: str, value: str = "", *, changed: Said | None = None, done: Said | None = None,
            complete: Said | None = None) -> None:  # fmt: skip
        """Ask for a line of text; one prompt at a time."""
        self.query("#ask").remove()
        prompt = Prompt(self, sign, value, changed=changed, done=done, complete=complete)
        if self.view is not None:
            self.view.last_panel = self.view.panel
        self.query_one("#keys").display = False
        mark = Lines(id="sign")
        mark.show([[(f" {sign}", "accent")]])
        self.mount(Horizontal(mark, prompt, id="ask"))
        self.set_focus(prompt, scroll_visible=False)

    def fill(self, text: str) -> None:
        """Put a completed line into the prompt."""
        for prompt in self.query(Prompt):
            prompt.value = text + prompt.value[prompt.cursor_position :]
            prompt.cursor_position = len(text)

    def answered(self, prompt: Prompt) -> None:
        """Enter was pressed: close, then do it; what is not understood keeps the prompt open."""
        text, done = prompt.value, prompt.done
        if done is None or self.said_of(lambda: done(text)):
            known = self.typed.setdefault(prompt.sign, [])
            if text and text not in known[-1:]:
                self.typed[prompt.sign] = [*known, text][-TYPED_KEPT:]
            if prompt.is_attached:
                self.close_prompt(prompt)

    def said_of(self, act: Callable[[], object]) -> bool:
        """Do something with what was typed; False if it was not understood, which is said."""
        try:
            act()
        except (ValueError, RwkvctlError) as error:
            self.say(str(error), "bad")
            return False
        if self._until:
            self.hush()
        return True

    def close_prompt(self, prompt: Prompt | None = None) -> None:
        """Give the keys back to the view."""
        for old in self.query(Prompt):
            if prompt in {None, old} and old.parent is not None:
                old.parent.remove()  # type: ignore[attr-defined]
        self.query_one("#keys").display = True
        if self.view is not None:
            self._focus(self.view)
