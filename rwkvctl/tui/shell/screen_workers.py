"""Workers of a screen or a dialog that goes away while they wait for an answer."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from textual.css.query import NoMatches
from textual.widget import Widget
from textual.worker import Worker


class ScreenWorkers(Widget):
    """A widget that may be closed at any moment of its workers. Textual takes its children away before it ends them:
    one that comes back from the daemon just then finds nothing to draw in, and ends. A child that is missing while
    the widget stays is a fault, and ends the console."""

    def run_worker(self, work: Any, *arguments: Any, **options: Any) -> Worker[Any]:
        """As Textual's, for a coroutine or a function that returns one."""
        return super().run_worker(partial(self._while_it_stays, work), *arguments, **options)

    async def _while_it_stays(self, work: Awaitable[Any] | Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await (work() if callable(work) else work)
        except NoMatches:
            if not self._pruning:
                raise
            return None
