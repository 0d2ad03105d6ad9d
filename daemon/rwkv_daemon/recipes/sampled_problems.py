"""The samples of a recipe's jobs, by problem. Samples of several jobs that were asked the same problem alike stand
together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.jobs.score_writer import whole_stop
from rwkv_daemon.recipes.asked_problems import AskedProblems, asked_problems, check_form, same_problems
from rwkv_daemon.recipes.row_order import RowOrder, SampleSource
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.interface import StoreReader
from rwkv_daemon.store.queries.recipes.graded_samples import SampleFacts, graded_samples, jobs_numbered
from rwkv_daemon.workers.run_directory import RunDir
from rwkv_data.definition.errors import PrepareError
from rwkv_data.definition.stage import Row
from rwkv_data.recipes.files.lineage import EndpointOrigin, SampleOrigin, SampleUse
from rwkv_data.recipes.funnel import FunnelStage, stage
from rwkv_data.recipes.selection.problem_sample import ProblemSample
from rwkv_data.recipes.taking import SampledProblem
from rwkvctl.protocol.endpoints import is_endpoint


class AskedPlace(NamedTuple):
    """Where a problem stands: in which job's problems, and its number there."""

    of: AskedProblems
    number: int


@dataclass(slots=True)
class Sampled:
    """The problems, where each stands, and which source each sample is of, by its number."""

    problems: list[SampledProblem] = field(default_factory=list)
    asked: list[AskedPlace] = field(default_factory=list)
    sources: list[tuple[SampleSource, JobRow, EndpointOrigin | None]] = field(default_factory=list)
    source_of: dict[int, int] = field(default_factory=dict)
    lost: int = 0

    @property
    def stage(self) -> FunnelStage:
        """Return the first stage of the funnel: all samples of the jobs, less those that were never answered."""
        return stage("sample", "samples", len(self.source_of) + self.lost, {"error": self.lost})

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
        source, job, endpoint = self.sources[self.source_of[sample.number]]
        weights = "" if endpoint is not None else job.weights_sha256
        return SampleOrigin(
            use=use, job=job.id, sample=sample.number, grade_key=source.grade_key, right=sample.is_correct,
            weights_sha256=weights, endpoint=endpoint,
        )  # fmt: skip


async def read_samples(
    reader: StoreReader, catalogue: NodeCatalogue, order: RowOrder, say: Callable[[str], None]
) -> Sampled:
    """Read the samples of all sources. Raises DataError if problems cannot be told any more, or samples are gone."""
    sampled, places = Sampled(), dict[tuple[str, str, str, int], int]()
    known = dict[tuple[object, ...], AskedProblems]()
    jobs = {job.id: job for job in await jobs_numbered(reader, [source.job for source in order.sources])}
    for source in order.sources:
        job = jobs.get(source.job)
        if job is None:
            raise PrepareError(f"j{source.job} was removed for good, and its samples with it")
        say(f"reads {job.total:,} samples of {job.name}")
        same = same_problems(job)
        if same not in known:
            known[same] = asked_problems(catalogue, job)
        check_form(catalogue, known[same].kind, job)
        sampled.sources.append((source, job, endpoint_of(job, Path(order.runs_dir))))
        count = 0
        async for some in graded_samples(reader, job.id, source.grade_key):
            _add(sampled, places, known[same], some)
            count += len(some)
        if count != job.total:
            raise PrepareError(f"{job.name} has {count:,} of its {job.total:,} samples: the others were removed")
    if not sampled.source_of:
        raise PrepareError("no sample has a grade: there is nothing to make rows of")
    return sampled


def _add(
    sampled: Sampled, places: dict[tuple[str, str, str, int], int], asked: AskedProblems, some: Sequence[SampleFacts]
) -> None:
    for facts in some:
        if not facts.stops or "error" in facts.stops:
            sampled.lost += 1
            continue
        key = (*asked.asked, asked.indices[facts.row])
        if key not in places:
            places[key] = len(sampled.problems)
            sampled.problems.append(SampledProblem(asked.names[facts.row]))
            sampled.asked.append(AskedPlace(asked, facts.row))
        cut_off = whole_stop(asked.kind, facts.stops, facts.text) == "length"
        sample = ProblemSample(number=facts.number, tokens=facts.tokens, value=facts.value, cut_off=cut_off)
        sampled.problems[places[key]].add(sample, facts.reason)
        sampled.source_of[facts.number] = len(sampled.sources) - 1


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
