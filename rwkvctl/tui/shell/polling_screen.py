"""A screen that asks the daemon while it is in front: what it shows comes with no event."""

import asyncio
from typing import ClassVar

from textual.binding import Binding, BindingType

from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.tui.screen import ConsoleScreen


class PollingScreen(ConsoleScreen):
    """Subclasses fetch what they show in `fetch`, keep it, and draw it in `draw`; on another screen nothing is asked.

    While the daemon is gone what is known stays, as stale; the first answer after that is drawn at once.
    """

    EVERY_S: ClassVar[float] = 2.0
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "ask_again", "Refresh now", show=False)]

    known = False
    """Whether anything was ever fetched."""

    async def fetch(self) -> None:
        """Ask, and keep what is said. May raise RwkvctlError."""
        raise NotImplementedError

    def arrive(self, about: str) -> None:
        """Ask the daemon now and then every EVERY_S seconds."""
        super().arrive(about)
        self.action_ask_again()

    def leave(self) -> None:
        """Stop asking the daemon while another screen is in front."""
        self.workers.cancel_group(self, "asking")

    def action_ask_again(self) -> None:
        """Ask now, and then every so often; not on another screen, to which the operator may have gone meanwhile."""
        if self.display:
            self.run_worker(self._asking, group="asking", exclusive=True)

    async def _asking(self) -> None:
        said = ""
        while True:
            try:
                await self.fetch()
                self.known, said = True, ""
                self.console_app.draw()
            except UnreachableError:
                pass  # the top line says it
            except RwkvctlError as error:
                if str(error) != said:
                    said = str(error)
                    self.console_app.say(said, "bad")
            await asyncio.sleep(self.EVERY_S)
