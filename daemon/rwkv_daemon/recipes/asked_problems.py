"""The problems that a job asked: its rows by number, as they lie in the prepared set, with what a user says of each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.jobs.asked_rows import asked_indices, asking_kind
from rwkv_daemon.store import JobRow
from rwkv_data.definition.errors import PrepareError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets


@dataclass(frozen=True, slots=True)
class AskedProblems:
    """What a job asked, and others like it. `indices`, `names` and `rows` are by the number of a row in the job: its
    place in the prepared set, what it is called, and the row."""

    job: JobRow
    kind: Kind
    licence: str
    source: str
    indices: Sequence[int]
    names: Sequence[str]
    rows: Sequence[Row]

    @property
    def asked(self) -> tuple[str, str, str]:
        """What tells apart problems of one index: the set, its rows, and how they are asked."""
        return self.job.benchmark, self.job.rows_sha256, self.job.kind


def asked_problems(catalogue: NodeCatalogue, job: JobRow) -> AskedProblems:
    """Return the problems of a job. Raises DataError if its benchmark or its rows are not those any more."""
    data_dir, benchmark = catalogue.benchmarks.data_dir, catalogue.benchmarks.get(job.benchmark)
    manifest = prepared_sets.current_manifest(data_dir, benchmark)
    kind, indices = asking_kind(catalogue, job), asked_indices(catalogue, job)
    bare = replace(kind, shots=None)
    return AskedProblems(
        job,
        kind,
        benchmark.licence,
        manifest.source,
        indices,
        prepared_sets.ids_of_rows(data_dir, benchmark, manifest, indices),
        prepared_sets.load_asked(data_dir, benchmark, bare, job.row_limit),
    )


def same_problems(job: JobRow) -> tuple[object, ...]:
    """Return what tells which problems a job asked: jobs that have it in common asked the same."""
    return job.benchmark, job.rows_sha256, job.kind, job.settings, job.row_limit, job.total // job.repeats


def check_form(catalogue: NodeCatalogue, kind: Kind, job: JobRow) -> None:
    """Raise PrepareError if a job asked its problems in another form than its kind does now: what the user says would
    not be what was answered."""
    then = json.loads(job.configuration)
    form = (job.benchmark_version, then.get("profile"), then.get("profile_version"), then.get("file_sha256", ""))
    version = catalogue.benchmarks.get(job.benchmark).version
    file_sha256 = catalogue.benchmarks.file_sha256.get(job.benchmark, "")
    if form != (version, kind.profile, kind.profile_version, file_sha256):
        raise PrepareError(
            f"{job.name} asked {job.benchmark} {job.kind} in the form of an earlier version, which is not known any "
            "more: dispatch it again"
        )


def why_no_rows(job: str, kind: Kind) -> str:
    """Return why no training rows can be made of samples of a kind; empty if they can."""
    if kind.search is not None:
        return f"{job} searches for settings: its samples are not alike"
    if not kind.takes_chat:
        return (
            f"{job} asks {kind.name}, which is not one turn of a conversation (it has several stages, examples or "
            "choices, or begins the answer itself); sample with a kind such as free_response.chat"
        )
    return ""
