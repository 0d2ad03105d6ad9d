"""Writes what a log shows to a file, piece by piece, so that a million lines hold up no key."""

import asyncio
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rwkvctl.export.output import whole_file
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.sanitize import safe_text
from rwkvctl.tui.logs.lines import SGR
from rwkvctl.tui.logs.view import LogView

STEP_LINES: Final = 5000


async def save(log: LogView, path: Path, say: Callable[..., None]) -> None:
    """Write the lines that a log shows now into a file that was not there; lines that are given up meanwhile are not
    in it. Control sequences are written as marks: somebody will `cat` the file."""
    store, scan = log.store, log.places.scan
    numbers: range | array[int] = range(store.first, store.end) if scan is None else scan.hits[:]
    count = 0
    try:
        with whole_file(path, force=False) as file:
            for start in range(0, len(numbers), STEP_LINES):
                kept = [number for number in numbers[start : start + STEP_LINES] if number >= store.first]
                texts = (SGR.sub("", store.line(number).decode(errors="replace")) for number in kept)
                file.write("".join(f"{safe_text(text)}\n" for text in texts))
                count += len(kept)
                await asyncio.sleep(0)
    except RwkvctlError as error:
        say(str(error), "bad")
    else:
        say(f"{count:,} lines written to {path.absolute()}", for_s=15.0)
