"""`compare`: which scores two names mean, whether they may be compared, and what pairing their samples shows."""

import asyncio
import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product

import msgspec

from rwkv_daemon.catalogue import second_names
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare import pinned_baselines, unpaired
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.compare.flips import with_cuts
from rwkv_daemon.compare.row_parts import RowPart
from rwkv_daemon.rules.comparability import decisive_differences, harmless_differences, is_imported, rows_picked
from rwkv_daemon.rules.plan import SelectionError, slug
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.samples.paired_reading import count_up, first_parted, flips_of, tally_up
from rwkv_daemon.samples.paired_samples import (
    MOST_FLIPS,
    KeptRows,
    PairTally,
    compared,
    pair_up,
    same_rows,
    unpairable,
)
from rwkv_daemon.store import JobRow, Store
from rwkv_daemon.store.queries.comparing import (
    GradedRun,
    scored_models,
    scores_of_job,
    scores_of_model,
    scores_of_weights,
)
from rwkv_daemon.store.queries.jobs import get_job, who_does
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError, RowsDamagedError
from rwkv_data.scoring import metric_names, paired_tests
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import CompareReply
from rwkvctl.protocol.requests import CompareRequest
from rwkvctl.protocol.views import ComparisonView, ScoreView
from rwkvctl.text.shell_words import as_typed

Key = tuple[str, str]
"""(benchmark, kind)."""

CANDIDATES = 12
"""Newest scores of a side that are tried to find a comparable pair."""

REMEMBERED = 5000
"""Comparisons of two scores that are kept, of about a kilobyte each."""

NOT_YET = "the verdict follows when all benchmarks are compared"

decoder = msgspec.json.Decoder(ScoreView)


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """A score that a name may mean."""

    job: int
    grade_key: str
    view: ScoreView

    @property
    def identity(self) -> tuple[int, str, str]:
        """Return a key that differs for every score, and for the same job graded again."""
        return self.job, self.grade_key, self.view.finished

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Return the sort key: our own scores before imported ones, whole before partial, then the newest."""
        return is_imported(self.view), self.view.partial, -self.job


@dataclass(slots=True)
class ComparedSide:
    """One side of a comparison (A or B): its label, its model, and its scores by benchmark and kind, best ranked
    first."""

    label: str
    model: str = ""
    scores: dict[Key, list[CandidateScore]] = field(default_factory=dict)
    job: int = 0

    def add(self, rows: Iterable[tuple[int, str, str]]) -> "ComparedSide":
        """Add scores, given as (job, grade key, view as JSON)."""
        found = [CandidateScore(job, key, decoder.decode(view)) for job, key, view in rows]
        for one in sorted(found, key=lambda candidate: candidate.rank):
            self.scores.setdefault((one.view.benchmark, one.view.kind), []).append(one)
        return self


async def answer(
    records: Records, catalogue: NodeCatalogue, comparisons: Comparisons, request: CompareRequest
) -> CompareReply:
    """Return the comparison, or how far it is. Raises RefusedError for names without a score."""
    question = msgspec.structs.replace(request, partial=False)
    found = await comparisons.questions.answer(
        question, partial(compare, records, catalogue, comparisons, question), patient=not request.partial
    )
    if isinstance(found, CompareReply):
        return found
    items = tuple(msgspec.structs.replace(item, why=NOT_YET) for item in found.done)
    return CompareReply(a=request.a, b=request.b, alpha=request.alpha, items=items, counts={}, looking=found.sentence)


async def compare(
    records: Records,
    catalogue: NodeCatalogue,
    comparisons: Comparisons,
    request: CompareRequest,
    progress: QuestionProgress | None = None,
) -> CompareReply:
    """Compare every benchmark and kind that both sides have. Raises RefusedError for names without a score."""
    if not 0 < request.alpha < 1:
        raise RefusedError("bad-request", f"alpha must lie between 0 and 1, not {request.alpha:g}.", "", Exit.USAGE)
    progress = progress or QuestionProgress()
    b = await named(records, request.b)
    a = await named(records, request.a or await pinned_baseline(records, b))
    match_jobs(a, b)
    wanted = keys_wanted(request, catalogue.benchmarks.all(), a, b)
    common = [key for key in wanted if key in a.scores and key in b.scores]
    items: list[ComparisonView] = []
    for key in common:
        progress.before = f"{len(items)} of {len(common)} benchmarks, now {' '.join(key)}: " if len(common) > 1 else ""
        item = await compare_one(records, comparisons, request, a.scores[key], b.scores[key], progress)
        items.append(await with_cuts(records, catalogue, item) if item.flips else item)
        progress.done = tuple(items)
    asked = [missing(key, a, b) for key in wanted if key not in common] if request.benchmarks else []
    items = with_verdicts(items, request.alpha) + asked
    return CompareReply(
        a=a.label,
        b=b.label,
        alpha=request.alpha,
        items=tuple(items),
        counts=dict(Counter(item.verdict for item in items)),
        only_a=tuple(" ".join(key) for key in wanted if key not in b.scores and key in a.scores),
        only_b=tuple(" ".join(key) for key in wanted if key not in a.scores and key in b.scores),
    )


async def pinned_baseline(records: Records, b: ComparedSide) -> str:
    """Return the baseline that is pinned for a side's model. Raises RefusedError if there is none."""
    if not (found := await pinned_baselines.pinned_for(records.store, b.model)):
        hint = f"--baseline names one, and `{as_typed(('rwkvctl', 'baseline', 'pin', 'MODEL', '--for', b.model))}` "
        hint += "keeps it; `rwkvctl baseline` lists those that are pinned."
        raise RefusedError("no-baseline", f"No baseline is pinned for {b.model}.", hint, Exit.USAGE)
    return found


async def named(records: Records, word: str) -> ComparedSide:
    """Return the scores of a job's name, a model's name or MODEL@VERSION. Raises RefusedError if there are none."""
    store = records.store
    if re.fullmatch(r"j\d{1,17}", word, re.ASCII):
        return await named_job(store, int(word[1:]))
    model, at, version = word.rpartition("@")
    name = await second_names.whole_name(records, word)
    rows, label = await scores_of_model(store, name), name
    weights = second_names.weights_called(name, await second_names.names_of_weights(records))
    others = await scores_of_weights(store, weights, name)
    if not rows and not others and at and re.fullmatch(r"\d{1,9}", version, re.ASCII):
        name = await second_names.whole_name(records, model)
        rows, label = await scores_of_model(store, name, int(version)), f"{name}@{version}"
    if not rows and not others:
        close = difflib.get_close_matches(word, await scored_models(store), 1, 0.5)
        hint = f"Did you mean {close[0]}?" if close else "`rwkvctl scores` lists what there is."
        raise RefusedError("no-such-score", f"There is no score of {word}.", hint, Exit.NOT_FOUND)
    found = ComparedSide(label, name).add((row["id"], row["grade_key"], row["view"]) for row in rows)
    stand_ins = ComparedSide(label, name).add((row["id"], row["grade_key"], row["view"]) for row in others)
    for key, scores in stand_ins.scores.items():  # what came without samples takes the place of none that has some
        if not with_samples(found.scores.get(key, ())):
            found.scores[key] = scores
    return found


async def named_job(store: Store, number: int) -> ComparedSide:
    """Return a side with the score of one job. Raises RefusedError if there is no such job or it has no score."""
    job = await get_job(store, number)
    if job is None:
        raise RefusedError("no-such-job", f"There is no job j{number}.", "`rwkvctl jobs` lists them.", Exit.NOT_FOUND)
    rows = await scores_of_job(store, number)
    if second_names.is_same_work(job):
        twin = await who_does(store, job.generation_key, job.grade_key, job.id)
        rows = await scores_of_job(store, int(twin.job[1:])) if twin and twin.done else []
    if not rows:
        raise RefusedError("no-such-score", f"{job.name} is {job.state} and has no score.", "", Exit.NOT_FOUND)
    label = f"{job.name} ({job.model})"
    return ComparedSide(label, job.model, job=number).add((row["id"], row["grade_key"], row["view"]) for row in rows)


def match_jobs(a: ComparedSide, b: ComparedSide) -> None:
    """Give two jobs of one benchmark the same key although their kinds differ; whether they may be compared is decided
    later. Raises RefusedError for jobs of two benchmarks."""
    if not (a.job and b.job):
        return
    [key_a], [key_b] = a.scores, b.scores
    if key_a[0] != key_b[0]:
        detail = f"j{a.job} measures {key_a[0]} and j{b.job} {key_b[0]}: they have no row in common."
        raise RefusedError("not-comparable", detail, "", Exit.REFUSED)
    b.scores = {key_a: b.scores[key_b]}


def keys_wanted(
    request: CompareRequest, catalogue: Mapping[str, Benchmark], a: ComparedSide, b: ComparedSide
) -> list[Key]:
    """Return the benchmarks and kinds to compare, in alphabetical order. A job stands for its own only."""
    every = sorted({*a.scores, *b.scores})
    for side in (a, b):
        every = [key for key in every if not side.job or key in side.scores]
    known = {name for name, _ in every} | set(catalogue)
    try:
        names = {slug(name, known, "--benchmark") for name in request.benchmarks}
    except SelectionError as error:
        raise RefusedError("bad-selection", str(error), exit_code=Exit.USAGE) from error
    # A search is no measurement; the job that measured the chosen point is compared instead.
    every = [key for key in every if not key[1].startswith("param_search_")]
    # A training set is compared where it, or a job of it, is named.
    training = {name for name, benchmark in catalogue.items() if benchmark.training}
    jobs = bool(a.job or b.job)
    every = [key for key in every if jobs or key[0] in names or not is_training(key, training, a, b)]
    chosen = [key for key in every if (not names or key[0] in names) and (not request.kinds or key[1] in request.kinds)]
    return sorted([*chosen, *((name, "") for name in names - {name for name, _ in chosen})])


def is_training(key: Key, training: Collection[str], a: ComparedSide, b: ComparedSide) -> bool:
    """Whether a benchmark is a set to train on, now or when it was measured."""
    return key[0] in training or any(one.view.training for side in (a, b) for one in side.scores.get(key, ()))


def missing(key: Key, a: ComparedSide, b: ComparedSide) -> ComparisonView:
    """Return the entry for a benchmark that was asked for and has no score on one side."""
    sides = [side.label for side in (a, b) if key not in side.scores]
    why = f"{' and '.join(sides)} {'has' if len(sides) == 1 else 'have'} no score of this benchmark"
    return ComparisonView(benchmark=key[0], kind=key[1], verdict="not comparable", why=why)


async def compare_one(
    records: Records,
    comparisons: Comparisons,
    request: CompareRequest,
    a: Sequence[CandidateScore],
    b: Sequence[CandidateScore],
    progress: QuestionProgress,
    part: RowPart | None = None,
) -> ComparisonView:
    """Compare one benchmark: the newest two comparable scores, or else the newest two. The result for two scores never
    changes, so it is remembered, without flips. `part`: only these rows of both; then nothing is said of all rows."""
    one, other = choose(a, b)
    place = (*one.identity, *other.identity, request.force, part.name if part else "all")
    if place in comparisons.compared and not request.flips:
        return comparisons.compared[place]
    if unpaired.is_unpaired(one.view, other.view) and part is None:
        # Fisher's test of very many rows takes a tenth of a second, so it runs in a thread.
        found = await asyncio.to_thread(unpaired.comparison, one.view, other.view, force=request.force)
        return remember(comparisons, place, found)
    differs = decisive_differences(one.view, other.view)
    view = ComparisonView(
        benchmark=one.view.benchmark,
        kind=one.view.kind,
        verdict="not comparable",
        job_a=one.view.job,
        job_b=other.view.job,
        repeats_a=one.view.repeats,
        repeats_b=other.view.repeats,
        differs=tuple(differs),
        noted=(*rows_picked(one.view, other.view), *harmless_differences(one.view, other.view)),
        metric=one.view.primary,
        unit=metric_names.unit(one.view.primary),
        a=None if part else headline(one.view),
        b=None if part else headline(other.view),
    )
    if part is not None and unpaired.is_unpaired(one.view, other.view):
        why = "it was given as one number for all rows, and some are held back"
        return msgspec.structs.replace(view, why=why)
    if why := refusal(one.view, other.view, differs, force=request.force):
        return msgspec.structs.replace(view, why=why)
    try:
        kept = await kept_rows(records.store, part, one.job, other.job) if part else None
    except DataError as error:
        return msgspec.structs.replace(view, why=f"which rows are held back cannot be told: {error}")
    if kept is not None and not (kept.a and kept.b):
        return msgspec.structs.replace(view, why="of the rows that are shown none was asked")
    found = await paired(records, request, view, one, other, progress, kept)
    return remember(comparisons, place, found)


async def kept_rows(store: Store, part: RowPart, a: int, b: int) -> KeptRows:
    """Return the rows of two jobs that belong to a part. Raises DataError if that cannot be told."""
    return KeptRows(*[await part.rows_of(await stored_job(store, number)) for number in (a, b)])


async def stored_job(store: Store, number: int) -> JobRow:
    """Return a job that has a score."""
    job = await get_job(store, number)
    if job is None:
        raise RowsDamagedError(f"j{number} is gone")
    return job


def remember(comparisons: Comparisons, place: tuple[object, ...], found: ComparisonView) -> ComparisonView:
    """Keep a comparison, without its flips; returns it with them."""
    while len(comparisons.compared) >= REMEMBERED:
        del comparisons.compared[next(iter(comparisons.compared))]
    comparisons.compared[place] = msgspec.structs.replace(found, flips=())
    return found


async def paired(
    records: Records,
    request: CompareRequest,
    view: ComparisonView,
    one: CandidateScore,
    other: CandidateScore,
    progress: QuestionProgress,
    kept: KeptRows | None = None,
) -> ComparisonView:
    """Pair the samples of two scores. Right-or-wrong verdicts of all rows are counted by the database; other values are
    read."""
    a, b = (GradedRun(each.job, each.grade_key) for each in (one, other))
    flips = max(0, min(request.flips, MOST_FLIPS))
    by_counting = kept is None and are_verdicts(one.view, other.view)
    counted = await count_up(records.store, a, b, progress) if by_counting else None
    if counted is not None:
        common, found = counted
        if (why := unpairable(common, force=request.force)) or found is None:
            return msgspec.structs.replace(view, why=why, left_out=common.either - common.whole)
        view, rows = compared(view, common, found), await first_parted(records.store, a, b, flips, progress)
    else:
        tally = await tally_up(records.store, a, b, PairTally(one.view, other.view, kept), progress)
        # Resampling many distinct values takes a second or two, so it runs in a thread.
        view, rows = await asyncio.to_thread(pair_up, view, tally, force=request.force, flips=flips)
    return msgspec.structs.replace(view, flips=await flips_of(records.store, a, b, rows))


def are_verdicts(a: ScoreView, b: ScoreView) -> bool:
    """Whether both scores have one right-or-wrong answer for each of the same rows, and their headline is its mean."""
    return same_rows(a, b) and a.repeats == b.repeats == 1 and {a.primary, b.primary} <= {"accuracy", "avg@1"}


def choose(a: Sequence[CandidateScore], b: Sequence[CandidateScore]) -> tuple[CandidateScore, CandidateScore]:
    """Return the best ranked pair without a decisive difference, or the best of each side. A score without samples
    stands for no side that has others."""
    a, b = with_samples(a) or a, with_samples(b) or b
    return next(comparable_pairs(a, b), (a[0], b[0]))


def with_samples(scores: Sequence[CandidateScore]) -> list[CandidateScore]:
    """Return the scores that did not come as numbers alone."""
    return [one for one in scores if not unpaired.is_given(one.view)]


def comparable_pairs(
    a: Sequence[CandidateScore], b: Sequence[CandidateScore]
) -> Iterator[tuple[CandidateScore, CandidateScore]]:
    """Yield the pairs without a decisive difference, best ranked first."""
    for one, other in product(islice(a, CANDIDATES), islice(b, CANDIDATES)):
        is_unpaired = unpaired.is_unpaired(one.view, other.view)
        if not (unpaired.differences if is_unpaired else decisive_differences)(one.view, other.view):
            yield one, other


def headline(view: ScoreView) -> float | None:
    """Return the value of the score's primary metric; None if it has none."""
    metric = view.metrics.get(view.primary)
    return metric.value if metric else None


def refusal(a: ScoreView, b: ScoreView, differs: Sequence[str], *, force: bool) -> str:
    """Return why two scores are not compared; empty if they are."""
    for side, view in (("A", a), ("B", b)):
        if headline(view) is None:
            return f"{side} has no value: {view.why_null or 'no reason is stored'}"
    if not paired_tests.alike(a.primary, b.primary):
        return f"A's headline is {a.primary} and B's is {b.primary}: these metrics cannot be compared"
    if differs and not force:
        return f"not the same in both: {'; '.join(differs)}"
    return ""


def with_verdicts(items: Sequence[ComparisonView], alpha: float) -> list[ComparisonView]:
    """Adjust the p values over all comparisons (Holm), and add the verdicts."""
    tested = [item for item in items if item.p is not None]
    adjusted = iter(paired_tests.holm([item.p for item in tested if item.p is not None]))
    return [judged(item, next(adjusted), alpha) if item.p is not None else item for item in items]


def judged(item: ComparisonView, p_holm: float, alpha: float) -> ComparisonView:
    """Return the comparison with its Holm-adjusted p value and the verdict at level `alpha`."""
    difference = item.difference.value if item.difference else None
    word = paired_tests.verdict(difference or 0.0, p_holm, alpha, lower=item.lower_is_better)
    return msgspec.structs.replace(item, p_holm=p_holm, verdict=word)
