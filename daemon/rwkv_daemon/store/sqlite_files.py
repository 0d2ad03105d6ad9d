"""SQLite files as wholes: copying one while it is in use, checking one that may be anything, setting one aside."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_daemon.store.interface import StoreDamagedError
from rwkv_daemon.store.sqlite_open import unusable
from rwkv_daemon.store.wall_time import now

COMPANIONS: Final = ("", "-wal", "-shm")
"""The files that belong together: without its log, a SQLite file is an older state of itself."""


def copy_file(source: Path, target: Path) -> None:
    """Copy a file as of one moment, also while a daemon writes; the target is complete or does not exist. Raises
    StoreDamagedError, OSError."""
    with new_file(target) as made, refused(source), contextlib.closing(sqlite3.connect(source)) as db:
        db.execute("VACUUM INTO ?", (str(made),))


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a path at which to make a store; if it is whole afterwards, it is renamed to the target."""
    made = target.with_name(f".{target.name}.new")
    remove(made)
    try:
        yield made
        if problem := problem_of_file(made):
            raise StoreDamagedError(f"the copy of the store in {target.parent} is not whole ({problem}); try again.")
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(target)
    finally:
        remove(made)
    sync_folder(target.parent)


def problem_of_file(path: Path) -> str:
    """Return what SQLite finds wrong in a file; empty if it is whole."""
    try:
        with contextlib.closing(sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True)) as db:
            said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if said == "ok" else said


def problems_of(path: Path) -> list[str]:
    """Return what SQLite finds wrong in a file that may be in use: pages, indexes and references. Takes minutes if it
    is large."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)") if row[0] != "ok"]
            lost = db.execute("PRAGMA foreign_key_check").fetchmany(5)
    except sqlite3.Error as error:
        return [str(error)]
    return found + [f"a row of {row[0]} refers to a {row[2]} that is not there" for row in lost]


def jobs_in_file(path: Path) -> int | None:
    """Return how many jobs a file holds; 0 if there is none, None if that cannot be read."""
    if not path.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT COUNT(*) FROM job").fetchone()[0])
    except sqlite3.Error:
        return None


def set_aside(path: Path, why: str) -> Path:
    """Rename a file, with its companions, to a name that says why; returns its new path."""
    stamp = now().replace(":", "").replace(".", "")
    aside = path.with_name(f"{path.stem}.{why}-{stamp}{path.suffix}")
    for companion in COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + companion).rename(aside.with_name(aside.name + companion))
    sync_folder(path.parent)
    return aside


def remove(path: Path) -> None:
    """Delete a file with its companions, if it exists."""
    for companion in COMPANIONS:
        path.with_name(path.name + companion).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def refused(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as StoreDamagedError with a sentence about the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreDamagedError(unusable(path, error)) from error
