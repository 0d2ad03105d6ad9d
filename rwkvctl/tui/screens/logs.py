"""Logs: of jobs, of engines, of the daemon, one or several merged; followed while the screen is shown."""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.worker import Worker

from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.logs.feed import TAIL, EventFeed, LogFeed
from rwkvctl.tui.logs.merge import LogMerge
from rwkvctl.tui.logs.sources import DAEMON, sources, targets
from rwkvctl.tui.logs.view import FLUSH_S, LogView
from rwkvctl.tui.screen import ConsoleScreen

FOLLOWED: Final = 4
"""Logs at once where the newest job is followed: those of earlier ones are let go."""


class Logs(ConsoleScreen):
    """Logs of jobs, engines and the daemon, one or several merged, followed while the screen is shown."""

    NAME = "logs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "source", "Source…"),
        Binding("z", "fold", "Fold repeats"),
        Binding("at", "time", "Time", key_display="@"),
        Binding("S", "export", "Save…", key_display="S"),
    ]

    def body(self) -> Iterable[Widget]:
        self.view = LogView(id="log")
        self.merge = LogMerge(self.view.store)
        self.feeds: dict[str, LogFeed | EventFeed] = {}
        self.tasks: dict[str, Worker[None]] = {}
        self.shown: str | None = None
        yield self.view

    def on_mount(self) -> None:
        """Start the timer that merges log lines in order before they are drawn."""
        self.set_interval(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self.merge.flush()

    def arrive(self, about: str) -> None:
        """Follow a log again; another one starts anew."""
        super().arrive(about)
        if about != self.shown:
            self.shown = about
            self._end()
            self.feeds.clear()
            self.view.clear()
            self.merge = LogMerge(self.view.store)

    def leave(self) -> None:
        """Stop following; what has been read stays."""
        self._end()

    def _end(self) -> None:
        for worker in self.tasks.values():
            worker.cancel()
        self.tasks.clear()

    def path(self) -> list[str]:
        return ["Logs", self.about or "newest"]

    def command(self) -> str:
        names = [name for name in self.feeds if name != DAEMON] or [DAEMON]
        return f"rwkvctl logs {names[-1]} -f"

    def draw(self, state: ConsoleState) -> None:
        self.view.stale = bool(state.problem)
        self._follow()

    def _follow(self) -> None:
        """Follow the chosen sources; a job that has just started is added."""
        wanted = targets(self.about, self.console_app.state)
        for name in wanted:
            if name not in self.tasks:
                self.tasks[name] = self.run_worker(self._feed(name, alone=len(wanted) == 1).follow(), group="logs")
        if not self.about:
            for name in [name for name in self.feeds if name not in wanted][: len(self.feeds) - FOLLOWED]:
                self.tasks.pop(name).cancel()
                self.merge.past_is_told(name)
                del self.feeds[name]
        self.view.called(
            " + ".join(wanted if self.about else [*(name for name in self.feeds if name != DAEMON), DAEMON])
        )

    def _feed(self, name: str, *, alone: bool) -> LogFeed | EventFeed:
        link, merge = self.console_app.link, self.merge
        if name not in self.feeds:
            merge.await_past(name)
            if name == DAEMON:
                caught_up = partial(merge.past_is_told, name)
                self.feeds[name] = EventFeed(link, merge.take_event, merge.note, TAIL, caught_up)
            else:
                self.feeds[name] = LogFeed(link, name, merge, alone=alone)
        return self.feeds[name]

    def action_source(self) -> None:
        """Ask in a menu which source is followed, and follow it."""
        from rwkvctl.tui.shell.dialogs import Menu

        found = sources(self.console_app.state)
        now = next((place for place, source in enumerate(found) if source.name == self.about), 0)

        def chosen(place: int | None) -> None:
            if place is not None:
                self.console_app.go(self.NAME, found[place].name)

        self.console_app.push_screen(Menu("Follow", [source.words for source in found], now), chosen)

    def action_fold(self) -> None:
        """Fold repeated lines into one, or show each again."""
        self.view.action_fold()


SCREEN = Logs
