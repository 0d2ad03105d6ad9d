"""`python -m rwkv_daemon.runner RUNDIR`: one attempt at a job. Exit codes below tell the daemon what to do next."""

import asyncio
import signal
import sys
from pathlib import Path

from rwkv_daemon.rundir import JobSpec, RunDir, UnknownFormatError, read_records
from rwkv_daemon.runner.exits import BAD_ROWS, CANNOT_RUN, DISK_FULL, STOPPED
from rwkv_daemon.runner.run import Run, StoppedError
from rwkv_daemon.runner.work import open_work
from rwkv_daemon.runner.writer import DiskFullError, SamplesFile
from rwkv_data import registry, sets
from rwkv_data.benchmark import Kind
from rwkv_data.errors import DataError, RowsDamagedError
from rwkv_data.stage import Row


def main(arguments: list[str]) -> int:
    folder = RunDir(Path(arguments[0]))
    try:
        spec = folder.read_spec()
        kind, rows = load(spec)
    except UnknownFormatError as error:
        say(str(error))
        return CANNOT_RUN
    except DataError as error:
        say(str(error))
        return BAD_ROWS
    records = [record for number in spec.earlier for record in read_records(folder.samples(number))]
    work = open_work(len(rows), spec.repeats, len(kind.stages), records)
    say(f"{spec.benchmark} {spec.kind}: {work.left} of {len(rows) * spec.repeats} samples to do")
    code, last_words = 0, "finished"
    try:
        with SamplesFile(folder.samples(spec.attempt)) as samples:
            asyncio.run(run(Run(spec, folder, kind, rows, work, samples)))
    except* StoppedError:
        code, last_words = STOPPED, "stopped"
    except* DiskFullError as group:
        code, last_words = DISK_FULL, str(group.exceptions[0])
    say(last_words)
    return code


def load(spec: JobSpec) -> tuple[Kind, list[Row]]:
    """The kind with the job's settings, and the rows it asks."""
    benchmark = registry.load(spec.benchmark)
    manifest = sets.read_manifest(Path(spec.data_dir), spec.benchmark)
    if manifest is None or manifest.sha256 != spec.rows_sha256:
        raise RowsDamagedError(
            f"the rows of {spec.benchmark} are not those the job was dispatched with; dispatch again"
        )
    rows = sets.load_rows(Path(spec.data_dir), benchmark)
    kind = benchmark.kinds[spec.kind]
    return kind.with_settings(spec.settings if kind.settings() else {}), rows[: spec.limit]


async def run(job: Run) -> None:
    """The job, stopped by SIGTERM as by the run directory."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, job.stop.set)
    await job.finish()


def say(text: str) -> None:
    """A line for the attempt's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
