"""Errors an operator may meet. Each one's message is one sentence with the remedy.

RwkvctlError
├── ConfigError          a setting is wrong: names the file, the line or the variable
├── UnreachableError     no daemon answers on the socket
├── VersionSkewError     client and daemon do not share a protocol version
└── RefusedError         the daemon said no; carries its code and exit code
    └── NotNowError      not now, as its store is away: the same request may be answered later
"""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the CLI. They are stable: scripts depend on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    TIMEOUT = 6
    VERSION_SKEW = 7
    PARTLY = 8
    NOT_NOW = 9
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class RwkvctlError(Exception):
    """Something the operator can read and act on."""

    exit_code = Exit.FAILED


class ConfigError(RwkvctlError):
    """A setting is missing or wrong."""

    exit_code = Exit.USAGE


class UnreachableError(RwkvctlError):
    """No daemon answers on the socket, or the connection to it broke."""

    exit_code = Exit.UNREACHABLE


class VersionSkewError(RwkvctlError):
    """The other side speaks another protocol version."""

    exit_code = Exit.VERSION_SKEW


class RefusedError(RwkvctlError):
    """The daemon refused; `code` is stable, the message is for people."""

    def __init__(self, code: str, detail: str, hint: str = "", exit_code: int = Exit.FAILED) -> None:
        super().__init__(f"{detail} {hint}".strip())
        self.code, self.detail, self.hint = code, detail, hint
        self.exit_code = Exit(exit_code)


class NotNowError(RefusedError, UnreachableError):
    """The daemon answers and cannot do it now. Whoever waits for a daemon that is away waits for this one as well."""

    def __init__(self, code: str, detail: str, hint: str = "") -> None:
        super().__init__(code, detail, hint, Exit.NOT_NOW)
