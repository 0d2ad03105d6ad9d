"""How a model behind an endpoint is named: where a checkpoint has a path, it has `endpoint:NAME`."""

from typing import Final, Literal, get_args

Api = Literal["chat", "completions"]
APIS: Final[tuple[Api, ...]] = get_args(Api)
"""Stands where the numerics profile of an engine stands: it decides, as that does, what is answered."""
PREFIX: Final = "endpoint:"
WRITER: Final = "writer"
"""The name of the model that rewrites and splits samples and labels rows: the table [writer], never chosen by a
dispatch."""


def path_of(name: str) -> str:
    """Return what stands for the endpoint model of a name where a checkpoint has its path."""
    return PREFIX + name


def name_of(path: str) -> str:
    """Return the name of the endpoint model that this stands for."""
    return path.removeprefix(PREFIX)


def payee(service: str) -> str:
    """Return how those are called who are paid for replies: `judge` and `checker`, else the name of an endpoint. An
    endpoint whose name is one of those keeps its prefix."""
    name = name_of(service)
    return service if name in {"judge", "checker"} else name


def table_of(path: str) -> str:
    """Return the header of the configuration's table of an endpoint model."""
    return f"[{WRITER}]" if name_of(path) == WRITER else f"[endpoints.{name_of(path)}]"


def is_endpoint(path: str) -> bool:
    """Whether this stands for a model behind an endpoint, and is no path of a checkpoint."""
    return path.startswith(PREFIX)


def is_api(numerics: str) -> bool:
    """Whether what stands in the place of a numerics profile is the API of an endpoint."""
    return numerics in APIS
