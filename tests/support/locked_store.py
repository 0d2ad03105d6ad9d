"""A store that another program locks, as a backup tool or a person with sqlite3 may."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOCK = (
    "import sqlite3, sys\n"
    "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "db.execute('BEGIN IMMEDIATE')\nprint(1, flush=True)\nsys.stdin.read()\n"
)


@contextlib.contextmanager
def locked_store(home: Path) -> Iterator[None]:
    """Nothing can be written to the store of a home meanwhile."""
    argv = [sys.executable, "-c", LOCK, str(home / "store.sqlite")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdin
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()
