"""Files and folders that appear together, each whole, or not at all; never in the place of others unless that is asked.

They are written in a hidden folder beside their place, and flushed. The renaming of that folder decides: before it
nothing was written, after it everything was, and what is left to do is to give each its name, the last path last. A
process that is killed on the way leaves the folder; whoever writes or verifies the same path next (`finish_writing`)
removes it or gives the names that are missing.

So a path is there only when those before it are, and a killed process never leaves less than the old or the new. A
single folder appears in one step. No file system gives several names in one step: between two of them, and until the
next look if the process is killed just there, a file may stand beside those that belong to an older one, if older ones
are replaced.
"""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.crash_points import crash_point
from rwkvctl.protocol.errors import Exit, RefusedError

_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""
_WRITING: Final = ".writing"
_WHOLE: Final = {False: ".whole", True: ".replacing"}
"""How the hidden folder is called once everything is in it: whether its files may replace others."""
_OLD: Final = ".old"


@contextlib.contextmanager
def whole_files(paths: Sequence[Path], *, replace: bool) -> Iterator[list[IO[bytes]]]:
    """Yield a file for each path. When the block ends well they get their names; after an error none of them is there.
    Raises RefusedError if something has one of the names already."""
    with whole_paths(paths, replace=replace) as places, contextlib.ExitStack() as stack:
        yield [stack.enter_context(place.open("wb")) for place in places]


@contextlib.contextmanager
def whole_paths(paths: Sequence[Path], *, replace: bool) -> Iterator[list[Path]]:
    """Yield a place for each path, all of one folder, where a file or a folder is to be made. When the block ends well
    they get their names; after an error none of them is there. Raises RefusedError if something has one of the names
    already or another process is just giving them, and PrepareError if the system fails."""
    main, committed = paths[-1], False
    try:
        finish_writing(main)
        _refuse(paths, replace=replace)
        with hidden_folder(main) as folder:
            crash_point("whole-before-writing")
            yield [folder / path.name for path in paths]
            crash_point("whole-before-flush")
            _flush(folder)
            crash_point("whole-before-commit")
            _refuse(paths, replace=replace)
            _refuse_other_kinds(folder, main)
            whole = folder.rename(_beside(main, _WHOLE[replace]))
            committed = replace
            _sync(main.parent)
            crash_point("whole-after-commit")
            _give_names(whole, main, replace=replace)
    except OSError as error:
        names, why = " and ".join(map(str, paths)), error.strerror or error
        if committed:
            raise PrepareError(f"{names} lie whole in {_beside(main, _WHOLE[True])}, and could not all be put in their "
                               f"place: {why}; write or verify {main} again to finish") from error  # fmt: skip
        raise PrepareError(f"{names} cannot be written: {why}; nothing was") from error


def finish_writing(main: Path) -> None:
    """Bring what a killed process left of a writing to its end: nothing, or everything. `main` is its last path. Raises
    RefusedError if another process is giving the names right now, and OSError."""
    for folder in filter(_is_ours, main.parent.glob(f"{_escaped(_beside(main, '').name)}.*{_WRITING}")):
        with contextlib.suppress(RefusedError, FileNotFoundError), _lock(folder, main):  # a locked one is being written
            _remove(folder)
    for replace, end in _WHOLE.items():
        whole = _beside(main, end)
        if _is_ours(whole):
            with _lock(whole, main), contextlib.suppress(RefusedError):  # a name was taken meanwhile: then nothing
                _give_names(whole, main, replace=replace)


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder that this user made: what another one laid there is neither removed nor named."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def refuse_existing(path: Path, *, replace: bool = False) -> None:
    """Raise RefusedError if something has that name; with `replace`, if it is neither a plain file nor a link."""
    if replace:
        if os.path.lexists(path) and not path.is_symlink() and not path.is_file():
            raise RefusedError("no-file", f"{path} is no plain file and was not replaced.", exit_code=Exit.REFUSED)
    elif os.path.lexists(path):
        raise RefusedError(
            "exists", f"{path} already exists and was not changed.", "--replace replaces it.", Exit.REFUSED
        )


def _refuse(paths: Sequence[Path], *, replace: bool) -> None:
    for path in paths:
        if not replace or not path.is_dir():  # a folder may replace a folder: `_refuse_other_kinds`
            refuse_existing(path, replace=replace)


def _refuse_other_kinds(folder: Path, main: Path) -> None:
    """Raise RefusedError if a file would replace a folder, or a folder a file."""
    for part in folder.iterdir():
        path = main.with_name(part.name)
        if path.exists() and path.is_dir() != part.is_dir():
            kinds = ("a folder", "a file") if path.is_dir() else ("a file", "a folder")
            raise RefusedError(
                "exists", f"{path} is {kinds[0]} and cannot be replaced by {kinds[1]}.", "", Exit.REFUSED
            )


def _beside(main: Path, end: str) -> Path:
    return main.with_name(f".{main.name}{end}")


def _escaped(name: str) -> str:
    """A name in a pattern, where `[` and its kin stand for themselves."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _locked(main: Path) -> tuple[Path, int]:
    """Return a new folder and its lock. Before it is locked another process may take it for one that was left."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=main.parent, prefix=f"{_beside(main, '').name}.", suffix=_WRITING))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


@contextlib.contextmanager
def hidden_folder(main: Path) -> Iterator[Path]:
    """Yield a new folder beside a path, and hold its lock. What is left of it in the end is removed; if this process is
    killed, `finish_writing` removes it."""
    folder, lock = _locked(main)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


@contextlib.contextmanager
def _lock(folder: Path, main: Path) -> Iterator[None]:
    """Hold the lock of a folder that a killed process left. Raises RefusedError if its process lives."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RefusedError("busy", f"{main} is being written by another process; wait for it.") from None
    finally:
        os.close(descriptor)


def _give_names(whole: Path, main: Path, *, replace: bool) -> None:
    """Give what lies in a folder the names that it has there, that of `main` last. May be called again if it was cut
    off. Unless something may be replaced, an error takes all of the names away again."""
    parts = sorted(whole.iterdir(), key=lambda part: (part.name == main.name, part.name))
    try:
        for number, part in enumerate(parts, 1):
            path = main.with_name(part.name)
            (_replace if replace else _name)(part, path)
            crash_point(f"whole-after-name-{number}")
        _sync(main.parent)
    except (OSError, RefusedError):
        if not replace:
            _take_back(whole, main)
        raise
    if replace:
        _remove(_beside(main, _OLD))
    _remove(whole)
    crash_point("whole-after-clearing")


def _name(part: Path, path: Path) -> None:
    """Give a name that nothing has. A file has both names until the folder is removed: so it is known for ours."""
    if part.is_file() and os.path.lexists(path) and path.samefile(part):
        return
    if part.is_dir():
        refuse_existing(path)
        part.rename(path)
        return
    try:
        path.hardlink_to(part)  # unlike a renaming, this never replaces a file that came in between
    except FileExistsError:
        refuse_existing(path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        refuse_existing(path)
        part.rename(path)


def _replace(part: Path, path: Path) -> None:
    """Give a name that something may have: a folder is moved away first."""
    if part.is_dir() and path.is_dir():
        old = _beside(path, _OLD)
        _remove(old)
        path.rename(old)
        crash_point("whole-after-moving-away")
    part.rename(path)


def _take_back(whole: Path, main: Path) -> None:
    for part in whole.iterdir():
        path = main.with_name(part.name)
        if part.is_file() and path.is_file() and path.samefile(part):
            path.unlink()
    _remove(whole)


def _flush(folder: Path) -> None:
    """Have the disk hold a folder and all in it."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            _sync(Path(place, name))
        _sync(Path(place))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder and all in it, if it is there."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            Path(place, name).unlink()
        for name in folders:
            path = Path(place, name)
            path.unlink() if path.is_symlink() else path.rmdir()
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
