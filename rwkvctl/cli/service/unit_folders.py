"""Whether a unit of the system leaves its service a temporary folder that it may write to. Pure.

`ProtectSystem=strict` takes away every folder but those that are named, and a drop-in may take those away again.
"""

import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

BASES: Final = {
    "StateDirectory": "/var/lib", "CacheDirectory": "/var/cache", "LogsDirectory": "/var/log",
    "RuntimeDirectory": "/run",
}  # fmt: skip
"""Directives that make folders for the service, and where these lie."""
USUAL: Final = ("/tmp", "/var/tmp")  # noqa: S108 - only named
LISTS: Final = frozenset({*BASES, "ReadWritePaths", "Environment"})
"""Directives that add to what was said before, and are emptied by an empty one."""


def without_temporary(texts: Iterable[str]) -> str:
    """What is wrong with the temporary folder of a unit and its drop-ins, in the order in which they are read; empty
    if there is one that can be written."""
    said = in_force(texts)
    if said.get("ProtectSystem", [""])[-1] != "strict" or is_on(said.get("PrivateTmp", [""])[-1]):
        return ""
    named = temporary_folder(said)
    if any(is_writable(folder, said) for folder in (named, *USUAL) if folder):
        return ""
    if not named:
        return "has ProtectSystem=strict and no TMPDIR: no temporary folder can be written, and no engine starts"
    return f"has a TMPDIR that ProtectSystem=strict makes read-only ({named}): no engine starts"


def in_force(texts: Iterable[str]) -> dict[str, list[str]]:
    """The values of each directive of [Service]; of one that is no list, the last counts."""
    said: dict[str, list[str]] = {}
    for text in texts:
        section = ""
        for line in text.replace("\\\n", " ").split("\n"):
            name, equals, value = (part.strip() for part in line.partition("="))
            if line.startswith("["):
                section = line.strip()
            elif equals and section == "[Service]" and not line.lstrip().startswith(("#", ";")):
                before = said.get(name, []) if name in LISTS and value else []
                said[name] = [*before, value]
    return said


def temporary_folder(said: dict[str, list[str]]) -> str:
    """TMPDIR as Environment= sets it last, empty if it does not."""
    words = [word for line in said.get("Environment", []) if line for word in shlex.split(line)]
    return next((word.removeprefix("TMPDIR=") for word in reversed(words) if word.startswith("TMPDIR=")), "")


def is_writable(folder: str, said: dict[str, list[str]]) -> bool:
    """Return whether a folder is one of those that strictness leaves."""
    made = [f"{base}/{one.partition(':')[0]}" for name, base in BASES.items() for one in words_of(said, name)]
    allowed = [PurePosixPath(place) for place in (*made, *(p.lstrip("-+") for p in words_of(said, "ReadWritePaths")))]
    place = PurePosixPath(folder)
    return any(one in (place, *place.parents) for one in allowed)


def words_of(said: dict[str, list[str]], name: str) -> list[str]:
    return [word for line in said.get(name, []) for word in line.split()]


def is_on(value: str) -> bool:
    """A switch of systemd's, or a word that is more than off."""
    return value.lower() not in {"", "no", "false", "0", "off"}
