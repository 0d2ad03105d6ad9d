"""The one way in which tests wait: for a condition, with a long limit, and a sentence that says what was missing.

A limit is no measure of speed: it is what a machine under load may need, and is reached only where something is wrong.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

LIMIT_S = float(os.environ.get("TEST_LIMIT_S", "120"))
"""`make stress` sets a longer one: a niced process beside its eighteen busy ones gets a hundredth of a core."""
LOOK_S = 0.02


def wait_for(
    what: Callable[[], object],
    saying: str,
    log: Callable[[], object] = lambda: "",
    pause: Callable[[], None] = lambda: time.sleep(LOOK_S),
) -> Any:
    """Look until something is true, and return it; fail with a sentence and the log's end."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := what()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {LIMIT_S:g} s in vain until {saying}\n{log()}")
        pause()
    return found


async def soon(what: Callable[[], object], saying: str) -> Any:
    """`wait_for` where the event loop has to go on meanwhile."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := what()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {LIMIT_S:g} s in vain until {saying}")
        await asyncio.sleep(LOOK_S)
    return found
