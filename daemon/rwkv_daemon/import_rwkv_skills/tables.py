"""The database of rwkv-skills as its exporter writes it: `TABLE/MODEL/DATASET.jsonl` for the tables benchmark, model,
task, completions, eval and scores, the rows of one task each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rwkv_daemon.import_rwkv_skills import checked_files
from rwkv_daemon.import_rwkv_skills.benchmark_names import moment
from rwkv_daemon.import_rwkv_skills.checked_files import BadFileError, JsonLines, Record
from rwkv_daemon.import_rwkv_skills.imported_score import (
    MOST_STAGES,
    ImportedSample,
    ImportedScore,
    ImportedVerdict,
    Place,
    StageText,
    stop_of,
)

TABLES: Final = ("benchmark", "model", "task", "completions", "eval", "scores")
SIGNS: Final = {
    "benchmark": "benchmark_id", "model": "model_id", "task": "task_id", "completions": "completions_id",
    "eval": "eval_id", "scores": "score_id",
}  # fmt: skip
"""The column by which a table's rows are recognised."""


def is_row(table: str, record: Record) -> bool:
    """Whether an object is a row of that table."""
    return table in SIGNS and SIGNS[table] in record


def read(files: Mapping[str, Path], model: str, stem: str) -> ImportedScore:
    """Read everything but the samples' texts. Raises BadFileError."""
    source = next(files[table] for table in ("scores", "eval", "completions", "task") if table in files)
    imported = ImportedScore(source=source, layout="tables", model=model, dataset=stem)
    read_names(files, imported)
    if "scores" in files:
        read_score(files["scores"], imported)
    keys: dict[int, Place] = {}
    if "completions" in files:
        reader = CompletionsTable(files["completions"], imported, keys)
        imported.traces = reader
        for trace in reader():
            imported.see(trace)
    if "eval" in files:
        read_verdicts(files["eval"], imported, keys)
    return imported


def read_names(files: Mapping[str, Path], imported: ImportedScore) -> None:
    """Read model, data set and task from their tables."""
    rows = {table: only(files[table], imported) for table in ("model", "benchmark", "task") if table in files}
    imported.model = checked_files.name(rows.get("model", {}).get("model_name")) or imported.model
    benchmark = rows.get("benchmark", {})
    parts = [checked_files.name(benchmark.get(column)) for column in ("benchmark_name", "benchmark_split")]
    imported.dataset = "_".join(filter(None, parts)) or imported.dataset
    task = rows.get("task", {})
    if task.get("is_param_search") is True:
        raise BadFileError(f"{files['task']}: a trial of a parameter search is no score of a model")
    imported.task = checked_files.name(task.get("evaluator"))
    imported.more = {
        "git_hash": checked_files.name(task.get("git_hash")),
        "config_path": checked_files.name(task.get("config_path")),
    }
    if isinstance(task.get("sampling_config"), dict):
        imported.sampling = task["sampling_config"]


def only(path: Path, imported: ImportedScore) -> Record:
    """Return the one row of a table's file. Raises BadFileError if there are several, as it is unknown which one the
    other tables belong to."""
    rows = all_rows(path, imported)
    if len(rows) > 1:
        raise BadFileError(f"{path}: {len(rows)} rows, where the exporter writes one")
    return rows[0] if rows else {}


def all_rows(path: Path, imported: ImportedScore) -> list[Record]:
    """Return every row of a small file, and note the file's sha256 in `imported`."""
    source = JsonLines(path)
    rows = [record for _, record in source.records()]
    imported.files[str(path)] = source.sha256
    return rows


def read_score(path: Path, imported: ImportedScore) -> None:
    """Read the metrics, time and chain-of-thought flag of the newest row into `imported`. Raises BadFileError if the
    file is empty."""
    rows = all_rows(path, imported)
    if not rows:
        raise BadFileError(f"{path} is empty")
    newest = max(rows, key=lambda row: moment(checked_files.time(row.get("created_at"))))
    imported.metrics = checked_files.numbers(newest.get("metrics"))
    imported.created = checked_files.time(newest.get("created_at"))
    imported.cot = newest["is_cot"] if isinstance(newest.get("is_cot"), bool) else None


def read_verdicts(path: Path, imported: ImportedScore, keys: Mapping[int, Place]) -> None:
    """Read the eval table, whose rows refer to completions by number."""
    source = JsonLines(path)
    for number, record in source.records():
        where = f"{path}:{number}"
        pointed = record.get("completions_id")
        if not isinstance(pointed, int) or pointed not in keys:
            raise BadFileError(f"{where}: completions_id names no row of the completions table")
        words = (checked_files.text(record, name, where) for name in ("answer", "ref_answer", "fail_reason"))
        imported.judge(keys[pointed], ImportedVerdict(checked_files.flag(record, "is_passed", where), *words))
    imported.files[str(path)] = source.sha256


@dataclass(slots=True)
class CompletionsTable:
    """Reads the completions table; may be called repeatedly, and the file must not change in between. A row whose
    status is not `answer` is incomplete, and left out."""

    path: Path
    imported: ImportedScore
    keys: dict[int, Place]

    def __call__(self) -> Iterator[ImportedSample]:
        source, task = JsonLines(self.path), None
        for number, record in source.records():
            where = f"{self.path}:{number}"
            task = record.get("task_id") if task is None else task
            if record.get("task_id") != task:
                raise BadFileError(f"{where}: a row of another task than the first")
            trace = trace_of(record, where)
            if isinstance(record.get("completions_id"), int):
                self.keys[record["completions_id"]] = trace.place
            if record.get("status", "answer") != "cot":
                yield trace
        if self.imported.files.setdefault(str(self.path), source.sha256) != source.sha256:
            raise BadFileError(f"{self.path} changed while it was read")


def trace_of(record: Record, where: str) -> ImportedSample:
    """Return the trace that a row of the completions table holds. Raises BadFileError if its stages are missing or too
    many."""
    context = record.get("context")
    stages = context.get("stages") if isinstance(context, dict) else None
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        raise BadFileError(f"{where}: context has no list of stages")
    if len(stages) > MOST_STAGES:
        raise BadFileError(f"{where}: {len(stages)} stages")
    turns = tuple(turn_of(stage, where) for stage in stages)
    sampling = context.get("sampling_config") if isinstance(context, dict) else None
    return ImportedSample(checked_files.place(record, where), turns, sampling if isinstance(sampling, dict) else {})


def turn_of(stage: Record, where: str) -> StageText:
    """Return the turn of one stage; a field that is missing counts as empty. Raises BadFileError if the prompt, the
    completion or the stop reason is not text."""
    prompt, completion, stop = (
        checked_files.text(stage, name, where) for name in ("prompt", "completion", "stop_reason")
    )
    return StageText(prompt, completion, stop_of(stop))
