"""Removing folders that untrusted programs have filled."""

import os
import secrets
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it; links are removed and not followed. Raises OSError.

    `shutil.rmtree` recurses, so a program that nests a thousand folders makes it fail. Here each folder is moved to the
    top before it is emptied, so that no path gets long, either.
    """
    prefix, moved = f".removed-{secrets.token_hex(8)}", 0
    top = os.open(folder, FOLDER)
    try:
        os.fchmod(top, 0o700)
        left = emptied(top)
        while left:
            name = left.pop()
            place = os.open(name, FOLDER, dir_fd=top)
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
            os.chmod(name, 0o700, dir_fd=place)
        else:
            os.unlink(name, dir_fd=place)
    return [name for name, is_folder in found if is_folder]
