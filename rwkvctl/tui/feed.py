"""One task keeps the state up to date: the whole picture first, then events, again after every loss."""

import asyncio
import random
import time
from typing import Final

import msgspec

from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.protocol.messages import StatusReply, StatusRequest
from rwkvctl.tui.link import Link
from rwkvctl.tui.state import ConsoleState

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
JOBS: Final = 500


async def feed(link: Link, state: ConsoleState) -> None:
    """For ever: connect, follow, and when the daemon goes away, try again ever less often."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            await follow(link, state)
            problem = "the daemon closed the event stream"
        except (RwkvctlError, msgspec.ValidationError) as error:
            problem = str(error)
        if not state.problem:
            pause_s = FIRST_PAUSE_S
        state.lose(problem)
        await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
        pause_s = min(LONGEST_PAUSE_S, pause_s * 1.6)


async def follow(link: Link, state: ConsoleState) -> None:
    """Load the whole picture, then take in events until the connection ends."""
    status = await link.ask(StatusRequest(limit=JOBS), StatusReply)
    if status.last_event < state.seq:
        state.seq = 0  # a new store: its numbers begin again
    state.load(status, time.time())
    async for event in link.events(state.seq):
        state.hear(event)
    raise UnreachableError("the daemon went away")
