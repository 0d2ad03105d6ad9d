"""Copies of the store's rows in run directories, for `rwkvctl rebuild`.

    runs/j12/row-3.json           the job, its session and attempt 3, as they were when that began
    runs/j12/score-KEY.json       the job with its score under that grade key, once it was stored
    runs/j12/verdicts.jsonl       what the judge said of each sample, appended before it is stored
    runs/engines/e3/row.json      the engine, once it was ready

Only `rebuild` reads them, so one that cannot be written is a warning and no failure.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.store import JobRow, StoreError, StoreRow
from rwkv_daemon.store.queries.sessions import session_of_job
from rwkv_daemon.store.queries.verdicts import JudgedSample
from rwkv_daemon.store.queries.whole_rows import attempt_row, engine_row, job_row, score_row
from rwkv_daemon.workers.run_directory import replace


async def keep_attempt(records: Records, job: int, number: int) -> None:
    """Keep the rows of an attempt, called just before its runner starts."""
    found = {
        "job": await job_row(records.store, job),
        "session": await session_of_job(records.store, job),
        "attempt": await attempt_row(records.store, job, number),
    }
    await keep(records.folder(job).path / f"row-{number}.json", found)


async def keep_score(records: Records, job: int, grade_key: str) -> None:
    """Write the rows of a score that was just stored. If they cannot be read now, `rebuild` has it computed again."""
    try:
        found = {
            "job": await job_row(records.store, job),
            "score": await score_row(records.store, job, grade_key),
        }
    except StoreError as error:
        log.warning("j%d: its score is not kept beside its samples: %s", job, error)
        return
    await keep(records.folder(job).path / f"score-{grade_key}.json", found)


def keep_verdicts(records: Records, job: JobRow, verdicts: Iterable[tuple[tuple[int, int], JudgedSample]]) -> None:
    """Write verdicts on samples, each a (row, repeat), before they are stored, so that nothing is paid for twice."""
    path = records.folder(job.id).path / "verdicts.jsonl"
    lines = [
        msgspec.json.encode(asdict(one) | {"grade_key": job.grade_key, "row": row, "repeat": repeat}) + b"\n"
        for (row, repeat), one in verdicts
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.writelines(lines)
    except OSError as error:
        log.warning("%s cannot be written (%s): `rwkvctl rebuild` would ask the judge again", path, error)


async def keep_engine(records: Records, engine: int) -> None:
    """Keep the row of an engine, called once the engine has reported what it is."""
    found = {"engine": await engine_row(records.store, engine)}
    await keep(records.engine_folder(engine) / "row.json", found)


async def keep(path: Path, rows: dict[str, StoreRow | None]) -> None:
    """Write rows, by the names of their tables, to a JSON file; a failure is only logged."""
    content = msgspec.json.encode({name: as_dict(row) for name, row in rows.items() if row is not None})
    try:
        await asyncio.to_thread(write, path, content)
    except OSError as error:
        log.warning("%s cannot be written (%s): `rwkvctl rebuild` would not know of it", path, error)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, content)


def as_dict(row: StoreRow) -> dict[str, Any]:
    """Return a row as a dict of column names and values."""
    return dict(zip(row.keys(), row, strict=True))
