"""`--run-log-dir`: links to the logs of jobs in a folder that is named at dispatch.

The daemon makes folders and links with its own rights. So its users may only name folders under `log_link_dirs`, and
below those no link is followed: a user who can write there could make it lead anywhere.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_daemon.changes import caller
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.host.shown_files import is_trusted
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.requests import Selection

LONGEST_NAME: Final = 255
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def checked(records: Records, selection: Selection) -> str:
    """Return the folder of a selection without links, as its jobs store it. Raises SelectionError for a folder that
    whoever asks may not use."""
    given = selection.run_log_dir
    if not given:
        return ""
    if not given.startswith("/") or "\0" in given:
        raise SelectionError(f"--run-log-dir must be an absolute path, not {given!r}.")
    if is_trusted(caller.caller().uid):
        return os.path.realpath(given)
    path = os.path.normpath(given)
    if root_of(records, Path(path)) is None:
        roots = records.config.settings.log_link_dirs
        remedy = f"under {roots}" if roots else "none, as the daemon's setting log_link_dirs is empty"
        raise SelectionError(f"--run-log-dir {given}: folders for links to logs must lie {remedy}.")
    return path


def root_of(records: Records, path: Path) -> Path | None:
    """Return the folder of the setting that contains a path; None if there is none."""
    roots = (Path(root) for root in records.config.settings.log_link_dirs.split(":") if root.startswith("/"))
    return next((root for root in roots if path.is_relative_to(root)), None)


def link(records: Records, job: JobRow, target: Path) -> None:
    """Link an attempt's log under a name that says what it is of. A failure is only logged."""
    if not job.run_log_dir:
        return
    name = f"{job.name}_{job.model}_{job.benchmark}_{job.kind}".replace("/", "_")
    try:
        with folder(records, Path(job.run_log_dir)) as descriptor:
            replace_link(descriptor, f"{fitted(name)}.log", target, records.config.runs_dir)
    except (OSError, ValueError) as error:
        log.warning("%s: no link in --run-log-dir: %s", job.name, error)


def fitted(name: str) -> str:
    """Cut a name to the bytes that a file name may have."""
    return name.encode()[: LONGEST_NAME - len(".log")].decode(errors="ignore")


@contextlib.contextmanager
def folder(records: Records, path: Path) -> Iterator[int]:
    """Open the folder, which is made if missing; only the root it lies in may be a link. Raises OSError."""
    root = root_of(records, path) or Path("/")
    with contextlib.ExitStack() as opened:
        descriptor = os.open(root, FOLDER)
        opened.callback(os.close, descriptor)
        for name in path.relative_to(root).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
            descriptor = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            opened.callback(os.close, descriptor)
        yield descriptor


def replace_link(folder: int, name: str, target: Path, runs_dir: Path) -> None:
    """Put a link there, in place of an earlier one of ours; any other file of that name is left alone. Raises
    OSError."""
    with contextlib.suppress(OSError):
        if Path(os.readlink(name, dir_fd=folder)).is_relative_to(runs_dir):
            os.unlink(name, dir_fd=folder)
    os.symlink(target, name, dir_fd=folder)
