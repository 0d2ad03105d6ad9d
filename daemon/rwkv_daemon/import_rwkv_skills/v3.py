"""The v3 files of rwkv-skills: `scores/MODEL/DATASET.json`, `eval/MODEL/DATASET_results.jsonl` and
`completions/MODEL/DATASET.jsonl`; chain-of-thought runs have `__cot` behind the data set's name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rwkv_daemon.import_rwkv_skills import checked_files
from rwkv_daemon.import_rwkv_skills.checked_files import BadFileError, JsonLines, Record
from rwkv_daemon.import_rwkv_skills.imported_score import MOST_STAGES, Finding, Trace, Turn, Verdict, stop_of
from rwkv_daemon.import_rwkv_skills.subject_scores import subjects_of


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one score that are there."""

    score: Path | None = None
    verdicts: Path | None = None
    traces: Path | None = None


def is_score(record: Record) -> bool:
    """Whether a JSON object is a v3 score."""
    return isinstance(record.get("metrics"), dict) and {"dataset", "model", "cot"} <= record.keys()


def read(files: Files, model: str, stem: str) -> Finding:
    """Everything but the samples' texts. Raises BadFileError."""
    source = files.score or files.verdicts or files.traces
    assert source is not None
    finding = Finding(source=source, layout="v3", model=model, dataset=stem.removesuffix("__cot"))
    finding.cot = stem.endswith("__cot")
    if files.score:
        read_score(files.score, finding)
    if files.traces:
        finding.traces = Reader(files.traces, finding)
        for trace in finding.traces():
            finding.see(trace)
    if files.verdicts:
        read_verdicts(files.verdicts, finding)
    return finding


def read_score(path: Path, finding: Finding) -> None:
    """Read model, data set, metrics and counts from the score file into `finding`. Raises BadFileError if the file is
    no v3 score."""
    record, sha256 = checked_files.document(path)
    if not is_score(record):
        raise BadFileError(f"{path} is no score of rwkv-skills: it lacks dataset, model, cot or metrics")
    finding.files[str(path)] = sha256
    finding.model = checked_files.name(record["model"]) or finding.model
    finding.dataset = checked_files.name(record["dataset"]) or finding.dataset
    finding.cot = record["cot"] if isinstance(record["cot"], bool) else finding.cot
    finding.task = checked_files.name(record.get("task"))
    finding.created = checked_files.time(record.get("created_at"))
    details = record.get("task_details")
    finding.subjects = subjects_of(details.get("accuracy_by_subject") if isinstance(details, dict) else None)
    finding.metrics = checked_files.numbers(record["metrics"])
    counts = checked_files.numbers({key: record.get(key) for key in ("samples", "problems")})
    finding.samples, finding.problems = int(counts.get("samples", 0)), int(counts.get("problems", 0))


def read_verdicts(path: Path, finding: Finding) -> None:
    """Add the verdicts of the evaluation file to `finding`. Raises BadFileError for a line that lacks its indices or
    verdict."""
    source = JsonLines(path)
    for number, record in source.records():
        where = f"{path}:{number}"
        place, passed = checked_files.place(record, where), checked_files.flag(record, "is_passed", where)
        words = (checked_files.text(record, name, where) for name in ("answer", "ref_answer", "fail_reason"))
        finding.judge(place, Verdict(passed, *words))
    finding.files[str(path)] = source.sha256


@dataclass(slots=True)
class Reader:
    """Reads a completions file, any number of times; it must not change in between."""

    path: Path
    finding: Finding

    def __call__(self) -> Iterator[Trace]:
        source = JsonLines(self.path)
        for number, record in source.records():
            yield trace_of(record, f"{self.path}:{number}")
        if self.finding.files.setdefault(str(self.path), source.sha256) != source.sha256:
            raise BadFileError(f"{self.path} changed while it was read")


def trace_of(record: Record, where: str) -> Trace:
    """Return the trace that a line of the completions file holds. Raises BadFileError if the line is older than v3 or
    malformed."""
    if "sample_index" not in record and "problem_index" in record:
        raise BadFileError(f"{where}: older than v3; bring it up to date with rwkv-skills' migrate_results_schema_v3")
    turns = []
    for stage in range(1, MOST_STAGES + 1):
        if f"prompt{stage}" not in record and f"completion{stage}" not in record:
            break
        prompt, completion, stop = (
            checked_files.text(record, f"{name}{stage}", where) for name in ("prompt", "completion", "stop_reason")
        )
        turns.append(Turn(prompt, completion, stop_of(stop)))
    sampling = record.get("sampling_config")
    return Trace(checked_files.place(record, where), tuple(turns), sampling if isinstance(sampling, dict) else {})
