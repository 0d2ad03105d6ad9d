"""Every query of the store, on both databases: each is asked once with values of the types that it says it takes.

What it answers is tested where it is used. Here it is that PostgreSQL understands what was written for SQLite, and that
no query is left out.
"""

import collections.abc
import contextlib
import dataclasses
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.store import NewJob, Store, StoreError, open_store, queries
from rwkv_daemon.store.interface import Transaction
from rwkv_daemon.store.queries.engines import add_engine
from rwkv_daemon.store.queries.jobs import add_attempt, add_job, add_session
from rwkv_daemon.store.queries.sample_pages import SampleFilter
from rwkv_daemon.store.queries.samples import add_score, ingest
from rwkv_daemon.workers.run_directory import SampleRecord, StageRecord
from rwkvctl.protocol.record import JobLogRequest

ENGINE = dict.fromkeys(("uuid", "model", "weights_path", "weights_sha256", "numerics", "lease", "socket"), "x")
RECORDS = (
    StageRecord(row=0, repeat=0, stage=0, prompt="p", engine="e1"),
    SampleRecord(row=0, repeat=0, value=1.0, reason="right"),
)
ACT = dict.fromkeys(("automatic", "uid", "asker_pid", "pid", "start_ticks"), 1)
SPECIAL: dict[str, dict[str, Any]] = {
    "audit.add_entry": {"values": ("", 1, 1, 1, "", "", "", "")},
    "engines.add_engine": {"values": ENGINE | {"uuid": "y"}},
    "engines.engine_in": {"engine": 1},
    "importing.add_completions": {"rows": [(1, 7, 0, 0, "text", "eos")]},
    "importing.add_grades": {"rows": [("k", 1.0, "right", "", None, "", 1, 0, 0)]},
    "importing.add_prompts": {"rows": [(1, 7, 0, "text")]},
    "importing.add_samples": {"rows": [(1, 7, 0)]},
    "jobs.add_session": {"session": "y", "versions": ("0", "c")},
    "job_log.logged": {"asked": JobLogRequest(**dict.fromkeys(("since", "session", "model", "suite", "at"), "x"))},
    "jobs.jobs_in": {"states": ("queued", "done")},
    "jobs.remember_benchmark": {"values": ("x", "x", 1, "x", 1, "x", "x")},
    "jobs.state_pages": {"order": "id DESC"},
    "jobs.update_job": {"values": {"state": "done", "row_limit": None, "right_sum": 1.5}},
    "engines.update_engine": {"values": {"state": "gone", "health": "{}"}},
    "notifications.put": {"notices": [("n", "job-failed", "2026", "{}")]},
    "pauses_attempts.update_attempt": {"values": {"rung": 1, "why": ""}},
    "zombie_acts.add_step": {"act": collections.defaultdict(str, ACT)},
    "samples.ingest": {"records": RECORDS},
    "sample_pages.page": {"wanted": SampleFilter(True, "wrong", True, "x", (1, 2)), "after": -1},
}  # fmt: skip
"""Values where the type alone does not say what a column takes."""


def every_query() -> list[tuple[str, Any]]:
    """Every public coroutine function that takes a store or a transaction."""
    found = []
    for module in pkgutil.iter_modules(queries.__path__):
        loaded = importlib.import_module(f"{queries.__name__}.{module.name}")
        for name, function in inspect.getmembers(loaded, inspect.iscoroutinefunction):
            if function.__module__ == loaded.__name__ and not name.startswith("_"):
                found.append((f"{module.name}.{name}", function))
    return found


def value_of(kind: Any) -> Any:
    """Some value of a type."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    plain = {str: "x", int: 1, float: 1.5, bool: True, bytes: b"x", object: "x", Any: "x"}
    if kind in plain:
        return plain[kind]
    if origin is typing.Literal:
        return inside[0]
    if origin in {types.UnionType, typing.Union}:
        return value_of(inside[0])
    if origin is tuple:
        return tuple(value_of(one) for one in inside if one is not ...)
    if origin in {dict, collections.abc.Mapping}:
        return {value_of(inside[0]): value_of(inside[1])}
    if origin is not None:
        return [value_of(inside[0])]
    assert dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"), f"say in SPECIAL what a {kind} is"
    hints = typing.get_type_hints(kind)
    names = kind._fields if hasattr(kind, "_fields") else [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: value_of(hints[name]) for name in names})


@pytest.fixture
async def seeded(store_at: Path | str) -> AsyncIterator[Store]:
    """A store with a job, an engine, an attempt and a sample."""
    store = await open_store(store_at)
    async with store.write() as db:
        await add_session(db, "x", "{}", "host", ("0", "c"))
        job = await add_job(db, "x", value_of(NewJob))
        await add_engine(db, ENGINE)
        await add_attempt(db, job, 1, "x")
        await ingest(db, job, 1, "x", RECORDS, 1)
        await add_score(db, job, "x", "2026", "{}")
    yield store
    await store.close()


class UndoneError(Exception):
    """Ends a transaction that is to leave nothing."""


async def test_every_query_is_understood(seeded: Store) -> None:
    wrong = {}
    for name, function in every_query():
        try:
            await ask(seeded, name, function)
        except StoreError as error:
            if "constraint" not in str(error):  # it was understood, but the row it names is not there
                wrong[name] = str(error)
    assert not wrong


async def ask(store: Store, name: str, function: Any) -> None:
    """Call one, and undo what it did."""
    hints, special = typing.get_type_hints(function), SPECIAL.get(name, {})
    parameters = list(inspect.signature(function).parameters.values())
    named: dict[str, Any] = {}
    for p in parameters[1:]:
        if p.kind == p.VAR_KEYWORD:
            named |= special[p.name]
        elif p.name in special:
            named[p.name] = special[p.name]
        elif p.default is p.empty:
            named[p.name] = value_of(hints[p.name])
    if hints[parameters[0].name] is not Transaction:
        await function(store, **named)
        return
    with contextlib.suppress(UndoneError):
        async with store.write() as db:
            await function(db, **named)
            raise UndoneError
