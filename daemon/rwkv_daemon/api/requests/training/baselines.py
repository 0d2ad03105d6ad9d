"""Answers about baselines: scores that were given, and with which model each model is compared."""

import asyncio
from typing import Final, Literal

from rwkv_daemon.catalogue.contents import NodeBenchmarks, checkpoints
from rwkv_daemon.changes.caller import caller
from rwkv_daemon.changes.session_id import new_session_id
from rwkv_daemon.compare import given_scores
from rwkv_daemon.compare.given_scores import GivenRun
from rwkv_daemon.compare.pinned_baselines import pins_of
from rwkv_daemon.compare.score_comparison import named
from rwkv_daemon.node import Node
from rwkv_daemon.store.queries.importing import job_of_key
from rwkv_daemon.store.queries.jobs import add_session, as_json
from rwkv_daemon.store.queries.training.baselines import given_models, is_measured, remove_pin, set_pin
from rwkvctl import __version__
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.baselines import (
    BaselineAdd,
    BaselinePin,
    BaselineReply,
    BaselinesReply,
    BaselinesRequest,
    GivenModelView,
    GivenScoreView,
    PinView,
)
from rwkvctl.text.quantities import several

MOST_SCORES: Final = 10_000
MOST_PINS: Final = 1000
LONGEST_PATTERN: Final = 255


async def list_baselines(node: Node, _request: BaselinesRequest) -> BaselinesReply:
    """Answer `GET /v1/baselines`: the pinned baselines, and the models whose scores were given."""
    store = node.records.store
    models: dict[str, GivenModelView] = {}
    for row in await given_models(store):
        known = models.get(row["model"])
        models[row["model"]] = GivenModelView(
            model=row["model"],
            scores=row["scores"] + (known.scores if known else 0),
            programs=(*(known.programs if known else ()), row["grader"]),
            added=max(row["added"], known.added if known else ""),
        )
    pins = (PinView(**pin._asdict()) for pin in await pins_of(store))
    return BaselinesReply(pins=tuple(pins), items=tuple(models.values()))


async def add(node: Node, request: BaselineAdd) -> BaselineReply:
    """Answer `POST /v1/baselines`. Raises RefusedError, and stores nothing, if one of the scores cannot be stored."""
    given_scores.check_name(request.baseline)
    if not 0 < len(request.scores) <= MOST_SCORES:
        text = f"{request.source} has {several(len(request.scores), 'score')}; at most {MOST_SCORES:,} can be added."
        raise RefusedError("bad-request", text, "", Exit.USAGE)
    on_disk = await asyncio.to_thread(lambda: {one.label for one in checkpoints(node.records.config.weights_dir)})
    if request.baseline in {*on_disk, *node.catalogue.endpoints.by_name} or await is_measured(
        node.records.store, request.baseline
    ):
        raise measured_here(request.baseline)
    runs = given_scores.runs_of(request.scores, node.catalogue.benchmarks.all())
    notes = {run.benchmark: rows_note(node.catalogue.benchmarks, run) for run in runs}
    if request.check:
        async with node.records.store.write() as db:
            there = [await job_of_key(db, run.key(request.baseline, request.program)) for run in runs]
        views = [
            view(run, job, "would-add" if job is None else "there", notes[run.benchmark])
            for run, job in zip(runs, there, strict=True)
        ]
        return BaselineReply(model=request.baseline, items=tuple(views))
    session, views = "", []
    async with node.records.change() as change:
        if await is_measured(change.db, request.baseline):  # it was dispatched meanwhile
            raise measured_here(request.baseline)
        for run in runs:
            if (job := await job_of_key(change.db, run.key(request.baseline, request.program))) is not None:
                views.append(view(run, job, "there", notes[run.benchmark]))
                continue
            if not session:
                session = new_session_id()
                asked = as_json({"baseline": request.baseline, "from": request.source})
                await add_session(change.db, session, asked, node.records.hostname, (__version__, ""))
            job = await given_scores.add(change, request, run, session, caller().name)
            views.append(view(run, job, "added", notes[run.benchmark]))
    return BaselineReply(model=request.baseline, items=tuple(views), session=session)


def measured_here(model: str) -> RefusedError:
    """Return the refusal of scores for a name that a checkpoint, an endpoint or a job of this node has."""
    text = f"{model} is a model of this node; its scores and those of the file could not be told apart."
    return RefusedError("bad-request", text, f"Give another name, such as {model}-published.", Exit.USAGE)


def rows_note(benchmarks: NodeBenchmarks, run: GivenRun) -> str:
    """Return why none of our scores has as many rows; empty if one may have, or if that is not known."""
    extent = benchmarks.extent(benchmarks.get(run.benchmark))
    if extent is None or extent.rows == run.n:
        return ""
    return f"{run.benchmark} has {extent.rows:,} rows here, so none of our scores can be compared with one of {run.n:,}"


def view(run: GivenRun, job: int | None, outcome: Literal["added", "would-add", "there"], note: str) -> GivenScoreView:
    """Return what became of one run."""
    return GivenScoreView(
        outcome=outcome,
        benchmark=run.benchmark,
        kind=run.kind,
        job="" if job is None else f"j{job}",
        n=run.n,
        metrics=dict(run.metrics),
        note=note,
    )


async def pin(node: Node, request: BaselinePin) -> BaselinesReply:
    """Answer `POST /v1/baselines/pin`. Raises RefusedError for a model without a score, and for a pattern that has no
    pin to remove."""
    pattern = request.pattern
    if not pattern.strip() or not pattern.isprintable() or len(pattern) > LONGEST_PATTERN:
        raise RefusedError("bad-request", f"{pattern!r} is no pattern of model names.", "", Exit.USAGE)
    model = await scored_name(node, request.model) if request.model else ""
    if model and pattern == model:
        raise RefusedError("bad-request", f"{model} cannot be its own baseline.", "", Exit.USAGE)
    async with node.records.change() as change:
        others = [one for one in await pins_of(node.records.store) if one.pattern != pattern]
        if model and len(others) >= MOST_PINS:
            raise RefusedError("too-many", f"{MOST_PINS:,} baselines are pinned already.", "", Exit.REFUSED)
        if model:
            await set_pin(change.db, pattern, model, caller().name)
            await change.note("daemon", text=f"models {pattern} are compared with {model} from now on")
        elif await remove_pin(change.db, pattern):
            await change.note("daemon", text=f"models {pattern} have no pinned baseline any more")
        else:
            text = f"No baseline is pinned for {pattern}."
            raise RefusedError("no-such-pin", text, "`rwkvctl baseline` lists them.", Exit.NOT_FOUND)
    return await list_baselines(node, BaselinesRequest())


async def scored_name(node: Node, word: str) -> str:
    """Return the name of a model that has a score. Raises RefusedError for another word."""
    side = await named(node.records, word)
    if side.job or "@" in side.label:
        text = f"{word} is one run: a baseline is a model, whose newest scores count."
        raise RefusedError("bad-request", text, "", Exit.USAGE)
    scores = [one.view.model for candidates in side.scores.values() for one in candidates]
    return side.label if side.label in scores else scores[0]  # the name under which its weights were measured
