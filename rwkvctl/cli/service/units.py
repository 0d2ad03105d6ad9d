"""The service's files: what they are, made for this installation, and whether an operator has changed one.

They come with rwkvctl (`daemon/systemd/`) as they would be on a system with rwkvctl under /usr; installed ones name
this interpreter. The first line of an installed file has a checksum of the rest: a file that fits its checksum is as we
wrote it, and may be replaced.
"""

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings.config import Config

PYTHON: Final = "/usr/bin/python3 "
MARK: Final = re.compile(r"# rwkvctl service install, sha256 of what follows: ([0-9a-f]{64})\n")
FORBIDDEN: Final = (
    "RestrictNamespaces", "ProtectHostname", "PrivateUsers", "PrivateDevices", "DevicePolicy", "DeviceAllow",
    "ProtectClock", "ProtectProc", "ProcSubset", "PrivatePIDs", "ProtectControlGroups", "MemoryDenyWriteExecute",
    "PrivateTmp", "PrivateNetwork", "IPAddressDeny", "DynamicUser",
)  # fmt: skip
"""Directives that break something; the unit says what."""

NEWER: Final = {"DelegateSubgroup": 254}
"""Directives of ours that a systemd before that version does not know, and complains about."""

State = Literal["absent", "installed", "outdated", "edited"]


class UnitError(RwkvctlError):
    """The service's files cannot be found or written."""


class UnitFile(NamedTuple):
    """A file of the service: where it goes, and what it says there."""

    path: Path
    text: str


def source() -> Path:
    """Return the folder of the unit files that come with rwkvctl. Raises UnitError if there is none."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "systemd", package.parent / "daemon" / "systemd"):
        if (folder / "rwkvctl.service").is_file():
            return folder
    raise UnitError("the service's files did not come with this installation of rwkvctl; install the wheel again.")


def system_files(root: Path, systemd: int) -> list[UnitFile]:
    """The files of the system's service below a root folder, for a version of systemd."""
    places = {
        "rwkvctl.service": "etc/systemd/system/rwkvctl.service",
        "rwkvctl.socket": "etc/systemd/system/rwkvctl.socket",
        "sysusers.conf": "etc/sysusers.d/rwkvctl.conf",
        "tmpfiles.conf": "etc/tmpfiles.d/rwkvctl.conf",
    }
    return [UnitFile(root / place, signed(text_of(name, systemd))) for name, place in places.items()]


def user_files(config: Config, systemd: int) -> list[UnitFile]:
    """The files of a user's service, for the home and socket that are in force for this user."""
    folder = config.folder.parent / "systemd" / "user"
    service, socket = text_of("user/rwkvctl.service", systemd), text_of("user/rwkvctl.socket", systemd)
    if config.origins.get("home") or config.origins.get("socket"):
        lines = f"Environment={quoted(f'RWKVCTL_HOME={config.home}')} {quoted(f'RWKVCTL_SOCKET={config.socket}')}\n"
        service = service.replace("[Service]\n", f"[Service]\n{lines}")
        socket = re.sub(r"ListenStream=.*", f"ListenStream={escaped(str(config.socket))}".replace("\\", r"\\"), socket)
    return [
        UnitFile(folder / "rwkvctl.service", signed(service)),
        UnitFile(folder / "rwkvctl.socket", signed(socket)),
    ]


def text_of(name: str, systemd: int = sys.maxsize) -> str:
    """A file as it comes, with this interpreter in it, and without what a version of systemd does not know."""
    lines = (source() / name).read_text(encoding="utf-8").split("\n")
    known = "\n".join(line for line in lines if NEWER.get(line.partition("=")[0], 0) <= systemd)
    return known.replace(PYTHON, f"{escaped(sys.executable)} ")


def escaped(text: str) -> str:
    """A path as a unit has it: `%` begins a specifier, and blanks would end it."""
    return text.replace("%", "%%").replace(" ", r"\x20")


def quoted(text: str) -> str:
    """Return an assignment for `Environment=` in quotes, with backslashes, quotes and `%` escaped for systemd."""
    return '"' + text.replace("\\", "\\\\").replace('"', r"\"").replace("%", "%%") + '"'


def signed(text: str) -> str:
    """Return a text under a comment line with its sha256, by which `state` recognises an unchanged file."""
    return f"# rwkvctl service install, sha256 of what follows: {checksum(text)}\n{text}"


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def state(file: UnitFile) -> State:
    """Return the state of an installed file. `outdated`: unchanged since another version of rwkvctl, or another
    interpreter's, wrote it. Raises UnitError if it cannot be read."""
    try:
        found = file.path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        raise UnitError(f"{file.path} cannot be read: {error.strerror}.") from error
    if found == file.text:
        return "installed"
    mark = MARK.match(found)
    return "outdated" if mark and mark[1] == checksum(found[mark.end() :]) else "edited"


def texts_of(unit: Path) -> dict[Path, str]:
    """An installed unit and its drop-ins, in the order in which systemd reads them."""
    files = [unit, *sorted(unit.with_name(f"{unit.name}.d").glob("*.conf"))]
    return {path: path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()}


def write(file: UnitFile) -> None:
    """Replace a file atomically, readable by all. Raises UnitError."""
    new = file.path.with_name(f".{file.path.name}.new")
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(file.text, encoding="utf-8")
        new.chmod(0o644)
        new.replace(file.path)
    except OSError as error:
        raise UnitError(f"{file.path} cannot be written: {error.strerror}; run it as root, or with --user.") from error


def forbidden_in(text: str) -> Iterator[str]:
    """Yield the directives of a unit that break the daemon."""
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and name.strip() in FORBIDDEN and value.strip().lower() not in {"", "no", "false", "0", "off"}:
            yield name.strip()


def unreachable(python: str) -> str:
    """The first folder above an interpreter that other users cannot enter, empty if there is none."""
    places = {place for path in (Path(python), Path(python).resolve()) for place in path.parents}
    closed = [place for place in sorted(places) if place.is_dir() and not place.stat().st_mode & 0o001]
    return str(closed[0]) if closed else ""
