"""Models behind OpenAI-compatible servers: the tables [endpoints.NAME] and [writer] of config.toml.

    [endpoints.qwq]                           # rwkvctl dispatch --models qwq
    base_url = "https://models.example/v1"
    model = "QwQ-32B"                         # its name at the server
    revision = "976055f"                      # which weights it is, as far as the operator knows
    keys_file = "/etc/rwkvctl/qwq.keys"
    completion_price = 0.9
    budget = 100.0

A table has the settings of one of the judge's endpoints and those of the judge's budget and patience. [writer] is the
model that rewrites samples for training: it has the same settings but for `api`, as it is asked in messages. Pure, as
`rwkvctl.settings.judge` is, which checks URLs, keys and numbers for both.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rwkvctl.protocol.endpoints import APIS, PREFIX, WRITER, Api, path_of, table_of
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import judge
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig, setting

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED: Final = frozenset({"builtin", "all", WRITER})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointModelFields:
    """The settings that only a model behind an endpoint has, and those of the judge that have other defaults, because
    chains of thought take longer than verdicts."""

    model: str = setting("", "the model's name at the server")
    revision: str = setting("", "which weights the server has, as you know them; another revision is another model")
    api: str = setting("chat", "chat: messages, for models with a chat template; completions: the prompt as it is")
    timeout_s: float = setting(1800.0, "a reply that is not complete after this time is dropped and requested again")
    max_reply_bytes: int = setting(4_194_304, "a longer reply is cut off and counts as a failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointModel:
    """A model behind an endpoint. `service` says how it is asked and what it may cost: its one endpoint is the
    server."""

    name: str
    revision: str
    api: Api
    service: JudgeConfig

    @property
    def server(self) -> EndpointConfig:
        """Return the server of the model."""
        return self.service.endpoints[0]

    @property
    def path(self) -> str:
        """Return what stands for the model where a checkpoint has its path."""
        return path_of(self.name)

    @property
    def identity(self) -> str:
        """Return the model's identity, in the form of a checkpoint's sha256: a hash of base URL, model and revision.
        Neither the name nor keys, prices and limits are part of it; but the writer is another one than the same model
        in a table [endpoints.NAME], as it has a budget of its own."""
        plain = json.dumps([self.server.base_url, self.service.model, self.revision])
        role = f"{WRITER}:" if self.name == WRITER else PREFIX
        return hashlib.sha256(f"{role}{plain}".encode()).hexdigest()


_OF_JUDGES_ALONE: Final = frozenset({"model", "timeout_s", "max_reply_bytes", "max_prompt_chars", "max_runtime_s"})
_OF_JUDGES_ENDPOINTS: Final = frozenset({"name", "model", "structured", "max_tokens"})
SERVER_FIELDS: Final = judge.settings_of(EndpointConfig, without=_OF_JUDGES_ENDPOINTS)
SERVICE_FIELDS: Final = judge.settings_of(JudgeConfig, without=_OF_JUDGES_ALONE)
FIELDS: Final = (*judge.settings_of(EndpointModelFields), *SERVER_FIELDS, *SERVICE_FIELDS)
"""Every setting of a table."""
WRITER_FIELDS: Final = tuple(f for f in FIELDS if f.name != "api")


def parse(tables: object, origin: str = "config.toml") -> dict[str, EndpointModel]:
    """Return the models of the table [endpoints], by name. Raises ConfigError naming what is unknown or wrong."""
    if not isinstance(tables, Mapping):
        raise ConfigError(f"{origin}: endpoints must be tables, [endpoints.NAME].")
    found = {str(name): _named(str(name), table, f"{origin}: [endpoints.{name}]") for name, table in tables.items()}
    first: dict[tuple[str, Api], str] = {}
    for name, model in found.items():
        if (other := first.setdefault((model.identity, model.api), name)) != name:
            raise ConfigError(
                f"{origin}: [endpoints.{name}] and [endpoints.{other}] are one model at one server; keep one, or give "
                "them different revisions."
            )
    return found


def parse_writer(table: object, origin: str = "config.toml") -> EndpointModel:
    """Return the model of the table [writer]. Raises ConfigError naming what is unknown or wrong."""
    where = f"{origin}: {table_of(path_of(WRITER))}"
    if isinstance(table, Mapping) and "api" in table:
        raise ConfigError(f"{where}: the writer is asked in messages; leave api out.")
    return _model(WRITER, table, where)


def _named(name: str, table: object, where: str) -> EndpointModel:
    if not NAME.fullmatch(name) or name in RESERVED:
        raise ConfigError(
            f"{where}: {name!r} cannot be the name of a model: use letters, digits, '.', '_' and '-', at most 64; "
            f"{', '.join(sorted(RESERVED))} mean something else. Give the table another name."
        )
    return _model(name, table, where)


def _model(name: str, table: object, where: str) -> EndpointModel:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table.")
    own_names, server_names, service_names = (
        {f.name for f in group} for group in (dataclasses.fields(EndpointModelFields), SERVER_FIELDS, SERVICE_FIELDS)
    )
    known = own_names | server_names | service_names
    if unknown := sorted(set(table) - known):
        raise ConfigError(f"{where}: unknown setting '{unknown[0]}'; there are: {', '.join(sorted(known))}.")
    own = judge.filled(EndpointModelFields(), _part(table, own_names), where)
    server = judge.filled(EndpointConfig(), _part(table, server_names), where)
    service = judge.filled(JudgeConfig(), _part(table, service_names), where)
    if not own.model:
        raise ConfigError(f"{where}: set model, the model's name at the server.")
    api = next((one for one in APIS if one == own.api), None)
    if api is None:
        raise ConfigError(f"{where}: api must be {' or '.join(APIS)}, not {own.api!r}.")
    server = dataclasses.replace(server, name=name)
    service = dataclasses.replace(
        service, model=own.model, timeout_s=own.timeout_s, max_reply_bytes=own.max_reply_bytes, endpoints=(server,)
    )
    return EndpointModel(name=name, revision=own.revision, api=api, service=judge.checked(service, where))


def _part(table: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name in names}
