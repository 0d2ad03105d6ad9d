"""The palette (ctrl+p): screens, keys of the screen in front, jobs, and every verb of the command line."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.markup import escape

from rwkvctl.cli.registry import load_all
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.console_app import ConsoleApp, app_of
from rwkvctl.tui.shell.key_bar import keys_of
from rwkvctl.tui.tabs import TABS

JOBS: Final = 200


class PaletteEntry(NamedTuple):
    """An entry of the palette: its words, its kind, and its action."""

    words: str
    help: str
    act: Any


class PaletteEntries(Provider):
    """All entries, found by a few letters of their names. Model names are never read as markup."""

    @property
    def console(self) -> ConsoleApp:
        return app_of(self)

    def choices(self) -> Iterator[PaletteEntry]:
        """Screens first, then the keys at hand, then jobs, then verbs."""
        console = self.console
        for name, tab in TABS.items():
            yield PaletteEntry(f"go to {tab.title}", f"screen, key {tab.key or '–'}", partial(console.go, name))
        for key, name, words in keys_of(list(self.screen.active_bindings.values())):
            yield PaletteEntry(words, f"key {name}", partial(console.simulate_key, key))
        state = console.state
        for job in (state.running + state.waiting + state.ended)[:JOBS]:
            words = safe_line(f"{job.id} {job.model} {job.benchmark} {job.kind}")
            yield PaletteEntry(words, f"job, {job.state}", partial(console.go, "job", job.id))
        for verb in load_all():
            yield PaletteEntry(f":{verb.words}", verb.summary, partial(console.action_command, verb.words + " "))

    async def discover(self) -> Hits:
        for choice in self.choices():
            yield DiscoveryHit(Content(choice.words), choice.act, choice.words, escape(choice.help))

    async def search(self, query: str) -> AsyncIterator[Hit]:
        matcher = self.matcher(query)
        for choice in self.choices():
            if (fit := matcher.match(choice.words)) > 0:
                yield Hit(fit, Content(choice.words), choice.act, choice.words, escape(choice.help))
