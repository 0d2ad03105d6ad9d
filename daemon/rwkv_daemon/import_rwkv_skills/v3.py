"""The v3 files of rwkv-skills: `scores/MODEL/DATASET.json`, `eval/MODEL/DATASET_results.jsonl` and
`completions/MODEL/DATASET.jsonl`; chain-of-thought runs have `__cot` behind the data set's name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rwkv_daemon.import_rwkv_skills import checked_files
from rwkv_daemon.import_rwkv_skills.checked_files import BadFileError, JsonLines, Record
from rwkv_daemon.import_rwkv_skills.imported_score import (
    MOST_STAGES,
    ImportedSample,
    ImportedScore,
    ImportedVerdict,
    StageText,
    stop_of,
)
from rwkv_daemon.import_rwkv_skills.subject_scores import subjects_of


@dataclass(frozen=True, slots=True)
class ScoreFiles:
    """The files of one score, as far as they exist."""

    score: Path | None = None
    verdicts: Path | None = None
    traces: Path | None = None


def is_score(record: Record) -> bool:
    """Whether a JSON object is a v3 score."""
    return isinstance(record.get("metrics"), dict) and {"dataset", "model", "cot"} <= record.keys()


def read(files: ScoreFiles, model: str, stem: str) -> ImportedScore:
    """Read everything but the samples' texts. Raises BadFileError."""
    source = files.score or files.verdicts or files.traces
    assert source is not None
    imported = ImportedScore(source=source, layout="v3", model=model, dataset=stem.removesuffix("__cot"))
    imported.cot = stem.endswith("__cot")
    if files.score:
        read_score(files.score, imported)
    if files.traces:
        imported.traces = CompletionsFile(files.traces, imported)
        for trace in imported.traces():
            imported.see(trace)
    if files.verdicts:
        read_verdicts(files.verdicts, imported)
    return imported


def read_score(path: Path, imported: ImportedScore) -> None:
    """Read model, data set, metrics and counts from the score file into `imported`. Raises BadFileError if the file is
    no v3 score."""
    record, sha256 = checked_files.document(path)
    if not is_score(record):
        raise BadFileError(f"{path} is no score of rwkv-skills: it lacks dataset, model, cot or metrics")
    imported.files[str(path)] = sha256
    imported.model = checked_files.name(record["model"]) or imported.model
    imported.dataset = checked_files.name(record["dataset"]) or imported.dataset
    imported.cot = record["cot"] if isinstance(record["cot"], bool) else imported.cot
    imported.task = checked_files.name(record.get("task"))
    imported.created = checked_files.time(record.get("created_at"))
    details = record.get("task_details")
    imported.subjects = subjects_of(details.get("accuracy_by_subject") if isinstance(details, dict) else None)
    imported.metrics = checked_files.numbers(record["metrics"])
    counts = checked_files.numbers({key: record.get(key) for key in ("samples", "problems")})
    imported.samples, imported.problems = int(counts.get("samples", 0)), int(counts.get("problems", 0))


def read_verdicts(path: Path, imported: ImportedScore) -> None:
    """Add the verdicts of the evaluation file to `imported`. Raises BadFileError for a line that lacks its indices or
    verdict."""
    source = JsonLines(path)
    for number, record in source.records():
        where = f"{path}:{number}"
        place, passed = checked_files.place(record, where), checked_files.flag(record, "is_passed", where)
        words = (checked_files.text(record, name, where) for name in ("answer", "ref_answer", "fail_reason"))
        imported.judge(place, ImportedVerdict(passed, *words))
    imported.files[str(path)] = source.sha256


@dataclass(slots=True)
class CompletionsFile:
    """Reads a completions file; may be called repeatedly, and the file must not change in between."""

    path: Path
    imported: ImportedScore

    def __call__(self) -> Iterator[ImportedSample]:
        source = JsonLines(self.path)
        for number, record in source.records():
            yield trace_of(record, f"{self.path}:{number}")
        if self.imported.files.setdefault(str(self.path), source.sha256) != source.sha256:
            raise BadFileError(f"{self.path} changed while it was read")


def trace_of(record: Record, where: str) -> ImportedSample:
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
        turns.append(StageText(prompt, completion, stop_of(stop)))
    sampling = record.get("sampling_config")
    return ImportedSample(
        checked_files.place(record, where), tuple(turns), sampling if isinstance(sampling, dict) else {}
    )
