"""Measuring one checkpoint on one benchmark from Python, without a daemon: with the planner's keys, an engine of its
own, the runner, and the score that a job would have. Finished samples are kept beside the results, so an interrupted
call continues."""

import asyncio
import fcntl
import os
import subprocess
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import msgspec

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.contents import CheckpointFile, NodeBenchmarks
from rwkv_daemon.engines import engine_questions
from rwkv_daemon.engines.engine_launch import computing
from rwkv_daemon.host.source_commit import source_commit
from rwkv_daemon.jobs import score_writer
from rwkv_daemon.jobs.attempt_ends import last_line
from rwkv_daemon.jobs.runner_processes import runner_environment
from rwkv_daemon.planning import planner
from rwkv_daemon.rules.plan import Facts, Pair, make_plan
from rwkv_daemon.store import NewJob
from rwkv_daemon.store.queries.samples import GradedSample
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers import run_directory, tied_process
from rwkv_daemon.workers.run_directory import (
    EngineEndpoint,
    EngineList,
    JobSpec,
    Record,
    RunDir,
    SampleRecord,
    StageRecord,
    read_records,
)
from rwkv_data.prepare import prepared_sets
from rwkv_weights.local import inventory
from rwkvctl import __version__
from rwkvctl.protocol.engine import EngineHealth
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.numerics import in_force
from rwkvctl.protocol.requests import NamedCheckpoint, Selection
from rwkvctl.protocol.views import ScoreView
from rwkvctl.settings import config
from rwkvctl.settings.config import Config

ENGINE: Final = "e1"
LOOK_S: Final = 0.2
T = TypeVar("T")


class PipelineError(RwkvctlError):
    """The measurement is impossible, or was interrupted; the message says why."""


def measure(  # noqa: PLR0913 - each but the first three and the last two is a flag of dispatch
    weights: str | Path,
    benchmark: str,
    results: str | Path,
    *,
    kind: str = "",
    limit: int | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int | None = None,
    numerics: str = "",
    device: str = "cpu",
    home: str | Path = "",
) -> ScoreView:
    """Measure a checkpoint (a path, or `builtin`) on a benchmark, write the score to `results`, and return it.

    `kind` may be omitted if the benchmark has one default kind; `limit`, `settings`, `seed` and `numerics` are the
    flags of `dispatch`. `device` is `cpu` or `cuda`; CUDA_VISIBLE_DEVICES selects the GPU. Rows, own benchmarks and
    their settings are those of `home` (default: the configured one). Raises PipelineError, SelectionError, DataError.
    """
    chosen = config.load({"home": str(home)} if home else None)
    benchmarks = NodeBenchmarks.open(chosen)
    selection = Selection(
        models=("builtin",) if str(weights) == "builtin" else (),
        checkpoints=() if str(weights) == "builtin" else (NamedCheckpoint(path=str(Path(weights).absolute())),),
        only_datasets=(benchmark,),
        only_jobs=(kind,) if kind else (),
        limit=limit,
        settings={name: str(value) for name, value in (settings or {}).items()},
        seed=seed,
        numerics=numerics,
    )
    profile = in_force(numerics or chosen.settings.numerics, gpus=device != "cpu")
    model = the_checkpoint(selection, chosen)
    pair = the_pair(selection, benchmarks, model, profile)
    target = Path(results)
    if (there := finished(target, pair)) is not None:
        return there
    folder = RunDir(target.with_name(f"{target.name}.run"))
    folder.path.mkdir(parents=True, exist_ok=True)  # the results' own folder, too
    with alone_in(folder):
        job, started = planner.new_job(selection, pair, planner.spell(pair.kind)), now()
        spec = next_attempt(folder, pair, job, benchmarks, chosen)
        health = run(folder, spec, job, device, chosen)
        if contents.identity_of(model.path) != model.identity:
            raise PipelineError(f"{model.path} was replaced meanwhile; what {folder.path} holds is not to be trusted")
        records = [record for number in range(1, spec.attempt + 1) for record in read_records(folder.samples(number))]
        score = scored(job, benchmarks, records, health, started)
        run_directory.replace(target, msgspec.json.format(msgspec.json.encode(score), indent=2) + b"\n")
    return score


def the_checkpoint(selection: Selection, chosen: Config) -> CheckpointFile:
    """Return the selected checkpoint. Raises SelectionError."""
    given = selection.checkpoints
    every = contents.named(given) if given else contents.checkpoints(chosen.weights_dir)
    model = next((found for found in every if given or found.builtin), None)
    if model is None:
        raise PipelineError("this build has no built-in checkpoint")
    return model


def the_pair(selection: Selection, benchmarks: NodeBenchmarks, model: CheckpointFile, numerics: str) -> Pair:
    """Return the planner's pair of this checkpoint and kind, if it can run. Raises PipelineError."""
    fact = contents.model_fact(model, inventory.hashed(inventory.at(model.path)).sha256)
    facts = Facts(
        models=(fact,),
        kinds=tuple(contents.kind_facts(selection, benchmarks)),
        numerics=numerics,
        for_model=contents.ModelSettings(benchmarks, selection).of,
    )
    pairs = make_plan(selection, facts).pairs
    if len(pairs) != 1:
        raise PipelineError(f"say which kind: {', '.join(pair.kind.kind for pair in pairs) or 'none is selected'}")
    if pairs[0].row.action != "run":
        raise PipelineError(f"{pairs[0].row.benchmark} {pairs[0].row.kind}: {pairs[0].row.detail}")
    return pairs[0]


def finished(target: Path, pair: Pair) -> ScoreView | None:
    """Return the score that a file holds, if it is of the same work. Raises PipelineError if it is of other work."""
    if not target.exists():
        return None
    try:
        score = msgspec.json.decode(target.read_bytes(), type=ScoreView)
    except msgspec.DecodeError as error:
        raise PipelineError(f"{target} holds something else; name another file") from error
    if score.provenance.get("grade_key") != pair.grade_key:
        raise PipelineError(f"{target} is the score of other work; name another file")
    return score


@contextmanager
def alone_in(folder: RunDir) -> Iterator[None]:
    """Hold a lock, so that no two processes write the same run."""
    with (folder.path / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineError(f"another process is at work in {folder.path}") from error
        yield


def next_attempt(folder: RunDir, pair: Pair, job: NewJob, benchmarks: NodeBenchmarks, chosen: Config) -> JobSpec:
    """Write the runner's specification: samples of earlier attempts at the same work count as done."""
    if (folder.path / "job.json").exists() and folder.read_spec().grade_key != job.grade_key:
        raise PipelineError(f"{folder.path} holds part of other work; remove it, or name another file")
    attempts = sorted(int(path.stem.partition("-")[2]) for path in folder.path.glob("samples-*.jsonl"))
    spec = JobSpec(
        job=1,
        attempt=max(attempts, default=0) + 1,
        earlier=tuple(attempts),
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        settings=dict(pair.kind.settings),
        seed=job.seed,
        limit=job.row_limit,
        repeats=job.repeats,
        data_dir=str(chosen.data_dir),
        rows_sha256=job.rows_sha256,
        generation_key=job.generation_key,
        grade_key=job.grade_key,
        catalogue_dir=str(chosen.benchmarks_dir),
        file_sha256=benchmarks.file_sha256.get(job.benchmark, ""),
        slots_dir=str(chosen.slots_dir),
        slots=chosen.settings.grading_slots or os.cpu_count() or 1,
        unsandboxed=bool(pair.kind.grading.get("unsandboxed", False)),
    )
    folder.write_spec(spec)
    folder.write_desired("run")
    return spec


def run(folder: RunDir, spec: JobSpec, job: NewJob, device: str, chosen: Config) -> EngineHealth:
    """Run engine and runner until the runner has ended; returns the engine's health."""
    flags, environment = computing(chosen.settings, device)
    engine_log, runner_log = folder.path / "engine.txt", folder.log(spec.attempt)
    with TemporaryDirectory(prefix="rwkvctl-") as short:
        socket = Path(short, "engine.sock")
        served = (
            "rwkv_engine", "serve", job.weights_path, "--socket", str(socket), "--numerics", job.numerics,
            "--device", device, "--weights-sha256", job.weights_sha256, *flags,
        )  # fmt: skip
        with worker(served, environment, engine_log) as engine:
            health = until_ready(engine, socket, engine_log, chosen.settings.engine_start_timeout_s)
            folder.write_engines(EngineList(epoch=1, endpoints=(EngineEndpoint(engine=ENGINE, socket=str(socket)),)))
            with worker(("rwkv_daemon.runner", str(folder.path)), runner_environment(), runner_log) as runner:
                while runner.poll() is None:
                    still_runs(engine, engine_log)
                    time.sleep(LOOK_S)
    if runner.returncode != 0:
        raise PipelineError(f"the run ended early: {last_line(runner_log)}; its log is {runner_log}")
    return health


@contextmanager
def worker(argv: tuple[str, ...], environment: Mapping[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process within the block; it never outlives this process."""
    module, *arguments = argv
    words = (*tied_process.command(module), *arguments)
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_ready(engine: "subprocess.Popen[bytes]", socket: Path, log: Path, timeout_s: float) -> EngineHealth:
    """Wait until the engine has loaded its model, and return its health. Raises PipelineError if it ends or is not
    ready in `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        still_runs(engine, log)
        try:
            return waited_for(engine_questions.health(socket))
        except engine_questions.NoAnswerError:
            time.sleep(LOOK_S)
    raise PipelineError(f"the engine was not ready in {timeout_s:g} s; its log is {log}")


def still_runs(engine: "subprocess.Popen[bytes]", log: Path) -> None:
    if engine.poll() is not None:
        raise PipelineError(f"the engine ended: {last_line(log)}; its log is {log}")


def waited_for(answer: Coroutine[Any, Any, T]) -> T:
    """Return a coroutine's result, also if an event loop is running (a notebook's)."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(asyncio.run, answer).result()


def scored(
    job: NewJob, benchmarks: NodeBenchmarks, records: list[Record], health: EngineHealth, started: str
) -> ScoreView:
    """Return the score over what the runner wrote, computed as for a job."""
    data_dir, benchmark = benchmarks.data_dir, benchmarks.get(job.benchmark)
    extent = prepared_sets.extent_of(data_dir, benchmark, prepared_sets.current_manifest(data_dir, benchmark))
    kind = benchmarks.kind(job.benchmark, job.kind, msgspec.json.decode(job.settings), extent)
    rows = prepared_sets.load_asked(data_dir, benchmark, replace(kind, shots=None), job.row_limit)
    stages = {(s.row, s.repeat, s.stage): s for s in reversed(records) if isinstance(s, StageRecord)}
    result = score_writer.statistics(kind, graded(records), rows)
    return ScoreView(
        job="",
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        version=1,
        **score_writer.counted(result, sum(stage.generated for stage in stages.values())),
        partial=job.total < kind.unpicked.rows_asked(extent) * job.repeats,
        training=benchmark.training,
        why_null=result["reason"] or "",
        warnings=score_writer.warnings_of(result, kind),
        finished=now(),
        provenance={
            **score_writer.asked(job),
            "rwkvctl_version": __version__,
            "git_commit": source_commit(),
            "engines": [msgspec.to_builtins(health)],
            "prompt_tokens": sum(stage.prompt_tokens for stage in stages.values()),
            "cached_tokens": sum(stage.cached for stage in stages.values()),
            "generated_tokens": sum(stage.generated for stage in stages.values()),
            "started": started,
            **score_writer.breakdowns(result),
        },
    )


def graded(records: Iterable[Record]) -> list[GradedSample]:
    """Return samples as the store returns them: if one was written twice, the first counts."""
    stages: dict[tuple[int, int], dict[int, StageRecord]] = {}
    verdicts: dict[tuple[int, int], SampleRecord] = {}
    for record in records:
        place = (record.row, record.repeat)
        if isinstance(record, SampleRecord):
            verdicts.setdefault(place, record)
        else:
            stages.setdefault(place, {}).setdefault(record.stage, record)
    found = []
    for (row, repeat), v in verdicts.items():
        own = [stage for _, stage in sorted(stages.get((row, repeat), {}).items())]
        text, stops = own[-1].text if own else "", tuple(stage.stop for stage in own)
        found.append(GradedSample(row, repeat, v.value, v.extracted, v.reason, v.route, v.parts, stops, text))
    return found
