"""Writing a file whole or not at all, and never over another one unless that is asked for."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError

NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""


@contextlib.contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[TextIO]:
    """A file that appears under its name when the block ends well. Raises RefusedError if there is one already."""
    if not force:
        refuse_existing(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        name(Path(temporary), path, force=force)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def name(temporary: Path, path: Path, *, force: bool) -> None:
    """Give the finished file its name, with the rights that a new file has."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    if force:
        temporary.replace(path)
        return
    try:
        path.hardlink_to(temporary)  # unlike a renaming, this never replaces a file that came in between
    except FileExistsError:
        refuse_existing(path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        refuse_existing(path)
        temporary.rename(path)


def refuse_existing(path: Path) -> None:
    """Raise RefusedError if something has that name."""
    if os.path.lexists(path):
        raise RefusedError(
            "exists", f"{path} already exists and was not changed.", "--force replaces it.", Exit.REFUSED
        )


def unwritable(path: Path, error: OSError) -> RwkvctlError:
    """The sentence for a file that cannot be written; nothing of it is left."""
    return RwkvctlError(f"{path} cannot be written: {error.strerror or error}. The partial file was removed.")
