"""Plans with the facts of this node, and dispatch. The planner itself is pure (`rules.plan`)."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rwkv_daemon.catalogue import contents, suite_kinds
from rwkv_daemon.catalogue.contents import CheckpointFile
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.caller import caller
from rwkv_daemon.changes.records import Records
from rwkv_daemon.changes.session_id import new_session_id
from rwkv_daemon.harness import facts as harness_facts
from rwkv_daemon.host.shown_files import is_trusted
from rwkv_daemon.host.source_commit import source_commit
from rwkv_daemon.jobs import log_links
from rwkv_daemon.jobs.pause_resume import resume_in
from rwkv_daemon.planning import endpoint_selection
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.rules.plan import (
    Facts,
    Grid,
    KindFact,
    ModelFact,
    Pair,
    Plan,
    SelectionError,
    Twins,
    grid,
    keys_of,
    limit_for,
    plan_of,
    plan_pair,
)
from rwkv_daemon.scheduling import placement_facts
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import JobRow, NewJob, Store, Transaction
from rwkv_daemon.store.queries.jobs import (
    OPEN,
    KnownJob,
    SessionLabels,
    add_jobs,
    add_session,
    as_json,
    generated_work,
    generation_keys,
    get_job,
    keyless_work,
    paths_of_model,
    remember_benchmark,
    scored_work,
    unfinished_work,
    update_job,
)
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_data.definition.benchmark import Benchmark, HubSource
from rwkvctl import __version__
from rwkvctl.protocol.requests import NamedCheckpoint, Selection
from rwkvctl.protocol.states import Action, Reason
from rwkvctl.protocol.training.harnesses import is_harness
from rwkvctl.text.quantities import several

KNOWN_S = 15.0
"""After a start a plan waits so long for the first sample of the GPUs."""
Find = Callable[[Sequence[NamedCheckpoint]], Iterable[CheckpointFile]]
AT_ONCE = 250
"""Pairs that are planned before other requests get their turn."""
Remember = Callable[[Transaction, str, list[str]], Awaitable[None]]
"""Stores a dispatch's reply inside its transaction: (db, session, jobs)."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A selection with the facts of this node, except those that are looked up per pair."""

    selection: Selection
    facts: Facts
    grid: Grid


async def plan(work: NodeWork, catalogue: NodeCatalogue, selection: Selection) -> Plan:
    """Return what a dispatch of this selection would do now. Some hundreds of pairs are planned at a time, so that
    other requests get their turn. Raises SelectionError."""
    draft, twins = await drafted(work, catalogue, selection), Twins()
    pairs: list[Pair] = []
    for first in range(0, len(draft.grid), AT_ONCE):
        some = range(first, min(first + AT_ONCE, len(draft.grid)))
        pairs += [twins.settled(pair) for pair in await pairs_at(work.records.store, catalogue, draft, some)]
        await asyncio.sleep(0)
    return plan_of(draft.grid, pairs)


async def page(
    work: NodeWork, catalogue: NodeCatalogue, selection: Selection, after: int, limit: int
) -> tuple[Plan, int]:
    """Return (some pairs of the plan in dispatch order, how many there are): exactly those that `plan` has at these
    places. Raises SelectionError."""
    draft, twins = await drafted(work, catalogue, selection), Twins()
    places = range(min(after, len(draft.grid)), min(after + limit, len(draft.grid)))
    for pair in await pairs_at(work.records.store, catalogue, draft, draft.grid.before(places)):
        twins.settled(pair)
    pairs = [twins.settled(pair) for pair in await pairs_at(work.records.store, catalogue, draft, places)]
    return plan_of(draft.grid, pairs), len(draft.grid)


async def drafted(work: NodeWork, catalogue: NodeCatalogue, selection: Selection) -> Draft:
    """Return the facts that are known before single pairs are looked up. Raises SelectionError."""
    selection, suite = catalogue.benchmarks.with_limit(selection), catalogue.benchmarks.suite_of(selection)
    log_links.checked(work.records, selection)
    await know_the_device(work.records, work.engines, selection.numerics)
    numerics = work.engines.numerics(selection.numerics, work.records.config)
    models = [*await models_of(work.records, catalogue, selection), *catalogue.endpoints.facts()]
    asker = caller()
    named = await catalogue.searches.matching(
        (asker.uid, asker.name), selection.model_regex, [model.name for model in models]
    )
    facts = Facts(
        models=tuple(models),
        kinds=tuple(await kinds_of(work.records, catalogue, selection)),
        numerics=numerics,
        disk_low=work.waiting.disk_low,
        fits=lambda model: placement_facts.misfit(work.records, work.waiting, work.engines, model.sha256, numerics),
        for_model=contents.ModelSettings(catalogue.benchmarks, selection).of,
        judge=catalogue.benchmarks.judge,
        matching=lambda _expressions, _names: named,
        searched=partial(suite_kinds.searched_models, suite),
    )
    planned = grid(selection, facts)
    await endpoint_selection.refuse_names_of_checkpoints(work.records, planned.models)
    return Draft(selection, facts, planned)


async def kinds_of(records: Records, catalogue: NodeCatalogue, selection: Selection) -> list[KindFact]:
    """Return the kinds that a selection means: of benchmarks, or of a harness. Raises SelectionError."""
    if selection.harness:
        return await asyncio.to_thread(harness_facts.kind_facts, selection, records.config)
    return contents.kind_facts(selection, catalogue.benchmarks)


async def try_out_endpoints(work: NodeWork, catalogue: NodeCatalogue, selection: Selection) -> None:
    """Find out whether the servers of a selection give the log-probabilities that it needs, before it is planned. That
    takes as long as they take, so nobody waits for the caller. Raises SelectionError."""
    if any(remote.features is None for remote in catalogue.endpoints.by_name.values()):
        draft = await drafted(work, catalogue, selection)
        await catalogue.endpoints.try_out(endpoint_selection.to_be_tried(catalogue.endpoints, draft.grid))


async def pairs_at(store: Store, catalogue: NodeCatalogue, draft: Draft, places: Sequence[int]) -> list[Pair]:
    """Return the pairs at some places, with what the store knows of each."""
    found: list[Pair] = []
    for first in range(0, len(places), AT_ONCE):
        some = [draft.grid.at(place) for place in places[first : first + AT_ONCE]]
        facts = await looked_up(store, catalogue, draft, some)
        found += [plan_pair(draft.selection, facts, m, facts.for_model(m, k)) for m, k in some]
    return found


async def looked_up(
    store: Store, catalogue: NodeCatalogue, draft: Draft, pairs: Sequence[tuple[ModelFact, KindFact]]
) -> Facts:
    """Return the facts with what the store knows of these pairs."""
    selection, facts = draft.selection, draft.facts
    keys: dict[str, str] = {}
    for model, kind in pairs:
        keys |= keys_of(selection, facts, model, facts.for_model(model, kind))
    scored, generated = await scored_work(store, list(keys)), await generated_work(store, list(keys))
    used = await generation_keys(store, list(keys))
    by_key = {job.grade_key: job for job in await unfinished_work(store, list(keys.values()))}
    keyless: dict[tuple[str, str, str], list[KnownJob]] = {}
    files = {model.path: model.inodes for model, _ in pairs}
    for job in await keyless_work(store, [(m.path, k.benchmark, k.kind) for m, k in pairs]):
        if job.weights_inodes in {"", files[job.weights_path]}:  # else the job is of another file at that path
            keyless.setdefault((job.weights_path, job.benchmark, job.kind), []).append(job)
    rows = {(kind.benchmark, kind.kind): kind.rows for _, kind in pairs}

    def open_job(model: str, benchmark: str, kind: str, key: str) -> tuple[str, Action, Reason, str] | None:
        identity, limit = (model, benchmark, kind), limit_for(selection, rows.get((benchmark, kind)))
        job = by_key.get(key) or same_before_keys(catalogue, draft, keyless.get(identity, ()), limit)
        if job is None:
            return None
        if job.state in OPEN:
            return job.name, "skip", "queued", f"{job.name} is {job.state}"
        if selection.overwrite or key in scored:
            return None
        if job.reason == "held":
            return job.name, "skip", "held", f"{job.name} is stopped and held; `rwkvctl release {job.name}` ends that"
        done = f"has {job.done} of {job.total} samples" if job.total else "begins anew, with the answers that it has"
        return job.name, "resume", "resume", f"{job.name} {done}"

    return replace(
        facts,
        scored=lambda key: scored.get(key, ""),
        generated=lambda key: generated.get(key, {}),
        used=used.__contains__,
        open_jobs=open_job,
    )


async def models_of(records: Records, catalogue: NodeCatalogue, selection: Selection) -> list[ModelFact]:
    """Return the checkpoints to choose from, as facts. Raises SelectionError."""
    found = await asyncio.to_thread(candidates, records, catalogue, selection)
    await refuse_taken_names(records, selection, found)
    return [fact for _, fact in await contents.model_facts(records.store, found, catalogue.settling)]


def candidates(records: Records, catalogue: NodeCatalogue, selection: Selection) -> list[CheckpointFile]:
    """Return the checkpoints to choose from. Raises SelectionError for a path without one, and if two checkpoints would
    have one name."""
    given = selection.checkpoints
    found = (
        by_path(records, catalogue, given, contents.named)
        if given
        else list(contents.checkpoints(records.config.weights_dir))
    )
    paths = {str(one.path) for one in found}
    names = {one.label: one for one in found}
    for one in by_path(
        records, catalogue, [file for file in selection.files if file.path not in paths], contents.elsewhere
    ):
        if (other := names.setdefault(one.label, one)) is not one and other.identity != one.identity:
            raise same_name(one, str(other.path))
        found.append(one)
    return found


def by_path(
    records: Records, catalogue: NodeCatalogue, given: Sequence[NamedCheckpoint], find: Find
) -> list[CheckpointFile]:
    """Return the checkpoints that are named by path: those of the weights folder, and elsewhere those that the user has
    shown. Raises SelectionError, which does not tell whether another one exists."""
    uid = caller().uid
    if is_trusted(uid) or not given:
        return list(find(given))
    own = {str(one.path) for one in contents.checkpoints(records.config.weights_dir)}
    return [one_by_path(catalogue, one, find, own) for one in given]


def one_by_path(catalogue: NodeCatalogue, given: NamedCheckpoint, find: Find, own: Container[str]) -> CheckpointFile:
    """Return one checkpoint that is named by path; `own` are those of the weights folder. Raises SelectionError."""
    with contextlib.suppress(SelectionError):
        (found,) = find([given])
        if str(found.path) in own:
            return replace(found, inodes="")
        if catalogue.shown_files.all_of(caller().uid, found.inodes):
            return found
    raise SelectionError(
        f"{given.path}: there is no checkpoint that you may read. Over TCP, or through a forwarded socket, only "
        "those of the weights folder can be measured."
    )


async def refuse_taken_names(records: Records, selection: Selection, found: Sequence[CheckpointFile]) -> None:
    """Raise SelectionError for a checkpoint by path if earlier jobs measured another checkpoint under its name, which
    still exists: its scores would look like a new version of the other's."""
    paths = {file.path for file in selection.files}
    for one in found:
        if str(one.path) in paths:
            for path in await paths_of_model(records.store, one.label):
                if path != str(one.path) and await asyncio.to_thread(is_another, path, one):
                    raise same_name(one, path)


def is_another(path: str, than: CheckpointFile) -> bool:
    """Whether another checkpoint is at a path."""
    try:
        return contents.identity_of(Path(path)) != than.identity
    except (OSError, ValueError):
        return False


def same_name(one: CheckpointFile, other: str) -> SelectionError:
    return SelectionError(
        f"{one.path} and {other} are both called {one.label}: their scores could not be told apart. "
        "--manifest gives a checkpoint another name."
    )


async def know_the_device(records: Records, engines: Engines, wanted: str) -> None:
    """Wait until it is known whether this node computes on GPUs, if that decides the numerics, which enter the keys.
    Raises SelectionError."""
    deadline = time.monotonic() + KNOWN_S
    while not is_device_known(records, engines, wanted):
        if time.monotonic() > deadline:
            raise SelectionError(
                "The GPUs of this node have not been seen yet, so what --numerics auto means is not known; name a "
                "profile, or ask again when `rwkvctl gpus` shows them."
            )
        await asyncio.sleep(0.05)


def is_device_known(records: Records, engines: Engines, wanted: str) -> bool:
    """Whether it is known what numerics `wanted` means on this node."""
    return engines.leases is not None or (wanted or records.config.settings.numerics) != "auto"


def same_before_keys(
    catalogue: NodeCatalogue, draft: Draft, keyless: Iterable[KnownJob], limit: int | None
) -> KnownJob | None:
    """Return the job, among those for a pair that have no key yet (the weights are being hashed), that was dispatched
    with the same flags; `limit` is the selection's, as it applies to the kind's rows."""
    for job in keyless:
        spellings = map(as_json, settings_of(catalogue, draft.selection, job))
        if (job.row_limit, job.numerics) == (limit, draft.facts.numerics) and job.settings in spellings:
            return job
    return None


def settings_of(catalogue: NodeCatalogue, selection: Selection, job: KnownJob) -> Iterator[dict[str, str]]:
    """Yield what a dispatch of a job's kind for its model would set now; labels first as they were named, as the job
    has them if its rows were not there, then in their present version."""
    if is_harness(job.kind):
        yield harness_facts.given(selection)
        return
    kind = catalogue.benchmarks.kind_of(job.benchmark, job.kind)
    settings = catalogue.benchmarks.selected_settings(selection, job.benchmark, kind, job.model)
    yield settings
    if settings.get("where") or settings.get("order"):
        extent = catalogue.benchmarks.extent(catalogue.benchmarks.get(job.benchmark))
        yield contents.pinned(settings, kind.with_settings(settings), extent)


async def dispatch(
    work: NodeWork, catalogue: NodeCatalogue, selection: Selection, made: Plan, remember: Remember
) -> tuple[str, list[str]]:
    """Queue the plan's pairs as one session, in one transaction with the reply for the request id."""
    selection = msgspec.structs.replace(selection, run_log_dir=log_links.checked(work.records, selection))
    session = new_session_id()
    new = [pair for pair in made.pairs if pair.row.action in {"run", "hold"}]
    resumed = {pair.row.job: pair for pair in made.pairs if pair.row.action == "resume"}
    goes_on = [job for name in resumed if (job := await get_job(work.records.store, int(name[1:]))) is not None]
    crash_point("before-dispatch-commit")
    async with work.records.change() as change:
        versions = (__version__, source_commit())
        asked = msgspec.json.encode(selection).decode()
        labels = SessionLabels(selection.suite, selection.note)
        await add_session(change.db, session, asked, work.records.hostname, versions, labels)
        ids = await add_jobs(change.db, session, new_jobs(selection, new))
        numbers = [f"j{number}" for number in ids]
        every = catalogue.benchmarks.all()
        for pair in {pair.kind.benchmark: pair for pair in new if pair.kind.rows is not None}.values():
            await remember_benchmark(change.db, benchmark_values(pair, every[pair.kind.benchmark]))
        for pair in new:
            work.engines.back_off.pop(EngineKind(pair.model.sha256, pair.row.numerics), None)
        for job in goes_on:
            there = await where_it_is_now(change.db, job, resumed[job.name].model)
            await resume_in(work.waiting, work.running, work.engines, change, there)
        text = f"{several(len(new), 'job')} queued, {len(resumed):,} resumed"
        await change.note("session", session=session, text=text, data={"jobs": numbers, "resumed": list(resumed)})
        await remember(change.db, session, numbers + list(resumed))
    crash_point("after-dispatch-commit")
    return session, numbers


async def where_it_is_now(db: Transaction, job: JobRow, model: ModelFact) -> JobRow:
    """Return a job that goes on with the path at which the same weights were named now: they may have been moved."""
    if job.weights_path == model.path or not model.sha256 or job.weights_sha256 != model.sha256:
        return job
    await update_job(db, job.id, weights_path=model.path, weights_inodes=inodes_for(model))
    return replace(job, weights_path=model.path, weights_inodes=inodes_for(model))


def inodes_for(model: ModelFact) -> str:
    """Return the files that a job may read its weights from: those that its user has shown; empty: any."""
    return "" if is_trusted(caller().uid) else model.inodes


def new_jobs(selection: Selection, pairs: list[Pair]) -> list[NewJob]:
    """Return planned pairs as new jobs. A kind is encoded once, for however many models."""
    kinds = {id(pair.kind): pair.kind for pair in pairs}
    spelled = {number: spell(kind) for number, kind in kinds.items()}
    return [new_job(selection, pair, spelled[id(pair.kind)]) for pair in pairs]


class Spelled(NamedTuple):
    """A kind's settings and configuration as JSON, as a job stores them."""

    settings: str
    configuration: str
    grading: str
    stages: int


def spell(kind: KindFact) -> Spelled:
    stages = kind.configuration["stages"]
    assert isinstance(stages, list)
    return Spelled(as_json(dict(kind.settings)), as_json(kind.configuration), as_json(dict(kind.grading)), len(stages))


def new_job(selection: Selection, pair: Pair, spelled: Spelled) -> NewJob:
    """Return a planned pair as a new job."""
    held = pair.row.action == "hold"
    return NewJob(
        model=pair.model.name,
        weights_path=pair.model.path,
        weights_sha256=pair.model.sha256,
        benchmark=pair.kind.benchmark,
        kind=pair.kind.kind,
        state="held" if held else "queued",
        reason=pair.row.reason if held else "",
        detail=pair.row.detail if held else "",
        priority=selection.priority,
        generation_key=pair.generation_key,
        grade_key=pair.grade_key,
        settings=spelled.settings,
        configuration=spelled.configuration,
        grader=pair.kind.grader,
        grader_version=pair.kind.grader_version,
        grading=spelled.grading,
        benchmark_version=pair.kind.benchmark_version,
        rows_sha256=pair.kind.rows_sha256,
        seed=pair.work.seed,
        row_limit=pair.work.limit,
        numerics=pair.row.numerics,
        repeats=pair.kind.repeats,
        stages=spelled.stages,
        total=pair.row.samples or 0,
        run_log_dir=selection.run_log_dir,
        group_name=selection.group,
        weights_inodes=inodes_for(pair.model),
    )


def jobs_of(plan: Plan, new: Sequence[str]) -> list[int]:
    """Return the jobs of a plan's pairs: `new` are those that were queued for it, in order, and what went on."""
    fresh, names, by_key = iter(new), list[str](), dict[str, str]()
    for pair in plan.pairs:
        name = next(fresh) if pair.row.action in {"run", "hold"} else pair.row.job or by_key.get(pair.grade_key, "")
        if pair.grade_key:  # empty while the weights are being hashed: then it says nothing of what is the same work
            by_key.setdefault(pair.grade_key, name)
        names.append(name)
    return [int(name[1:]) for name in names if name]


def benchmark_values(pair: Pair, benchmark: Benchmark) -> tuple[object, ...]:
    """Return what is stored about the rows that a job is about to ask."""
    source = benchmark.source.repo if isinstance(benchmark.source, HubSource) else "built in or files"
    return (
        pair.kind.rows_sha256, benchmark.name, benchmark.version, benchmark.split, pair.kind.rows, benchmark.licence,
        source,
    )  # fmt: skip
