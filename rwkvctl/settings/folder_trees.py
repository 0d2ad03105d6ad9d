"""Folders that untrusted programs have filled: walked through and removed, however deep they are.

`os.walk` and `shutil.rmtree` recurse in Python 3.11, so that a program that nests a thousand folders makes them fail.
Standard library only.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder that is not a folder, links included and not followed. What cannot be read, such
    as a path that is too long for the kernel, is left out."""
    left = [str(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    yield entry


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it; links are removed and not followed. Raises OSError.

    Each folder is moved to the top before it is emptied, so that no path gets long, either.
    """
    prefix, moved = f".removed-{secrets.token_hex(8)}", 0
    top = os.open(folder, os.O_RDONLY | FOLDER)
    try:
        os.fchmod(top, 0o700)
        left = emptied(top)
        while left:
            name = left.pop()
            place = os.open(name, os.O_RDONLY | FOLDER, dir_fd=top)
            try:
                for inner in emptied(place):
                    moved += 1
                    os.rename(inner, f"{prefix}-{moved}", src_dir_fd=place, dst_dir_fd=top)
                    left.append(f"{prefix}-{moved}")
            finally:
                os.close(place)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def emptied(place: int) -> list[str]:
    """Remove everything but folders from an open folder, and return the names of these, which their owner may now
    read, change and move."""
    with os.scandir(place) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if is_folder:
            allow(name, place)
        else:
            os.unlink(name, dir_fd=place)
    return [name for name, is_folder in found if is_folder]


def allow(name: str, place: int) -> None:
    """Let the owner of a folder do with it what he likes. It may have become a link since it was seen, which is not
    followed: chmod alone would."""
    descriptor = os.open(name, os.O_PATH | FOLDER, dir_fd=place)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101 - what is open, and no path
    finally:
        os.close(descriptor)
