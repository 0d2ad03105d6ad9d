"""`python received_descriptors.py FD`: receive the descriptors that one client shows on its connection.

It prints which files they are, a line for each batch. It is a separate process, with the standard library only: a
descriptor may belong to a file system whose server never answers, and then inspecting or closing it blocks for ever.
"""

import fcntl
import json
import os
import socket
import stat
import sys

MOST_AT_ONCE, TAKEN = 200, b"+"
"""As in `rwkvctl.protocol.showing`: this program starts without our packages."""


def main(link: socket.socket) -> None:
    """For each batch: report it to the daemon, wait until the daemon has recorded it, then confirm it to the client."""
    link.setblocking(True)
    while True:
        data, descriptors, _, _ = socket.recv_fds(link, 1, MOST_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return
        sys.stdout.write(f"{json.dumps([file for file in map(file_of, descriptors) if file])}\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return
        link.sendall(TAKEN)
        for descriptor in descriptors:
            os.close(descriptor)


def file_of(descriptor: int) -> tuple[int, int, int] | None:
    """Return (device, inode, time of the last change in ns) of a plain file or folder that the descriptor can read.
    None for anything else, such as O_PATH descriptors, which need no right to the file."""
    try:
        flags, found = fcntl.fcntl(descriptor, fcntl.F_GETFL), os.fstat(descriptor)
    except OSError:
        return None
    if flags & os.O_PATH or flags & os.O_ACCMODE == os.O_WRONLY:
        return None
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
