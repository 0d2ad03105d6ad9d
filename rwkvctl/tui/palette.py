"""The palette (ctrl+p): screens, actions of the console, and every verb of the command line from the one registry."""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from rwkvctl.verbs import Verb, load_all

if TYPE_CHECKING:
    from rwkvctl.tui.app import Console


class Verbs(Provider):
    """Finds verbs. One that the console can do is done; of the others it shows what to type in a shell."""

    async def discover(self) -> Hits:
        for verb in load_all():
            yield DiscoveryHit(verb.words, partial(self._chosen, verb), help=verb.summary)

    async def search(self, query: str) -> AsyncIterator[Hit]:
        matcher = self.matcher(query)
        for verb in load_all():
            if (fit := matcher.match(verb.words)) > 0:
                yield Hit(fit, matcher.highlight(verb.words), partial(self._chosen, verb), help=verb.summary)

    async def _chosen(self, verb: Verb) -> None:
        console: Console = self.app  # type: ignore[assignment]
        await console.run_verb(verb)
