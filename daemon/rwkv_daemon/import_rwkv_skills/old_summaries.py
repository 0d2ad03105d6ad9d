"""Old summaries of rwkv-skills and of the scripts before it: one JSON file per run, without samples."""

from pathlib import Path
from typing import Any, Final

from rwkv_daemon.import_rwkv_skills import checked_files
from rwkv_daemon.import_rwkv_skills.checked_files import Record
from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore
from rwkv_daemon.import_rwkv_skills.subject_scores import subjects_of

PREFIXES: Final = {
    "single_choice_plain": (False, "multiple_choice"), "single_choice_cot": (True, "multiple_choice_cot"),
    "cot_general": (True, "free_response"), "cot_llm_judge": (True, "free_response_judge"),
    "instruction_following": (False, "instruction_following"),
}  # fmt: skip
"""What the first words of an old summary's `benchmark` mean: chain of thought or not, and the task."""

FILES: Final = (
    ("cot_llm_judge", True, "free_response_judge"), ("cot_", True, ""), ("results_", False, ""),
)  # fmt: skip
"""What the beginning of an old summary's file name means; without a task the set's name decides."""


def is_summary(record: Record) -> bool:
    """Whether a JSON object is an old summary."""
    return is_ifeval(record) or (
        isinstance(record.get("model"), str)
        and any(isinstance(record.get(name), str) for name in ("dataset_slug", "dataset"))
        and (isinstance(record.get("accuracy"), (int, float)) or isinstance(record.get("metrics"), dict))
    )


def is_ifeval(record: Record) -> bool:
    """Whether a summary is one of the oldest of IFEval, which name no model."""
    results = record.get("results")
    strict = results.get("strict") if isinstance(results, dict) else None
    return (
        isinstance(strict, dict)
        and bool(checked_files.numbers(strict))
        and isinstance(record.get("response_file"), str)
    )


def read(path: Path) -> ImportedScore:
    """Read one summary, of IFEval or of any other benchmark. Raises BadFileError if the file cannot be read or holds no
    JSON object."""
    record, sha256 = checked_files.document(path)
    imported = ifeval(path, record) if is_ifeval(record) else plain(path, record)
    imported.files[str(path)] = sha256
    imported.created = checked_files.time(record.get("created_at")) or checked_files.time(record.get("timestamp"))
    return imported


def ifeval(path: Path, record: Record) -> ImportedScore:
    """Return the score of an old IFEval summary: strict accuracies; the model's name is in that of the response
    file."""
    strict = checked_files.numbers(record["results"]["strict"])
    model = Path(checked_files.name(record["response_file"])).stem.removesuffix("_no_think").removesuffix("_think")
    found = {name: value for name, value in strict.items() if name in {"prompt_accuracy", "instruction_accuracy"}}
    return ImportedScore(
        source=path, layout="summary", model=model or path.parent.name, dataset="ifeval_test", cot=False,
        task="instruction_following", metrics=found, samples=int(strict.get("prompt_total", 0)),
    )  # fmt: skip


def plain(path: Path, record: Record) -> ImportedScore:
    """Return the score of a summary that is not one of the oldest IFEval summaries (see `ifeval`)."""
    dataset = checked_files.name(record.get("dataset_slug")) or dataset_of(checked_files.name(record.get("dataset")))
    cot, task = cot_and_task(path, record, dataset)
    model = Path(checked_files.name(record.get("model_path"))).stem or checked_files.name(record.get("model"))
    return ImportedScore(
        source=path, layout="summary", model=model, dataset=dataset, cot=cot, task=task,
        metrics=metrics(record, task), samples=samples(record), subjects=subjects_of(record.get("score_by_subject")),
    )  # fmt: skip


def dataset_of(path: str) -> str:
    """Return the data set's name from its path: `gsm8k_test` for `data/gsm8k/test.jsonl`; without the suffix of a data
    file, the last component."""
    found = Path(path)
    if found.suffix not in {".json", ".jsonl", ".csv", ".parquet"}:
        return found.name
    return f"{found.parent.name}_{found.stem}" if found.parent.name else found.stem


def cot_and_task(path: Path, record: Record, dataset: str) -> tuple[bool | None, str]:
    """Return whether it used a chain of thought, and the task; from the summary, else from its file's name."""
    prefix = checked_files.name(record.get("benchmark")).removesuffix(f"_{dataset}")
    if prefix in PREFIXES:
        return PREFIXES[prefix]
    task = checked_files.name(record.get("task"))
    if isinstance(record.get("cot"), bool):
        return record["cot"], task
    file = path.name.lower()
    if "nocot" in file or "_plain_" in file:
        return False, task
    for beginning, cot, meant in FILES:
        if file.startswith(beginning):
            return cot, task or meant
    return True if "_cot_" in file else None, task


def metrics(record: Record, task: str) -> dict[str, float]:
    """Return the headline numbers, under their present names in rwkv-skills."""
    given = record.get("metrics")
    found = checked_files.numbers(given)
    known = {"ExactMatchMetric": "exact_accuracy", "JudgeMetric": "judge_accuracy"}
    for old, today in known.items():
        inner: Any = given.get(old) if isinstance(given, dict) else None
        values = checked_files.numbers(inner)
        if "accuracy" in values or "value" in values:
            found[today] = values.get("accuracy", values.get("value", 0.0))
    found |= strict_shares(given.get("InstructionFollowingMetric") if isinstance(given, dict) else None)
    plain_name = {"free_response": "exact_accuracy", "free_response_judge": "judge_accuracy"}.get(task, "accuracy")
    accuracy = checked_files.numbers({"accuracy": record.get("accuracy")})
    return ({plain_name: accuracy["accuracy"]} if accuracy and plain_name not in found else {}) | found


def strict_shares(given: object) -> dict[str, float]:
    """Return IFEval's strict accuracies, of prompts and of instructions."""
    levels = {"prompt_level": "prompt_accuracy", "instruction_level": "instruction_accuracy"}
    found = {today: given.get(old) for old, today in levels.items()} if isinstance(given, dict) else {}
    return checked_files.numbers({name: one.get("strict") for name, one in found.items() if isinstance(one, dict)})


def samples(record: Record) -> int:
    """Return how many samples it says it is based on."""
    counts = checked_files.numbers({name: record.get(name) for name in ("total", "num_samples", "samples")})
    listed = [len(record[name]) for name in ("generations", "strict_results") if isinstance(record.get(name), list)]
    by_subject = sum(subject["rows"] for subject in subjects_of(record.get("score_by_subject")).values())
    return int(next(iter([*counts.values(), *listed]), by_subject))
