"""How files are shown to the daemon: descriptors, a batch with each byte, over a socket beside the daemon's own."""

from typing import Final

MOST_AT_ONCE: Final = 200
"""Descriptors in one message; the kernel takes 253."""
TAKEN: Final = b"+"
"""What a batch is sent with, and what the daemon answers when it has looked at it."""


def socket_beside(daemon: str) -> str:
    """The socket on which a daemon takes descriptors."""
    return daemon.removesuffix(".sock") + ".files"
