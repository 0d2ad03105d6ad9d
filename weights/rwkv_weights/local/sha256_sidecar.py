"""`FILE.sha256` beside a checkpoint: what its sha256 is to be, as `sha256sum --check` reads it.

It travels with the file. A download writes it; `verify` compares with it.
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from rwkv_weights.local.checkpoint_files import open_plain

LONGEST: Final = 4096
_LINE: Final = re.compile(r"\\?([0-9a-fA-F]{64})(?:[ \t].*)?", re.DOTALL)


def of(path: Path) -> Path:
    """Return the path of the `.sha256` file that belongs to a checkpoint file."""
    return path.with_name(f"{path.name}.sha256")


def read(path: Path) -> str:
    """The sum written beside a file; empty if there is none to be read."""
    try:
        with open_plain(of(path), beside=True) as file:
            found = _LINE.match(file.read(LONGEST).decode(errors="replace").lstrip())
    except OSError:
        return ""
    return found[1].lower() if found else ""


def write(path: Path, sha256: str) -> None:
    """Write it whole or not at all, for whoever may read the file. Raises OSError."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".sha256.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(f"{sha256}  {path.name}\n")
            file.flush()
            os.fchmod(file.fileno(), path.stat().st_mode & 0o644)
            temporary.replace(of(path))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
