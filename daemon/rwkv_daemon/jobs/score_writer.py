"""The score of a finished job: statistics over its graded samples, and the provenance."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs import run_archive
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.store import JobRow, NewJob
from rwkv_daemon.store.queries.engines import get_engine
from rwkv_daemon.store.queries.gpus import contended
from rwkv_daemon.store.queries.jobs import attempts_of
from rwkv_daemon.store.queries.samples import GradedSample, add_score, graded, totals
from rwkv_daemon.store.queries.searches import chosen_on
from rwkv_daemon.store.queries.sessions import selection_of, session_row
from rwkv_daemon.store.queries.shared_completions import TAKEN
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import DataError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.row_window import Extent
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.scoring import score
from rwkvctl import __version__
from rwkvctl.protocol.endpoints import is_endpoint, name_of
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.views import MetricView, ScoreView
from rwkvctl.text.quantities import several


class OtherWeightsError(Exception):
    """An engine with other weights than the job's has answered: the score would be another model's."""


async def store_score(
    records: Records,
    judges: Judges,
    catalogue: NodeCatalogue,
    job: JobRow,
    end: Callable[[Change], Awaitable[None]],
    judge: dict[str, object] | None = None,
) -> None:
    """Compute and store the score, and finish the job, in one transaction. `judge` is what the score says of its judge.
    Raises OtherWeightsError."""
    view = await score_view(records, catalogue, job)
    if judge:
        view = msgspec.structs.replace(view, provenance=view.provenance | {"judge": judge})
    checking = "wanted" if judges.checker and await wants_checker(records, catalogue, job) else job.checking
    await finish(records, job, view, end, checking=checking)


async def finish(
    records: Records, job: JobRow, view: ScoreView, end: Callable[[Change], Awaitable[None]], **columns: Any
) -> None:
    """Store a score and finish its job, with other columns, in one transaction."""
    crash_point("before-score-commit")
    async with records.change() as change:
        await end(change)
        finished = await change.move(job, "finish", engine=None, **columns)
        view = msgspec.structs.replace(view, finished=finished.finished)
        await add_score(change.db, job.id, job.grade_key, finished.finished, msgspec.json.encode(view).decode())
        text = f"{job.model} {job.benchmark} {job.kind}: {headline(view)}"
        data = json.loads(msgspec.json.encode(view))
        await change.note("job.score", job=job.name, session=job.session, text=text, data=data)
    crash_point("after-score-commit")
    await run_archive.keep_score(records, job.id, job.grade_key)


async def wants_checker(records: Records, catalogue: NodeCatalogue, job: JobRow) -> bool:
    """Whether wrong answers of a job are checked: those of text answers, unless the dispatch said not to."""
    found = await selection_of(records.store, job.session)
    selection = msgspec.json.decode(found, type=Selection) if found else Selection()
    kind = effective_kind(catalogue, job)
    return kind.samples_tokens and kind.search is None and not selection.disable_checker and job.measures


async def score_view(records: Records, catalogue: NodeCatalogue, job: JobRow) -> ScoreView:
    """Return the score as it is stored and shown."""
    rows, problem = await asyncio.to_thread(asked_rows, records, catalogue, job)
    kind = effective_kind(catalogue, job)
    if job.has_variants:
        kind = replace(kind, repeats=job.repeats, metrics=("accuracy",))
    samples = await graded(records.store, job.id, job.grade_key)
    result = await asyncio.to_thread(statistics, kind, samples, rows)
    if job.source_job is not None:
        result = of_rewriting(job, result, samples)
    found = await totals(records.store, job.id)
    return ScoreView(
        job=job.name,
        model=job.model,
        benchmark=job.benchmark,
        kind=job.kind,
        version=job.version,
        **counted(result, found.generated_tokens),
        partial=is_partial(catalogue, job),
        training=catalogue.benchmarks.get(job.benchmark).training,
        why_null=result["reason"] if job.source_job is not None else why_null(job, result),
        warnings=(*warnings_of(result, kind), *await selected_on_test(records, job, kind)),
        session=job.session,
        source_job=f"j{job.source_job}" if job.source_job is not None else "",
        provenance=await provenance(records, job, result, problem),
    )


def statistics(kind: Kind, samples: Iterable[GradedSample], rows: Sequence[Row] | None) -> dict[str, Any]:
    """Return the statistics that `rwkv_data.scoring.score` computes from graded samples."""
    plain = [
        (s.row, s.repeat, s.value, whole_stop(kind, s.stops, s.text), s.extracted, s.reason, s.route, s.parts)
        for s in samples
    ]
    return score.score(kind, plain, rows)


def of_rewriting(job: JobRow, result: dict[str, Any], samples: Sequence[GradedSample]) -> dict[str, Any]:
    """Return the statistics of a rewriting: its counts and no score, because only what was right was rewritten."""
    there = [sample for sample in samples if sample.reason != "dropped"]
    right = sum(sample.value is not None and sample.value >= 1 for sample in there)
    errors = sum(sample.reason == "error" for sample in there)
    counted = several(len(there), "variant" if job.has_variants else "sample")
    does = "makes variants of samples of" if job.has_variants else "rewrites"
    reason = f"it {does} j{job.source_job}, and measures nothing: of {counted} {right:,} are right after it"
    if errors:
        reason += f"; `rwkvctl delete {job.name}`, then rewrite again, to ask about {several(errors, 'failed sample')}"
    none = dict.fromkeys(("value", "stderr", "ci_low", "ci_high"))
    metrics = {name: none | {"unit": metric["unit"]} for name, metric in result["metrics"].items()}
    return {name: result[name] for name in result if name not in {"curves", "groups", "macro"}} | {
        "metrics": metrics, "reason": reason, "errors": errors,
    }  # fmt: skip


def counted(result: dict[str, Any], generated_tokens: int) -> dict[str, Any]:
    """Return the fields of a score that are statistics."""
    same = ("primary", "n", "rows", "repeats", "scored", "truncated", "no_answer", "timeouts", "unjudged", "errors")
    return {
        **{name: result[name] for name in (*same, "chance")},
        "metrics": {name: MetricView(**values) for name, values in result["metrics"].items()},
        "completion_tokens": generated_tokens / max(1, result["n"]),
    }


def why_null(job: JobRow, result: dict[str, Any]) -> str:
    """Return why there is no score, and what would give one: a job with all completions is graded again, any other is
    not."""
    if not result["reason"]:
        return ""
    if job.stages_done < job.stages_total and result["errors"]:
        return f"{result['reason']}; `rwkvctl dispatch --overwrite` measures it again"
    remedy = f"; `rwkvctl regrade {job.name}` tries them again" if result["unjudged"] or result["errors"] else ""
    return f"{result['reason']}{remedy}"


TRUNCATED_SHARE: Final = 0.01
"""Above this share of samples that the token limit cut off, a score has a warning."""


def warnings_of(result: dict[str, Any], kind: Kind) -> tuple[str, ...]:
    """Return the warnings about the score for a reader."""
    found = []
    if picks := " ".join(f"{name}={text}" for name, text in kind.picks.items() if text and name != "order"):
        found.append(f"only the rows with {picks} were asked")
    if kind.order:
        found.append(f"the rows were asked in the order of {kind.order}")
    if result["n"] and result["truncated"] / result["n"] > TRUNCATED_SHARE:
        share = 100 * result["truncated"] / result["n"]
        found.append(f"{share:.1f} % of the samples were cut off at the token limit: raise max_tokens")
    if kind.search:
        found.append("the best of many points, chosen on these rows: measure it on the others with --set part=report")
    elif kind.part == "search":
        found.append("only the rows that are set aside for choosing settings were asked")
    return tuple(found)


async def selected_on_test(records: Records, job: JobRow, kind: Kind) -> list[str]:
    """Return a warning if the job's settings were chosen by a search on rows that are among its own, which makes the
    score optimistic."""
    if kind.search or kind.part == "report":
        return []
    searches = await chosen_on(records.store, job.model, job.benchmark, json.loads(job.settings))
    return [f"its settings were chosen on some of these rows ({', '.join(searches)}): optimistic"] if searches else []


def is_partial(catalogue: NodeCatalogue, job: JobRow) -> bool:
    """Return whether `--limit`, `rows`, `where` or `order` made the job ask fewer rows than the kind has. Where that
    cannot be counted any more, all but the limit count as having left rows out."""
    kind, extent = set_kind(catalogue, job), extent_asked(catalogue, job)
    if job.row_limit is None and not kind.picks_rows:
        return False
    if extent is None or kind.rows_problem(extent):
        return kind.picks_rows
    return job.total < kind.sized(extent).unpicked.rows_asked(extent) * job.repeats


def whole_stop(kind: Kind, stops: Sequence[str], text: str) -> str:
    """Return how a sample ended as the kind sees it, from how its stages stopped and the last one's text; a sample
    without any stage is an error."""
    if not stops:
        return "error"
    return kind.stop(Answer(text=text, stops=tuple(filter(None, stops))))  # type: ignore[arg-type]  # stored stop kinds


def effective_kind(catalogue: NodeCatalogue, job: JobRow) -> Kind:
    """Return the job's kind with its settings applied. Where its rows cannot be told any more, it asks as many as the
    job has."""
    kind, extent = set_kind(catalogue, job), extent_asked(catalogue, job)
    if extent is None or kind.rows_problem(extent):
        return kind.unpicked.sized(Extent(job.total // max(1, job.repeats)))
    return kind.sized(extent)


def set_kind(catalogue: NodeCatalogue, job: JobRow) -> Kind:
    """Return the job's kind with its settings, not yet sized for the rows."""
    kind = catalogue.benchmarks.kind_of(job.benchmark, job.kind)
    return kind.with_known_settings(json.loads(job.settings))


def extent_asked(catalogue: NodeCatalogue, job: JobRow) -> Extent | None:
    """Return the extent of the benchmark's rows; None if they are gone, or if the job picked its rows among others."""
    benchmark = catalogue.benchmarks.get(job.benchmark)
    manifest = catalogue.benchmarks.manifest(benchmark)
    if manifest is None or (manifest.sha256 != job.rows_sha256 and set_kind(catalogue, job).picks_rows):
        return None
    return catalogue.benchmarks.extent(benchmark)


def asked_rows(records: Records, catalogue: NodeCatalogue, job: JobRow) -> tuple[list[Row] | None, str]:
    """Return the rows the job asked, without examples, for chance level and groups; or why they cannot be read any
    more."""
    kind, benchmark, extent = set_kind(catalogue, job), catalogue.benchmarks.get(job.benchmark), None
    if kind.picks_rows and ((extent := extent_asked(catalogue, job)) is None or kind.rows_problem(extent)):
        return None, "which rows it asked cannot be told any more"
    kind = effective_kind(catalogue, job)
    try:
        asked = prepared_sets.load_asked(records.config.data_dir, benchmark, replace(kind, shots=None), job.row_limit)
    except DataError as error:
        return None, str(error)
    return (asked, "") if len(asked) * job.repeats == job.total else (None, "the rows have changed since")


async def provenance(
    records: Records, job: JobRow, result: dict[str, Any], problem: str, named: Sequence[str] = ()
) -> dict[str, object]:
    """Return everything that is needed to decide whether two scores may be compared. `named` are the engines that
    answered, where the samples do not say. Raises OtherWeightsError."""
    found = await totals(records.store, job.id)
    session = await session_row(records.store, job.session)
    answered = [name for name in named or found.engines if not is_endpoint(name)]
    engines = [await get_engine(records.store, int(name[1:])) for name in answered]
    others = [engine.name for engine in engines if engine and engine.weights_sha256 != job.weights_sha256]
    if others or not job.generation_key:
        raise OtherWeightsError(f"{', '.join(others) or 'the job'} was not of the weights that were dispatched")
    extra = breakdowns(result)
    if is_endpoint(job.weights_path):
        extra["endpoint"] = {"name": name_of(job.weights_path)} | records.folder(job.id).read_endpoint()
    if shared := await contended(records.store, [engine.lease for engine in engines if engine], job.started, now()):
        extra["contended"] = shared  # another process computed there meanwhile: answers are valid, timings are not
    if shared_by := [
        one.why.removeprefix(TAKEN) for one in await attempts_of(records.store, job.id) if one.why.startswith(TAKEN)
    ]:
        extra["completions_of"] = shared_by[0]
    return {
        **asked(job),
        "rwkvctl_version": __version__,
        "git_commit": session["git_commit"] if session else "",
        "engines": [json.loads(engine.health) | {"lease": engine.lease} for engine in engines if engine],
        "attempts": job.attempt,
        "prompt_tokens": found.prompt_tokens,
        "cached_tokens": found.cached_tokens,
        "generated_tokens": found.generated_tokens,
        "host": records.hostname,
        "queued": job.queued,
        "started": job.started,
        "scored": now(),
        **extra,
        **({"rows_problem": problem} if problem else {}),
    }


def breakdowns(result: dict[str, Any]) -> dict[str, object]:
    """Return the statistics that have no field of their own in a score."""
    return {name: result[name] for name in ("groups", "macro", "routes", "curves", "search") if result.get(name)}


def asked(job: JobRow | NewJob) -> dict[str, object]:
    """Return what was asked, of which weights, and how it is graded."""
    return {
        "weights_name": Path(job.weights_path).name,
        "weights_sha256": job.weights_sha256,
        "rows_sha256": job.rows_sha256,
        "benchmark_version": job.benchmark_version,
        "grader": job.grader,
        "grader_version": job.grader_version,
        "grading": json.loads(job.grading),
        "configuration": json.loads(job.configuration),
        "settings": json.loads(job.settings),
        "seed": job.seed,
        "limit": job.row_limit,
        "numerics": job.numerics,
        "generation_key": job.generation_key,
        "grade_key": job.grade_key,
    }


def headline(view: ScoreView) -> str:
    """Return `accuracy 91.3 % [87.6, 94.0]`, or why there is no score."""
    metric = view.metrics[view.primary]
    if metric.value is None:
        return f"no score: {view.why_null}"
    scale, sign, digits = (100, " %", 1) if metric.unit == "share" else (1, "", 3)
    said = f"{view.primary} {scale * metric.value:.{digits}f}{sign}"
    if metric.ci_low is None or metric.ci_high is None:
        return said
    return f"{said} [{scale * metric.ci_low:.{digits}f}, {scale * metric.ci_high:.{digits}f}]"
