"""The daemon as a service on the wire: its configuration read anew, and its figures for a monitoring system."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.replies import Reply


class ReloadRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/reload`: check the configuration, and use it from now on; refused as a whole where a part is wrong."""

    request_id: str = ""


class ReloadReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.reload/1"):
    """`changed` is in force now, one sentence each; `waits` is not before a restart; `warnings` are about the rest."""

    changed: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ConfigRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/config`: the settings that the daemon has in force, and where each came from."""


class SettingView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting. `origin` is a file with its line, an environment variable, a flag, or `default`; `restart`: a
    running daemon keeps the old value. A table (`[judge]`) has the names of its keys as its value, nothing secret."""

    name: str
    value: bool | int | float | str
    origin: str
    help: str = ""
    restart: bool = False


class ConfigReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.daemon-config/1"):
    """Settings in order of declaration, then the tables that are there; `files` are looked into, there or not."""

    items: tuple[SettingView, ...]
    files: tuple[str, ...] = ()


class MetricsRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/metrics`: figures as JSON; `GET /metrics` has them in Prometheus' text format."""


class Figure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value, told from the others of its family by labels."""

    value: float
    labels: dict[str, str] = {}


class FamilyView(Struct, frozen=True, kw_only=True):
    """What is counted or measured, in which unit, and its values now."""

    name: str
    type: Literal["counter", "gauge"]
    help: str
    figures: tuple[Figure, ...]


class MetricsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.metrics/1"):
    """Every family of figures, with its values now."""

    items: tuple[FamilyView, ...]
