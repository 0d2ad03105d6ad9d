"""Answers to `GET /v1/config`: the settings and where they were set. Of tables that may hold secrets only the keys are
shown."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.protocol.service import ConfigReply, SettingView
from rwkvctl.settings import config
from rwkvctl.settings.fields import Settings, place

TABLES: Final = {
    "judge": "grades what no rule can",
    "checker": "reviews wrong answers",
    "groups": "how many jobs of a group run at once",
    "notify": "who is notified of what",
    "roles": "who may ask for what",
}


def settings(records: Records) -> ConfigReply:
    """Return every setting in force, then the tables."""
    return ConfigReply(items=(*values(records), *tables()), files=tuple(map(str, config.files())))


def values(records: Records) -> Iterator[SettingView]:
    """Yield the settings, each with the line, variable or flag that set it."""
    waits = {f.name: bool(f.metadata["restart"]) for f in fields(Settings)}
    for value in records.config.values():
        shown = value.value if isinstance(value.value, (bool, int, float)) else str(value.value)
        origin = where(value.origin, value.name)
        yield SettingView(name=value.name, value=shown, origin=origin, help=value.help, restart=waits[value.name])


def where(origin: str, name: str) -> str:
    """Return an origin with its line; without one if the file is gone by now."""
    try:
        return place(origin, name)
    except (OSError, UnicodeDecodeError):
        return origin


def tables() -> Iterator[SettingView]:
    """Yield the tables as they are in the files now."""
    for name, text in TABLES.items():
        try:
            found, origin = config.table(name)
        except ConfigError as error:
            yield SettingView(name=f"[{name}]", value=str(error), origin="", help=text)
            return
        if found is not None:
            yield SettingView(name=f"[{name}]", value=", ".join(keys(found)), origin=origin, help=text)


def keys(found: object) -> list[str]:
    """Return the names that a table sets; for an array of tables each name once."""
    several = found if isinstance(found, list) else [found]
    return list(dict.fromkeys(str(key) for table in several if isinstance(table, dict) for key in table))
