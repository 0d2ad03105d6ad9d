"""Whether a process has a writable temporary folder. Engines need one: torch looks for one when it is imported."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NONE: Final = "no temporary folder can be written, and no engine starts without one"


def writable(candidates: Iterable[Path]) -> Path | None:
    """Return the first of these folders in which a file can be made and written; None if there is none. Checks each
    time: the folder that `tempfile.gettempdir` found once may be full, read-only or gone by now."""
    return next((folder for folder in candidates if takes_a_file(folder)), None)


def takes_a_file(folder: Path) -> bool:
    """Return whether a file of some bytes can be made there."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="rwkvctl-") as file:
            file.write(b"whether there is room")
            file.flush()
    except OSError:
        return False
    return True
