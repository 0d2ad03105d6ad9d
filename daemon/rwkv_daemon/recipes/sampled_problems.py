"""The samples of a recipe's jobs, by problem. Samples of several jobs that were asked the same problem alike stand
together."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.jobs.score_writer import whole_stop
from rwkv_daemon.recipes.asked_problems import AskedProblems, asked_problems, check_form, same_problems
from rwkv_daemon.recipes.rewriting import what_of
from rwkv_daemon.recipes.row_order import RowOrder, SampleSource
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.interface import StoreReader
from rwkv_daemon.store.queries.recipes.graded_samples import (
    RewrittenSample,
    SampleFacts,
    graded_samples,
    jobs_numbered,
)
from rwkv_daemon.workers.run_directory import UNFAITHFUL, UNREADABLE, RunDir
from rwkv_data.definition.errors import PrepareError
from rwkv_data.definition.stage import Row
from rwkv_data.recipes.files.lineage import EndpointOrigin, SampleOrigin, SampleUse, WriterOrigin
from rwkv_data.recipes.funnel import FunnelStage, stage
from rwkv_data.recipes.selection.problem_sample import ProblemSample
from rwkv_data.recipes.taking import SampledProblem, why_not_right
from rwkvctl.protocol.endpoints import is_endpoint

UNUSABLE: Final[Mapping[str, str]] = {UNREADABLE: "form", UNFAITHFUL: "not copied faithfully"}
"""What a rewriting that cannot be used is called, by the reason of its sample."""


class Source(NamedTuple):
    """A job whose samples are used, with the model behind an endpoint that it asked; of a rewriting also the job that
    it rewrites, as a source of its own."""

    of: SampleSource
    job: JobRow
    endpoint: EndpointOrigin | None
    original: "Source | None" = None

    def origin(self, number: int, use: SampleUse, *, right: bool) -> SampleOrigin:
        """Return a sample of the job for the lineage of a row."""
        return SampleOrigin(
            use=use, job=self.job.id, sample=number, grade_key=self.of.grade_key, right=right,
            weights_sha256="" if self.endpoint is not None else self.job.weights_sha256, endpoint=self.endpoint,
        )  # fmt: skip


class AskedPlace(NamedTuple):
    """Where a problem stands: in which job's problems, and its number there."""

    of: AskedProblems
    number: int


@dataclass(slots=True)
class RewrittenCounts:
    """Of the samples that rewritings are of: how many there are, how many were never answered, why others are not
    right, and why rewritings of the right ones cannot be used."""

    samples: int = 0
    lost: int = 0
    not_right: Counter[str] = field(default_factory=Counter)
    unusable: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Sampled:
    """The problems, where each stands, and which source each sample is of, by its number; and what became of the
    samples that were `rewritten`."""

    problems: list[SampledProblem] = field(default_factory=list)
    asked: list[AskedPlace] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    source_of: dict[int, int] = field(default_factory=dict)
    lost: int = 0
    rewritten: RewrittenCounts = field(default_factory=RewrittenCounts)

    @property
    def funnel(self) -> tuple[FunnelStage, ...]:
        """Return the first stages of the funnel: all samples of the jobs, less those that were never answered; and of
        those that were rewritten the right ones, and what the writer made of them."""
        if not self.rewrites:
            return (stage("sample", "samples", len(self.source_of) + self.lost, {"error": self.lost}),)
        known = self.rewritten
        right = stage("right", "samples", known.samples - known.lost, known.not_right)
        return (
            stage("sample", "samples", known.samples, {"error": known.lost}),
            right,
            stage("rewrite", "samples", right.rows_out, known.unusable),
        )

    @property
    def rewrites(self) -> bool:
        """Whether any source is a rewriting. Then samples of others count as originals, too, and go on if they are
        right."""
        return any(source.original is not None for source in self.sources)

    def row_key(self, problem: int) -> tuple[str, str, int]:
        """Return which row of which set a problem is, however it is asked."""
        of, number = self.asked[problem]
        return of.job.benchmark, of.job.rows_sha256, of.indices[number]

    def row(self, problem: int) -> Row:
        """Return the row of a problem."""
        of, number = self.asked[problem]
        return of.rows[number]

    def origin(self, sample: ProblemSample, use: SampleUse) -> SampleOrigin:
        """Return where a sample comes from, for the lineage of a row."""
        return self._source(sample).origin(sample.number, use, right=sample.is_correct)

    def original(self, sample: ProblemSample, rewritten: RewrittenSample) -> tuple[SampleOrigin, WriterOrigin]:
        """Return what a rewritten sample was made of, and by whom."""
        source = self._source(sample)
        assert source.original is not None, "it is no rewriting"
        writer = WriterOrigin(what_of(source.job)["rule"], source.endpoint if rewritten.asked else None)
        return source.original.origin(rewritten.original, "source", right=True), writer

    def _source(self, sample: ProblemSample) -> Source:
        return self.sources[self.source_of[sample.number]]


async def read_samples(
    reader: StoreReader, catalogue: NodeCatalogue, order: RowOrder, say: Callable[[str], None]
) -> Sampled:
    """Read the samples of all sources. Raises DataError if problems cannot be told any more, or samples are gone."""
    sampled, places = Sampled(), dict[tuple[str, str, str, int], int]()
    known = dict[tuple[object, ...], AskedProblems]()
    jobs = {job.id: job for job in await jobs_numbered(reader, [source.job for source in order.sources])}
    numbers = [job.source_job for job in jobs.values() if job.source_job is not None]
    originals = {job.id: job for job in await jobs_numbered(reader, numbers)}
    rewrites, counted = bool(originals), set[tuple[int, str]]()
    for source in order.sources:
        job = jobs.get(source.job)
        if job is None:
            raise PrepareError(f"j{source.job} was removed for good, and its samples with it")
        say(f"reads {job.total:,} samples of {job.name}")
        same = same_problems(job)
        if same not in known:
            known[same] = asked_problems(catalogue, job)
        check_form(catalogue, known[same].kind, job)
        found = source_of(source, job, originals, Path(order.runs_dir))
        sampled.sources.append(found)
        count, plain_beside = 0, rewrites and found.original is None
        async for some in graded_samples(reader, job.id, source.grade_key):
            _add(sampled, places, known[same], some, right_alone=plain_beside)
            count += len(some)
        before = found.original or found
        if rewrites and (key := (before.job.id, before.of.grade_key)) not in counted:
            counted.add(key)
            async for some in graded_samples(reader, *key):
                _add_originals(sampled, places, known[same], some)
        if count != job.total:
            raise PrepareError(f"{job.name} has {count:,} of its {job.total:,} samples: the others were removed")
    if not sampled.source_of and not sampled.rewritten.samples:
        raise PrepareError("no sample has a grade: there is nothing to make rows of")
    return sampled


def _add(
    sampled: Sampled, places: dict[tuple[str, str, str, int], int], asked: AskedProblems, some: Sequence[SampleFacts],
    *, right_alone: bool,
) -> None:  # fmt: skip
    for facts in some:
        if sampled.sources[-1].original is not None and (not facts.stops or facts.reason in UNUSABLE):
            if facts.reason != "dropped":
                sampled.rewritten.unusable[UNUSABLE.get(facts.reason, "failed")] += 1
        elif _is_lost(facts):
            sampled.lost += 1
        elif not (right_alone and why_not_right(_sample(asked, facts), facts.reason)):
            problem = _problem(sampled, places, asked, facts)
            problem.add(_sample(asked, facts), facts.reason)
            sampled.source_of[facts.number] = len(sampled.sources) - 1


def _add_originals(
    sampled: Sampled, places: dict[tuple[str, str, str, int], int], asked: AskedProblems, some: Sequence[SampleFacts]
) -> None:
    """Count samples that were rewritten, or not because they are not right."""
    counts = sampled.rewritten
    counts.samples += len(some)
    for facts in some:
        if _is_lost(facts):
            counts.lost += 1
            continue
        sample = _sample(asked, facts)
        _problem(sampled, places, asked, facts).originals.append(sample)
        if why := why_not_right(sample, facts.reason):
            counts.not_right[why] += 1


def _is_lost(facts: SampleFacts) -> bool:
    return not facts.stops or "error" in facts.stops


def _sample(asked: AskedProblems, facts: SampleFacts) -> ProblemSample:
    cut_off = whole_stop(asked.kind, facts.stops, facts.text) == "length"
    return ProblemSample(number=facts.number, tokens=facts.tokens, value=facts.value, cut_off=cut_off)


def _problem(
    sampled: Sampled, places: dict[tuple[str, str, str, int], int], asked: AskedProblems, facts: SampleFacts
) -> SampledProblem:
    """Return the problem that a sample is of; a new one if it is the first."""
    key = (*asked.asked, asked.indices[facts.row])
    if key not in places:
        places[key] = len(sampled.problems)
        sampled.problems.append(SampledProblem(asked.names[facts.row]))
        sampled.asked.append(AskedPlace(asked, facts.row))
    return sampled.problems[places[key]]


def source_of(source: SampleSource, job: JobRow, originals: Mapping[int, JobRow], runs_dir: Path) -> Source:
    """Return a job as a source, with what it rewrites. Raises PrepareError if that is gone, or which model was asked
    cannot be told."""
    if job.source_job is None:
        return Source(source, job, endpoint_of(job, runs_dir))
    original = originals.get(job.source_job)
    if original is None:
        raise PrepareError(f"j{job.source_job}, which {job.name} rewrites, was removed for good")
    before = SampleSource(original.id, what_of(job)["grade_key"])
    return Source(source, job, endpoint_of(job, runs_dir), source_of(before, original, originals, runs_dir))


def endpoint_of(job: JobRow, runs_dir: Path) -> EndpointOrigin | None:
    """Return the model behind an endpoint that a job asked; None if it asked a checkpoint."""
    if not is_endpoint(job.weights_path):
        return None
    folder = RunDir(runs_dir / job.name)
    try:
        facts = folder.read_endpoint()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        facts = {}
    if not facts.get("base_url"):
        raise PrepareError(f"which model {job.name} asked cannot be told any more: {folder.path} does not say it")
    return EndpointOrigin(*(str(facts.get(name, "")) for name in ("base_url", "model", "revision")))
