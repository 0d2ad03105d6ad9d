"""`python -m rwkv_daemon.runner RUNDIR`: one attempt at a job. Exit codes below tell the daemon what to do next."""

import asyncio
import faulthandler
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_daemon.rules.exit_codes import (
    BAD_ROWS,
    BROKEN,
    CANNOT_RUN,
    DISK_FULL,
    NO_SANDBOX,
    OUT_OF_TIME,
    PAUSED,
    REFUSED,
    STOPPED,
    TROUBLE,
)
from rwkv_daemon.runner.engine_client import EngineRefusedError
from rwkv_daemon.runner.job_run import JobRun, OutOfTimeError, RunPausedError, RunStoppedError
from rwkv_daemon.runner.labelling import open_labelling
from rwkv_daemon.runner.race import open_race
from rwkv_daemon.runner.rewriting import open_rewriting
from rwkv_daemon.runner.samples_file import DiskFullError, SamplesFile
from rwkv_daemon.runner.splitting import open_splitting
from rwkv_daemon.runner.work_left import open_work
from rwkv_daemon.runner.writer_work import WriterWork
from rwkv_daemon.workers.run_directory import (
    UNUSABLE,
    JobSpec,
    Record,
    RunDir,
    SampleRecord,
    StageRecord,
    UnknownFormatError,
    read_records,
)
from rwkv_data import writers
from rwkv_data.definition import registry
from rwkv_data.definition.errors import DataError, RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.sandbox import SandboxUnavailableError


def main(arguments: list[str]) -> int:
    faulthandler.register(signal.SIGUSR1)  # the daemon asks for the stacks of a job without progress
    folder = RunDir(Path(arguments[0]))
    try:
        spec = folder.read_spec()
        kind, rows = load(spec)
        writer_work = writer_work_of(spec, kind, rows)
    except UnknownFormatError as error:
        say(str(error))
        return CANNOT_RUN
    except DataError as error:
        say(str(error))
        return BAD_ROWS
    records = [record for number in spec.earlier for record in read_records(folder.samples(number))]
    kept: list[SampleRecord] = []
    if spec.regrade:
        records, kept = graded_again(records, len(kind.stages))
    work = open_work(len(rows), spec.repeats, len(kind.stages), records)
    race = open_race(kind.search, len(rows), work, records) if kind.search and not spec.regrade else None
    say(f"{spec.benchmark} {spec.kind}: {work.left} of {len(rows) * spec.repeats} samples to do")
    code, last_words = 0, "finished"
    try:
        with SamplesFile(folder.samples(spec.attempt)) as samples:
            for record in kept:
                samples.append(record)
            asyncio.run(run(JobRun(spec, folder, kind, rows, work, samples, race, writer_work)))
    except* Exception as group:  # noqa: BLE001 - every end has its code, and a bug its traceback in the log
        code, last_words = how_it_ended(group)
    say(last_words)
    return code


ENDS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (RunStoppedError, STOPPED, "stopped"),
    (RunPausedError, PAUSED, "paused"),
    (DiskFullError, DISK_FULL, ""),
    (OutOfTimeError, OUT_OF_TIME, ""),
    (SandboxUnavailableError, NO_SANDBOX, ""),
    (EngineRefusedError, REFUSED, ""),
    (DataError, BAD_ROWS, ""),
    (MemoryError, TROUBLE, ""),
    (OSError, TROUBLE, ""),
    (Exception, BROKEN, ""),
)
"""Errors that end a job early, with the exit code and the last log line (empty: the error's own text). If several tasks
fail at once, the first of this table counts."""


def how_it_ended(group: BaseExceptionGroup[Exception]) -> tuple[int, str]:
    """Return (exit code, last line of the log). The traceback of an unexpected error is printed before it."""
    place, error = min(((place_of(error), error) for error in leaves(group)), key=lambda pair: pair[0])
    _, code, words = ENDS[place]
    if code in {TROUBLE, BROKEN}:
        traceback.print_exception(error)
        words = f"{type(error).__name__}: {error}"
    return code, words or str(error)


def place_of(error: Exception) -> int:
    """Return the line of the table for an error."""
    return next(place for place, (kind, _, _) in enumerate(ENDS) if isinstance(error, kind))


def leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the errors themselves, as groups of tasks may be nested."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def writer_work_of(spec: JobSpec, kind: Kind, rows: list[Row]) -> WriterWork | None:
    """Return what a job asks the writer; None for any other job, and where only grades are made. Raises DataError."""
    if spec.regrade:
        return None
    if spec.labelling:
        return open_labelling(spec, spec.labelling, kind, rows)
    if spec.rewriting is None:
        return None
    opened = open_splitting if writers.splits(spec.rewriting.rule) else open_rewriting
    return opened(spec, spec.rewriting, kind, rows)


def graded_again(records: list[Record], stages: int) -> tuple[list[Record], list[SampleRecord]]:
    """Return (what was generated, without verdicts; the samples that were given up or dropped, or are of no use, which
    stay as they are)."""
    counts = Counter((record.row, record.repeat) for record in records if isinstance(record, StageRecord))
    unusable = {(r.row, r.repeat) for r in records if isinstance(r, SampleRecord) and r.reason in UNUSABLE}
    whole = {place for place, count in counts.items() if count >= stages} - unusable
    generated = [r for r in records if isinstance(r, StageRecord) and (r.row, r.repeat) in whole]
    given_up = {(r.row, r.repeat): r for r in records if isinstance(r, SampleRecord) and (r.row, r.repeat) not in whole}
    return [*generated, *given_up.values()], list(given_up.values())


def load(spec: JobSpec) -> tuple[Kind, list[Row]]:
    """Return the kind with the job's settings, and its rows, each with its few-shot examples."""
    data_dir = Path(spec.data_dir)
    folder = Path(spec.catalogue_dir) if spec.catalogue_dir else None
    if spec.file_sha256 and registry.file_sha256(folder, spec.benchmark) != spec.file_sha256:
        raise RowsDamagedError(
            f"{spec.benchmark}.py has changed since the daemon read it; `rwkvctl reload` takes it in"
        )
    benchmark = registry.Catalogue(folder=folder, data_dir=data_dir).load(spec.benchmark)
    manifest = prepared_sets.read_manifest(data_dir, benchmark)
    if manifest is None or manifest.sha256 != spec.rows_sha256:
        raise RowsDamagedError(
            f"the rows of {spec.benchmark} are not those the job was dispatched with; dispatch again"
        )
    extent = prepared_sets.extent_of(data_dir, benchmark, manifest)
    kind = benchmark.kinds[spec.kind].with_known_settings(spec.settings).sized(extent)
    return kind, prepared_sets.load_asked(data_dir, benchmark, kind, spec.limit)


async def run(job: JobRun) -> None:
    """Run the job until it ends, or is stopped by SIGTERM or by the run directory."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, job.stop.set)
    await job.finish()


def say(text: str) -> None:
    """Write a line to standard error, which is the attempt's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
