"""Files that appear together, each whole, or not at all; and never in the place of others unless that is asked for."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from rwkv_data.definition.errors import PrepareError
from rwkvctl.protocol.errors import Exit, RefusedError

_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""


@contextlib.contextmanager
def whole_files(paths: Sequence[Path], *, replace: bool) -> Iterator[list[IO[bytes]]]:
    """Yield a file for each path. When the block ends well they get their names, in this order; after an error none of
    them is there. Raises RefusedError if something has one of the names already."""
    try:
        with contextlib.ExitStack() as stack:  # on a full disk closing a file is an error once more
            for path in paths:
                refuse_existing(path, replace=replace)
            parts = [stack.enter_context(_part(path)) for path in paths]
            yield [file for file, _ in parts]
            for file, _ in parts:
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                os.fsync(file.fileno())
            _name_all([part for _, part in parts], paths, replace=replace)
    except OSError as error:
        names = " and ".join(map(str, paths))
        raise PrepareError(f"{names} cannot be written: {error.strerror or error}; nothing was") from error


def refuse_existing(path: Path, *, replace: bool = False) -> None:
    """Raise RefusedError if something has that name; with `replace`, if it is neither a plain file nor a link."""
    if replace:
        if os.path.lexists(path) and not path.is_symlink() and not path.is_file():
            raise RefusedError("no-file", f"{path} is no plain file and was not replaced.", exit_code=Exit.REFUSED)
    elif os.path.lexists(path):
        raise RefusedError(
            "exists", f"{path} already exists and was not changed.", "--replace replaces it.", Exit.REFUSED
        )


@contextlib.contextmanager
def _part(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Yield a file beside a path, and its name, which is gone in the end."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _name_all(parts: Sequence[Path], paths: Sequence[Path], *, replace: bool) -> None:
    named: list[Path] = []
    try:
        for part, path in zip(parts, paths, strict=True):
            _name(part, path, replace=replace)
            named.append(path)
    except (OSError, RefusedError):
        for path in named if not replace else ():
            path.unlink(missing_ok=True)
        raise
    for folder in {path.parent for path in paths}:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _name(part: Path, path: Path, *, replace: bool) -> None:
    if replace:
        part.replace(path)
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
