"""Waiting for file systems, which may never answer."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

ANSWER_S: Final = 20.0
"""A file system that takes longer is not waited for."""
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


async def within(
    limit_s: float, ask: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs
) -> Answer | None:
    """Return what a function says that asks a file system, in a thread; None if it takes too long."""
    asking = asyncio.ensure_future(asyncio.to_thread(ask, *given, **named))
    done, _ = await asyncio.wait([asking], timeout=limit_s)
    return asking.result() if done else None
