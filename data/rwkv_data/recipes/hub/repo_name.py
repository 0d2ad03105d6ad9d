"""What a repository of the hub can be called."""

import re
from typing import Final

from rwkv_data.definition.errors import SettingError

_PART: Final = re.compile(r"(?=.{1,96}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_]|[-.](?![-.]))*(?<![-.])", re.DOTALL)


def check_repo_name(name: str) -> None:
    """Raise SettingError unless it is OWNER/NAME, as the hub has them. Its library would take a name alone, too, for
    one of whoever the token belongs to."""
    parts = name.split("/")
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)) or name.endswith(".git"):
        shown = name if len(name) <= 100 else f"{name[:100]}..."
        raise SettingError(
            f"{shown!r} is no name of a repository: give ORG/NAME, of letters and digits with single -, _ or . inside"
        )
