"""The command line that repeats a job, and whether it would do the same work here and now.

Everything that decides what is generated is spelled out, the seed, the numerics and k too, so that the line does not
depend on standing settings. The planner itself says whether it gives the same generation key.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import structs

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.asked_rows import asking_kind
from rwkv_daemon.node import Node
from rwkv_daemon.planning import planner
from rwkv_daemon.recipes import labelling, rewriting
from rwkv_daemon.rules.plan import Pair, Plan, SelectionError
from rwkv_daemon.rules.work_keys import IMPORTED
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.queries.samples import score_of
from rwkv_data import writers
from rwkv_data.definition.errors import DataError
from rwkvctl.protocol.endpoints import is_api, is_endpoint, table_of
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.record import ReproReply
from rwkvctl.protocol.requests import NamedCheckpoint, Selection

SPELT_OUT = ("k",)
"""Settings that are named even if they have the benchmark's default."""

GLOB = re.compile(r"[*?[]")


async def repro(node: Node, job: JobRow) -> ReproReply:
    """Answer `GET /v1/jobs/{job}/repro`: the command line that repeats a job, and what would differ here and now."""
    if job.numerics == IMPORTED:
        text = f"{job.name} came from another program: nothing was measured here that could be repeated."
        raise RefusedError("not-measured-here", text, "", Exit.REFUSED)
    if not job.measures:
        return await of_writer_job(node, job)
    try:
        wanted = of_harness(job) if job.is_harness else selection_of(node.catalogue.benchmarks, job)
        selection = at_its_place(node.records, job, wanted)
        pair = found(await planner.plan(node.work, node.catalogue, selection), job)
        differs = tuple(differences(job, pair))
    except (DataError, SelectionError) as error:
        wanted = of_harness(job) if job.is_harness else selection_with(job, stored_settings(job))
        selection = at_its_place(node.records, job, wanted)
        differs = (str(error),)
    return ReproReply(
        job=job.name,
        argv=tuple(argv(selection)),
        selection=selection,
        generation_key=job.generation_key,
        same=not differs and bool(job.generation_key),
        differs=differs,
        pins=await pins(node.records, job),
    )


async def of_writer_job(node: Node, job: JobRow) -> ReproReply:
    """Return the command line that makes a rewriting or a labelling, and what would differ."""
    what = labelling.what_of(job) if job.labels_rows else rewriting.what_of(job)
    rule, writer = what["rule"], node.catalogue.endpoints.writer
    name = rule.partition("/")[0]
    known = writers.LABEL_RULES.get(name) if job.labels_rows else writers.RULES.get(name)
    differs = []
    if writer is None:
        differs.append(f"the configuration has no {table_of(job.weights_path)}")
    elif writer.config.identity != job.weights_sha256:
        differs.append(f"{table_of(job.weights_path)} is another model now (sha256 {writer.config.identity[:12]})")
    if known is None or known.label != rule:
        differs.append(f"the rule is {known.label if known else 'not known'} now, and was {rule}")
    if job.labels_rows:
        try:
            asking_kind(node.catalogue, job)
        except DataError as error:
            differs.append(str(error))
    return ReproReply(
        job=job.name,
        argv=tuple(labelling_argv(job, name, what["field"]))
        if job.labels_rows
        else ("rwkvctl", "rewrite", f"j{job.source_job}", "--rule", name),
        generation_key=job.generation_key,
        same=not differs and bool(job.generation_key),
        differs=tuple(differs),
        pins=await pins(node.records, job),
    )


def labelling_argv(job: JobRow, rule: str, field: str) -> Iterator[str]:
    """Yield the words of the command line that makes a labelling."""
    yield from ("rwkvctl", "data", "label", job.benchmark, "--rule", rule, "--field", field)
    settings, limit = labelling.picked(job)
    if limit is not None:
        yield from ("--limit", str(limit))
    if settings:
        yield from ("--set", *(f"{name}={text}" for name, text in sorted(settings.items())))


def at_its_place(records: Records, job: JobRow, selection: Selection) -> Selection:
    """Add the checkpoint's path to the selection, if it is not in the weights folder."""
    if is_endpoint(job.weights_path):
        return selection
    path = Path(job.weights_path)
    if selection.models == ("builtin",) or path.is_relative_to(records.config.weights_dir):
        return selection
    file = NamedCheckpoint(path=job.weights_path, name=job.model)
    return structs.replace(selection, models=(job.weights_path,), files=(file,))


def stored_settings(job: JobRow) -> dict[str, str]:
    """Return the settings that the job changes, by `--set` and by standing settings."""
    return dict(json.loads(job.settings))


def selection_of(benchmarks: NodeBenchmarks, job: JobRow) -> Selection:
    """Return a selection of just this job's work. Raises DataError if its benchmark no longer exists."""
    kind = benchmarks.kind_of(job.benchmark, job.kind)
    given = stored_settings(job)
    standing = benchmarks.settings(job.benchmark, kind, job.model)
    usual = {name: str(value) for name, value in kind.settings().items()}
    named = [name for name in (*SPELT_OUT, *standing) if name in usual and name not in given]
    return selection_with(job, {name: usual[name] for name in named} | given)


def of_harness(job: JobRow) -> Selection:
    """Return a selection of just this job's work, which an outside harness does."""
    name, _, task = job.benchmark.partition(":")
    settings = stored_settings(job)
    seed = settings.pop("seed", None)
    settings.pop("limit", None)
    return Selection(
        models=(model_of(job),),
        harness=name,
        only_datasets=(task,),
        limit=job.row_limit,
        settings=settings,
        seed=int(seed) if seed is not None else None,
        numerics=job.numerics,
        overwrite=True,
    )


def selection_with(job: JobRow, settings: Mapping[str, str]) -> Selection:
    """Return the selection of a job with these settings; the seed becomes a flag of its own."""
    return Selection(
        models=(model_of(job),),
        only_datasets=(job.benchmark,),
        only_jobs=(job.kind,),
        limit=job.row_limit,
        settings={name: text for name, text in settings.items() if name != "seed"},
        seed=job.seed if "seed" in json.loads(job.configuration) else None,
        numerics="" if is_api(job.numerics) else job.numerics,
        overwrite=True,
    )


def model_of(job: JobRow) -> str:
    """Return the job's model as a `--models` pattern, with glob characters escaped."""
    if is_endpoint(job.weights_path):
        return job.weights_path
    if job.model.startswith("builtin"):
        return "builtin"
    return GLOB.sub(lambda mark: f"[{mark[0]}]", job.model)


def argv(selection: Selection) -> Iterator[str]:
    """Yield the words of the `rwkvctl dispatch` command line that makes the selection."""
    yield from ("rwkvctl", "dispatch", "--models", *selection.models)
    if selection.harness:
        yield from ("--harness", selection.harness, "--only-datasets", *selection.only_datasets)
    else:
        yield from ("--only-datasets", *selection.only_datasets, "--only-jobs", *selection.only_jobs)
    if selection.limit is not None:
        yield from ("--limit", str(selection.limit))
    if selection.seed is not None:
        yield from ("--seed", str(selection.seed))
    if selection.numerics:
        yield from ("--numerics", selection.numerics)
    if selection.settings:
        yield from ("--set", *(f"{name}={text}" for name, text in sorted(selection.settings.items())))
    yield "--overwrite"


def found(plan: Plan, job: JobRow) -> Pair | None:
    """Return the job's pair in a plan, preferably one with the same weights (by sha256); None if the plan has none."""
    of_job = [pair for pair in plan.pairs if (pair.kind.benchmark, pair.kind.kind) == (job.benchmark, job.kind)]
    same_name = [
        pair
        for pair in of_job
        if pair.model.builtin or pair.model.path == job.weights_path or fnmatchcase(pair.model.name, model_of(job))
    ]
    return next((pair for pair in same_name if pair.model.sha256 == job.weights_sha256), next(iter(same_name), None))


def differences(job: JobRow, pair: Pair | None) -> Iterator[str]:
    """Yield a sentence for each thing that the planner sees differently now than when the job was queued."""
    if pair is None and is_endpoint(job.weights_path):
        yield f"the configuration has no {table_of(job.weights_path)}"
        return
    if pair is None:
        yield f"{job.model} is not in the weights folder; the job used {job.weights_path}"
        return
    if pair.generation_key == job.generation_key:
        return
    if pair.model.sha256 != job.weights_sha256:
        what = table_of(job.weights_path) if pair.model.api else f"the weights of {job.model}"
        is_now = "is another model now" if pair.model.api else "have changed"
        yield f"{what} {is_now} (sha256 {pair.model.sha256[:12] or 'not known yet'})"
    if pair.kind.rows_sha256 != job.rows_sha256 and job.is_harness:
        yield f"the manifest, the lock or your own tasks of {pair.kind.harness} have changed"
    elif pair.kind.rows_sha256 != job.rows_sha256:
        yield f"the rows of {job.benchmark} have changed (sha256 {pair.kind.rows_sha256[:12] or 'not prepared'})"
    if pair.kind.benchmark_version != job.benchmark_version:
        yield f"{job.benchmark} is version {pair.kind.benchmark_version}, the job used version {job.benchmark_version}"
    before = json.loads(job.configuration)
    changed = sorted(name for name in before.keys() | pair.kind.configuration.keys()
                     if before.get(name) != pair.kind.configuration.get(name))  # fmt: skip
    if changed:
        yield f"the settings of {job.benchmark} {job.kind} differ in: {', '.join(changed)}"


async def pins(records: Records, job: JobRow) -> dict[str, str]:
    """Return what must agree on another machine: hashes, numerics, versions and devices, without empty ones."""
    known = {"weights_sha256": job.weights_sha256, "rows_sha256": job.rows_sha256, "numerics": job.numerics}
    stored = await score_of(records.store, job.id)
    provenance = json.loads(stored).get("provenance", {}) if stored else {}
    known |= {name: str(provenance.get(name, "")) for name in ("rwkvctl_version", "git_commit")}
    devices = {str(engine.get("device", "")) for engine in provenance.get("engines", ())}
    return {name: text for name, text in (known | {"devices": ", ".join(sorted(devices - {""}))}).items() if text}
