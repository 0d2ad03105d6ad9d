"""Putting the feedback on a checkpoint together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare import score_comparison
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.compare.part_score import score_of_part
from rwkv_daemon.compare.pinned_baselines import pinned_for
from rwkv_daemon.compare.row_parts import RowPart
from rwkv_daemon.compare.score_comparison import CandidateScore, ComparedSide, Key
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.store import JobRow, WatchedRow
from rwkv_daemon.store.queries.comparing import GradedRun, scores_of_jobs
from rwkv_daemon.store.queries.jobs import job_or_deleted
from rwkv_daemon.training.feedback.best_so_far import BestSoFar, ObjectiveValues, best_of
from rwkv_daemon.training.feedback.collapse import fell_to_chance, is_above_chance, is_at_chance
from rwkv_daemon.training.feedback.error_samples import ErrorReader, WrongRows
from rwkv_daemon.training.folders.watched_folder import LEFT_OUT, WatchedFolder, watched_view
from rwkv_data.definition.errors import DataError
from rwkv_data.definition.suites import SEARCH_OF
from rwkv_data.scoring import metric_names, paired_tests
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.requests import CompareRequest
from rwkvctl.protocol.training.feedback import (
    ALPHA,
    BenchmarkFeedback,
    CheckpointScores,
    ErrorSample,
    FeedbackReply,
    MissingScore,
    RowPartName,
)
from rwkvctl.protocol.views import ComparisonView, MetricView, ScoreView

PLAIN: Final = CompareRequest(a="", b="")


@dataclass(frozen=True, slots=True)
class FeedbackSources:
    """What a feedback is made of."""

    records: Records
    catalogue: NodeCatalogue
    comparisons: Comparisons


@dataclass(frozen=True, slots=True)
class FeedbackQuestion:
    """On which checkpoint of a folder a feedback is: the one at `target` among `rows`, the measured ones in the order
    of their steps, or the `best` of them; and on which `part` of the rows. `objective`: the benchmarks and kinds by
    which the best is found."""

    folder: WatchedFolder
    rows: Sequence[WatchedRow]
    target: int
    objective: Sequence[Key]
    part: RowPartName = "all"
    best: bool = False

    @property
    def choosing_part(self) -> RowPartName:
        """The rows by which the best is found: never those that are held back."""
        return "search" if self.part == "report" else self.part


class MeasuredCheckpoint(NamedTuple):
    """A checkpoint of which jobs are queued or done, with the scores of these."""

    row: WatchedRow
    side: ComparedSide


class EarlierCheckpoints(NamedTuple):
    """What a checkpoint is measured by: the best so far, if it is another one, and those before it that it may have
    fallen from."""

    best: ComparedSide | None
    before: Sequence[ComparedSide]


async def feedback(sources: FeedbackSources, asked: FeedbackQuestion, progress: QuestionProgress) -> FeedbackReply:
    """Return the feedback that is asked for. Raises RefusedError if it is on the best checkpoint, and none is known."""
    parts = sources.comparisons.parts
    shown, choosing = (
        None if name == "all" else RowPart(name, sources.catalogue, parts) for name in (asked.part, asked.choosing_part)
    )
    names = sorted({benchmark for benchmark, _ in asked.objective})
    measured = [MeasuredCheckpoint(row, ComparedSide(row.name, row.model)) for row in asked.rows]
    if names:
        measured = await measured_checkpoints(sources, asked.rows, names)
    return await FeedbackReader(sources, asked, shown, choosing, measured, progress).reply()


async def measured_checkpoints(
    sources: FeedbackSources, rows: Sequence[WatchedRow], benchmarks: Sequence[str] = ()
) -> list[MeasuredCheckpoint]:
    """Return checkpoints with their scores, of these benchmarks or of all. Searches measure nothing, and are left
    out."""
    numbers = sorted({number for row in rows for number in row.job_numbers})
    by_job: dict[int, list[tuple[int, str, str]]] = {}
    for one in await scores_of_jobs(sources.records.store, numbers, benchmarks):
        by_job.setdefault(one["id"], []).append((one["id"], one["grade_key"], one["view"]))
    found = []
    for row in rows:
        side = ComparedSide(row.name, row.model)
        side.add(score for number in dict.fromkeys(row.job_numbers) for score in by_job.get(number, ()))
        side.scores = {key: scores for key, scores in side.scores.items() if not key[1].startswith(SEARCH_OF)}
        found.append(MeasuredCheckpoint(row, side))
        await asyncio.sleep(0)
    return found


@dataclass(frozen=True, slots=True)
class FeedbackReader:
    """Reads what one feedback needs. `part`: the rows that it shows, `choosing`: those by which the best is found; all
    if there is none. `measured`: every checkpoint with its scores of the objective."""

    sources: FeedbackSources
    asked: FeedbackQuestion
    part: RowPart | None
    choosing: RowPart | None
    measured: Sequence[MeasuredCheckpoint]
    progress: QuestionProgress

    async def reply(self) -> FeedbackReply:
        """Return the feedback on the checkpoint that is asked for, with all comparisons. Raises RefusedError if that is
        the best one, and none is known."""
        folder, asked = self.asked.folder, self.asked
        values = [objective_values([await self.view(one.side, key, self.choosing) for one in self.measured])
                  for key in asked.objective]  # fmt: skip

        async def against(a: int, b: int) -> list[ComparisonView]:
            one, other = self.measured[a].side, self.measured[b].side
            return [await self.compare(one, other, key, self.choosing) for key in asked.objective]

        best = await best_of(values, against)
        if asked.best and best is None:
            text = f"Which checkpoint of {folder.row.called} is the best is not known: {self.why_best(values, best)}."
            raise RefusedError("no-best", text, "", Exit.NOT_FOUND)
        place = best.place if best and asked.best else asked.target
        rival = best.place if best and best.place != place else None
        earlier = {one for one in (rival, place - 1) if one is not None and 0 <= one < place}
        [target] = await measured_checkpoints(self.sources, [asked.rows[place]])
        places = [one for one in (rival, *earlier) if one is not None]
        sides = [one.side for one in await measured_checkpoints(self.sources, [asked.rows[each] for each in places])]
        known = EarlierCheckpoints(sides.pop(0) if rival is not None else None, sides)
        baseline = await self.baseline(target.row.model)
        jobs = [(number, await job_or_deleted(self.sources.records.store, number)) for number in target.row.job_numbers]
        missing = tuple(missing_score(number, job) for number, job in jobs if job is None or job.state != "done")
        return FeedbackReply(
            watch=folder.row.called,
            name=folder.row.name,
            checkpoint=watched_view(target.row),
            part=asked.part,
            suite=folder.selection.suite,
            baseline=baseline.label if baseline else "",
            objective=tuple(" ".join(filter(None, key)) for key in asked.objective),
            best=self.measured[best.place].row.name if best else "",
            best_model=self.measured[best.place].row.model if best else "",
            best_why=self.why_best(values, best),
            asked=len(jobs),
            done=len(jobs) - len(missing),
            missing=missing,
            left_out=target.row.reason if LEFT_OUT in target.row.reason else "",
            items=tuple(await self.items(target, baseline, known)),
            checkpoints=tuple([one async for one in self.overview(best)]),
        )

    async def baseline(self, model: str) -> ComparedSide | None:
        """Return the pinned baseline of a model with its scores; None if there is none."""
        name = await pinned_for(self.sources.records.store, model)
        if not name:
            return None
        try:
            return await score_comparison.named(self.sources.records, name)
        except RefusedError:  # its scores are gone
            return None

    async def view(self, side: ComparedSide, key: Key, part: RowPart | None) -> ScoreView | None:
        """Return the score that a side has of a benchmark and kind, of a part of the rows."""
        if key not in side.scores:
            return None
        candidate = side.scores[key][0]
        if part is None:
            return candidate.view
        self.progress.said = f"scores of a part of the rows, now {' '.join(key)} of {side.label}"
        try:
            return await score_of_part(self.sources.records, self.sources.comparisons, part, candidate)
        except DataError as error:
            return without_value(candidate.view, f"which rows are held back cannot be told: {error}")

    async def compare(self, a: ComparedSide, b: ComparedSide, key: Key, part: RowPart | None) -> ComparisonView:
        """Compare one benchmark and kind of two sides, on a part of the rows."""
        if key not in a.scores:
            why = f"{a.label} has no score of it"
            return ComparisonView(benchmark=key[0], kind=key[1], verdict="not comparable", why=why)
        self.progress.before = f"{' '.join(key)} of {a.label} and {b.label}: "
        return await score_comparison.compare_one(
            self.sources.records, self.sources.comparisons, PLAIN, a.scores[key], b.scores[key], self.progress, part
        )

    async def items(
        self, target: MeasuredCheckpoint, baseline: ComparedSide | None, known: EarlierCheckpoints
    ) -> list[BenchmarkFeedback]:
        """Return what is said of each benchmark and kind. Each family of comparisons is adjusted for its number."""
        keys = sorted(target.side.scores)
        of_baseline, of_best = [
            [None] * len(keys) if side is None else await self.family(side, target.side, keys)
            for side in (baseline, known.best)
        ]
        found = []
        for key, *compared in zip(keys, of_baseline, of_best, strict=True):
            item = structs.replace(await self.item(target.side, key), baseline=compared[0], best=compared[1])
            item = structs.replace(item, collapsed=await self.fall(target.side, key, known.before))
            sides = [(known.best, compared[1]), (baseline, compared[0])]
            paired = next(((side, one) for side, one in sides if side and one and is_paired(one)), None)
            found.append(await self.with_errors(item, target.side.scores[key], *(paired or (None, None))))
        return found

    async def family(self, a: ComparedSide, b: ComparedSide, keys: Sequence[Key]) -> list[ComparisonView]:
        """Return comparisons with p adjusted for their number."""
        return score_comparison.with_verdicts([await self.compare(a, b, key, self.part) for key in keys], ALPHA)

    async def item(self, side: ComparedSide, key: Key) -> BenchmarkFeedback:
        """Return the value of a benchmark and kind."""
        view = await self.view(side, key, self.part)
        assert view is not None
        return BenchmarkFeedback(
            benchmark=key[0],
            kind=key[1],
            job=view.job,
            metric=view.primary,
            value=view.metrics.get(view.primary, MetricView(value=None)),
            rows=view.rows,
            samples=view.n,
            truncated=view.truncated,
            no_answer=view.no_answer,
            chance=view.chance,
            why_null=view.why_null,
            warnings=view.warnings,
        )

    async def fall(self, side: ComparedSide, key: Key, before: Sequence[ComparedSide]) -> str:
        """Return how a checkpoint fell to chance from an earlier one; empty if it did not."""
        view = await self.view(side, key, self.part)
        if view is None or not is_at_chance(view):
            return ""
        for other in before:
            earlier = await self.view(other, key, self.part)
            if earlier is None or not is_above_chance(earlier):
                continue
            compared = await self.compare(other, side, key, self.part)
            if fell_to_chance(earlier, compared, len(side.scores)):
                values = (score_comparison.headline(view), score_comparison.headline(earlier), view.chance)
                now, then, chance = (f"{100 * (value or 0):.1f} %" for value in values)
                return f"it fell to chance: {now}, {then} in {other.label}, {chance} by chance"
        return ""

    async def with_errors(
        self,
        item: BenchmarkFeedback,
        scores: Sequence[CandidateScore],
        side: ComparedSide | None,
        compared: ComparisonView | None,
    ) -> BenchmarkFeedback:
        """Return a benchmark with what the checkpoint gets wrong, where that can be said of single rows: first what the
        side that it was compared with has right."""
        if metric_names.unit(item.metric) != "share":
            return item
        number = compared.job_b if compared else item.job
        run = run_of(scores, number)
        other = None
        if side is not None and compared is not None:
            other = run_of(side.scores[item.benchmark, item.kind], compared.job_a)
        try:
            job = await score_comparison.stored_job(self.sources.records.store, run.job)
            kept = await self.part.rows_of(job) if self.part else None
            reader = ErrorReader(self.sources.records, self.sources.catalogue, job, run, other, kept)
            self.progress.before = f"errors of {item.benchmark} {item.kind}: "
            wrong = await reader.read(self.progress)
            errors = await reader.shown(wrong)
        except DataError:  # the benchmark, or what tells its rows apart, is gone; its value says so
            return item
        return with_wrong_rows(item, wrong, errors, side.label if side else "")

    def why_best(self, values: Sequence[ObjectiveValues], best: BestSoFar | None) -> str:
        """Return why a checkpoint is the best so far, or why none is."""
        by = " and ".join(" ".join(filter(None, key)) for key in self.asked.objective)
        if not by:
            return self.why_no_objective()
        if best is None:
            return f"no checkpoint has a score of {by}"
        if best.among == 1:
            return f"it is the only one with a score of {by}"
        names = [one.row.name for one in self.measured]
        found = "it is the first one" if best.before is None else f"it is better by {by} than {names[best.before]}"
        found += f", and no later one is shown to be better{'' if best.before else f' by {by}'}" if best.later else ""
        highest = highest_of(values[0]) if len(values) == 1 else best.place
        if highest != best.place:
            found += f"; {names[highest]} has a better value, which may be luck"
        if best.unclear:
            found += f"; not comparable with it: {', '.join(names[place] for place in best.unclear[:3])}"
            found += ", ..." * (len(best.unclear) > 3)
        return found

    def why_no_objective(self) -> str:
        """Return why there is nothing by which a checkpoint could be the best."""
        suite = self.asked.folder.selection.suite
        of_suite = f"the suite {suite} declares no objective"
        return of_suite if suite else "several benchmarks are measured, and only a suite declares an objective"

    async def overview(self, best: BestSoFar | None) -> AsyncIterator[CheckpointScores]:
        """Yield every measured checkpoint with its values of the objective."""
        for place, one in enumerate(self.measured):
            views = [await self.view(one.side, key, self.part) for key in self.asked.objective]
            values = tuple(view.metrics.get(view.primary) if view else None for view in views)
            yield CheckpointScores(
                name=one.row.name, model=one.row.model, state=one.row.state, step=one.row.step, values=values,
                best=best is not None and best.place == place,
            )  # fmt: skip


def objective_values(views: Sequence[ScoreView | None]) -> ObjectiveValues:
    """Return the values of one objective."""
    metrics = [view.primary for view in views if view is not None]
    lower = bool(metrics) and paired_tests.lower_is_better(metrics[0])
    return ObjectiveValues([score_comparison.headline(view) if view else None for view in views], lower)


def highest_of(values: ObjectiveValues) -> int:
    """Return the place of the best value; of equal ones the first."""
    known = [(value, place) for place, value in enumerate(values.values) if value is not None]
    pick = min if values.lower_is_better else max
    best = pick(value for value, _ in known)
    return next(place for value, place in known if value == best)


def is_paired(found: ComparisonView) -> bool:
    """Whether two sides were compared row by row."""
    return found.p is not None and not found.unpaired


def run_of(scores: Sequence[CandidateScore], job: str) -> GradedRun:
    """Return the graded samples behind the score of a job, one of these."""
    found = next(one for one in scores if one.view.job == job)
    return GradedRun(found.job, found.grade_key)


def with_wrong_rows(
    item: BenchmarkFeedback, wrong: WrongRows, errors: tuple[ErrorSample, ...], against: str
) -> BenchmarkFeedback:
    """Return a benchmark with what was read of its samples."""
    collapsed = wrong.answers.problem or item.collapsed
    return structs.replace(
        item, wrong=wrong.wrong, lost=wrong.lost, lost_against=against, errors=errors, collapsed=collapsed
    )


def without_value(view: ScoreView, why: str) -> ScoreView:
    """Return a score of which nothing may be shown, and why."""
    none = {name: MetricView(value=None, unit=metric.unit) for name, metric in view.metrics.items()}
    return structs.replace(view, metrics=none, why_null=why, truncated=0, no_answer=0, rows=0, n=0, warnings=())


def missing_score(number: int, job: JobRow | None) -> MissingScore:
    """Return a job of a checkpoint that has no score, and why."""
    if job is None:  # it was deleted and pruned
        return MissingScore(job=f"j{number}", benchmark="", kind="", state="deleted")
    why = ": ".join(filter(None, (job.failure, job.detail or job.reason)))
    return MissingScore(job=job.name, benchmark=job.benchmark, kind=job.kind, state=job.state, why=why)
