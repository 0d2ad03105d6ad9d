"""One task keeps the state up to date: the whole picture first, then events, again after every loss."""

import random
import time
from collections.abc import Callable
from typing import Final

import msgspec

from rwkvctl.protocol.errors import RwkvctlError, UnreachableError
from rwkvctl.protocol.replies import StatusReply
from rwkvctl.protocol.requests import EventsRequest, StatusRequest
from rwkvctl.tui.daemon.client import Link
from rwkvctl.tui.daemon.state import ConsoleState

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
JOBS: Final = 500
LOOK_S, LEAST_S, SHARE = 10.0, 1.0, 20.0
"""Data without events (ETAs, expected starts) is asked for again at this age, or when an event makes a change likely,
but not more often than that, and not before twenty times the time that the last answer took: a line may be slow."""

AHEAD: Final = 60
"""Jobs that wait, of which that is asked: those that are seen."""

FORESEEN: Final = frozenset({"pause", "session", "store"})
"""Events after which that is another at once."""

HISTORY: Final = 20
"""Events from before the console started that it shows."""


async def feed(link: Link, state: ConsoleState, draw: Callable[[], None]) -> None:
    """For ever: connect, follow, and when the daemon goes away, try again ever less often.

    `draw` is called for what an operator should see at once: a whole new picture, or its loss.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            await follow(link, state, draw)
            problem = "the daemon closed the event stream"
        except (RwkvctlError, msgspec.ValidationError) as error:
            problem = str(error)
        if not state.problem:
            pause_s = FIRST_PAUSE_S
        wait_s = pause_s * random.uniform(0.8, 1.2)
        state.lose(problem, time.time(), time.time() + wait_s)
        draw()
        await link.pause(wait_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 1.6)


async def follow(link: Link, state: ConsoleState, draw: Callable[[], None]) -> None:
    """Load the whole picture, then take in events until the connection ends."""
    status = await link.ask(StatusRequest(limit=JOBS), StatusReply)
    if status.last_event < state.seq:
        state.seq = 0  # a new store: its numbers begin again
        state.scores.forget()
    since = state.seq or max(0, status.last_event - HISTORY)
    state.load(status, time.time())
    draw()
    not_before, late, due = 0.0, time.monotonic() + LEAST_S, False
    async for event in link.events(EventsRequest(since=since)):
        state.time(event, time.time())
        state.hear(event)
        began = time.monotonic()
        due = due or event.kind in FORESEEN or began > late
        if due and began > not_before:
            due = not state.refresh(await link.ask(StatusRequest(limit=AHEAD), StatusReply))
            late = time.monotonic() + LOOK_S
            not_before = time.monotonic() + max(LEAST_S, SHARE * (time.monotonic() - began))
    raise UnreachableError("lost the connection to the daemon")
