"""sd_notify: reports the daemon's state to the service manager, as datagrams of `KEY=VALUE` lines to $NOTIFY_SOCKET.

The functions are pure; `Notifier` holds the socket. Without a service manager every call does nothing. Nothing here
ever blocks the daemon: what cannot be sent at once is dropped.
"""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LONGEST_STATUS: Final = 200


def message(**fields: str) -> bytes:
    """Return a datagram. A line feed in a value would begin another field, so it becomes a blank."""
    return "".join(f"{name}={' '.join(text.split())}\n" for name, text in fields.items()).encode()


def address(text: str) -> str | None:
    """Return $NOTIFY_SOCKET as an address: a path, or an abstract name, whose `@` stands for a NUL byte. None for
    others (vsock), which are not supported."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def watchdog_s(variables: Mapping[str, str], pid: int) -> float | None:
    """Return the watchdog interval of the service manager in seconds; None if it does not watch this process."""
    if variables.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    text = variables.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdecimal() and int(text) > 0 else None


@dataclass(slots=True)
class Notifier:
    """The connection to the service manager. `watchdog_s` is its deadline, None if it set none."""

    link: socket.socket | None = None
    watchdog_s: float | None = None
    said: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Notifier":
        """Return the notifier for these variables; one that does nothing if there is no manager, or it is gone."""
        where = address(variables.get("NOTIFY_SOCKET", ""))
        if where is None:
            return cls()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        link.setblocking(False)
        try:
            link.connect(where)
        except OSError:
            link.close()
            return cls()
        return cls(link, watchdog_s(variables, os.getpid()))

    def ready(self, status: str) -> bool:
        """Report that start-up, or a reload, is over. Returns whether that was sent: this message must arrive."""
        self.said = status
        return self._send(READY="1", STATUS=status)

    def reloading(self) -> None:
        """Report that a reload begins. The manager pairs it with the READY=1 that follows by its time."""
        self._send(RELOADING="1", MONOTONIC_USEC=str(time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000))

    def stopping(self) -> None:
        """Tell the service manager that the daemon is stopping."""
        self._send(STOPPING="1", STATUS="stopping; engines and runners go on")

    def status(self, text: str) -> None:
        """Set the line for `systemctl status`; sent only if it has changed."""
        if text != self.said:
            self.said = text
            self._send(STATUS=text)

    def alive(self) -> None:
        """Send the keep-alive `WATCHDOG=1` if the service manager has set a watchdog deadline."""
        if self.watchdog_s is not None:
            self._send(WATCHDOG="1")

    def _send(self, **fields: str) -> bool:
        """Return whether the message was taken, or there is nobody to send it to. The manager's queue may be full, or
        it may be gone."""
        if self.link is None:
            return True
        shortened = {name: text[:LONGEST_STATUS] for name, text in fields.items()}
        try:
            self.link.send(message(**shortened))
        except OSError:
            return False
        return True
