"""Names of files and folders made of names that others chose, such that no two of theirs become one of ours, on any
file system: not where upper case, composed letters or the dot at the end do not count, nor where names are short."""

import hashlib
import re
import unicodedata
from typing import Final

from rwkvctl.text.sanitize import safe_line

LONGEST_BYTES: Final = 150
"""Of a name; a date and an ending are put around it, and a file system takes 255."""
MARKED: Final = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
DEVICE: Final = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\..*)?", re.IGNORECASE | re.DOTALL
)
REPLACED: Final = re.compile(r"[\"<>:/|\\?*\[\]\x00-\x1f]+")


def file_name(name: str, whole: str = "") -> str:
    """The name itself where every file system keeps it apart from every other; else as much of it as can be kept and a
    hash of `whole`, which is the name unless more is needed to tell two apart."""
    return name if is_plain(name) else marked(name, whole or name)


def is_plain(name: str) -> bool:
    """Whether a name may be used as it is: nothing in it is folded, replaced, hidden, reserved or cut, and it does not
    end like a name that got a hash."""
    return cleaned(name) == name == folded(name) and not MARKED.fullmatch(name)


def marked(name: str, whole: str) -> str:
    """A name with a hash of what it stands for."""
    return f"{cleaned(name)}-{hashlib.sha256(whole.encode(errors='surrogatepass')).hexdigest()[:16]}"


def folded(name: str) -> str:
    """What is left of a name where case, composition and compatibility do not count."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def cleaned(name: str) -> str:
    """A name that a file can have: `__` for what no path may hold, as lm_eval does, `_` for invisible characters."""
    kept = REPLACED.sub("__", name)
    if safe_line(kept) != kept:
        kept = "".join(char if safe_line(char) == char else "_" for char in kept)
    kept = kept.encode(errors="replace")[:LONGEST_BYTES].decode(errors="ignore").rstrip(". ") or "model"
    return f"_{kept}" if kept[0] in ".-~ " or DEVICE.fullmatch(kept) else kept
