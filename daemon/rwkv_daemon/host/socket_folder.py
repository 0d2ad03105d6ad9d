"""The folder of the daemon's sockets: nobody else may write to it."""

import contextlib
import errno
import grp
import os
from pathlib import Path
from typing import Final

from rwkv_daemon.host.daemon_log import log
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.config import Config

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EROFS, errno.EDQUOT})


def group_number(name: str) -> int:
    """Return the gid of a group given by name or number. Raises ConfigError."""
    if name.isdecimal() and name.isascii():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"socket_group: there is no group {name}; make it with `groupadd -r {name}`.") from None


def make_folder(config: Config) -> None:
    """Make the folder of the sockets, accessible to the daemon's user alone, and to the socket's group if it is made
    here. Raises ConfigError, OSError."""
    if config.is_remote:
        raise ConfigError("socket: https:// is for clients; the daemon listens on a path, and on listen_tcp besides.")
    folder, name = config.socket.parent, config.settings.socket_group
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        check_private(folder)
    else:
        if name:
            with contextlib.suppress(PermissionError):  # binding the socket gives the better message
                os.chown(folder, -1, group_number(name))
                folder.chmod(0o710)
    found = folder.stat()
    if name and not found.st_mode & 0o001 and not (found.st_gid == group_number(name) and found.st_mode & 0o010):
        remedy = f"chgrp {name} {folder} && chmod 710 {folder}"
        log.warning("the group %s cannot get at the socket in %s: run `%s`", name, folder, remedy)


def check_private(folder: Path) -> None:
    """Raise ConfigError if a folder belongs to somebody else or others can write to it: they could put their socket in
    place of the daemon's."""
    found, named = folder.stat(), folder.lstat()  # another user could redirect their link to a folder of ours
    if not {found.st_uid, named.st_uid} <= {os.geteuid(), 0} or found.st_mode & 0o022:
        raise ConfigError(f"{folder} belongs to another user or can be written by others; remove it, or set --socket.")
