"""Scores in the shape that lm_eval 0.4.13 writes with `--output_path` and `--log_samples`.

A folder a model: `results_DATE.json` with one task a benchmark and kind, `samples_TASK_DATE.jsonl` a task. What lm_eval
has and we have not is null; what we have and it has not lies under `rwkvctl`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from statistics import fmean
from typing import Any, Final

from rwkvctl.client import Record
from rwkvctl.exporting.jsonl import line

FILTER: Final = "none"
LOWER: Final = frozenset({"bits", "perplexity"})


def folder_of(model: str) -> str:
    """A model's folder: what no path may hold is replaced, as lm_eval does; and it is never a way out."""
    name = re.sub(r"[\"<>:/|\\?*\[\]\x00-\x1f]+", "__", model)[:150]
    return name if name.strip(". ") else "model"


def task_names(scores: Iterable[Record]) -> list[str]:
    """A task's name for each score: the benchmark's, with the kind behind it where that is not unique."""
    listed = list(scores)
    names = [str(score["benchmark"]) for score in listed]
    full = [f"{score['benchmark']}_{score['kind']}_v{score['version']}" for score in listed]
    chosen = [name if names.count(name) == 1 else longer for name, longer in zip(names, full, strict=True)]
    return [re.sub(r"[^\w.-]", "_", name) for name in chosen]


def results(model: str, tasks: Mapping[str, Record], rows: Mapping[str, int], seconds: float) -> Record:
    """The results file of one model. `rows` are the benchmarks' whole sizes, where they are known."""
    known = [score.get("provenance", {}) for score in tasks.values()]
    return {
        "results": {task: of_task(task, score) for task, score in tasks.items()},
        "group_subtasks": {task: [] for task in tasks},
        "configs": {task: configuration(task, score) for task, score in tasks.items()},
        "versions": {task: provenance(score, "benchmark_version") for task, score in tasks.items()},
        "n-shot": {task: shots(score) for task, score in tasks.items()},
        "higher_is_better": {task: directions(score) for task, score in tasks.items()},
        "n-samples": {task: sizes(score, rows) for task, score in tasks.items()},
        "config": {
            "model": "rwkvctl",
            "model_args": {"weights_sha256": sorted({str(one.get("weights_sha256", "")) for one in known})},
            "batch_size": None,
            "batch_sizes": [],
            "device": None,
            "use_cache": None,
            "limit": next((one["limit"] for one in known if one.get("limit")), None),
            "bootstrap_iters": 0,
            "gen_kwargs": {},
            "random_seed": next((one["seed"] for one in known if "seed" in one), None),
            "numpy_seed": None,
            "torch_seed": None,
            "fewshot_seed": None,
        },
        "git_hash": next((one["git_commit"] for one in known if one.get("git_commit")), None),
        "date": seconds,
        "pretty_env_info": None,
        "transformers_version": None,
        "lm_eval_version": None,
        "upper_git_hash": None,
        "task_hashes": {},
        "model_source": "rwkvctl",
        "model_name": model,
        "model_name_sanitized": folder_of(model),
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": None,
        "rwkvctl": dict(tasks),
    }


def of_task(task: str, score: Record) -> Record:
    """The numbers of one task. A missing one is null; its reason lies in the score under `rwkvctl`."""
    found: Record = {"name": task, "alias": task, "sample_len": score["rows"]}
    for name, metric in score.get("metrics", {}).items():
        shown = metric_name(score, name)
        stderr = metric.get("stderr")
        found[f"{shown},{FILTER}"] = metric.get("value")
        found[f"{shown}_stderr,{FILTER}"] = "N/A" if stderr is None else stderr
    return found


def metric_name(score: Record, name: str) -> str:
    """lm_eval calls the accuracy of scored choices `acc` and that of generated answers `exact_match`."""
    if name != "accuracy":
        return name
    return "acc" if output_type(score) == "multiple_choice" else "exact_match"


def stages_of(score: Record) -> list[Record]:
    """The stages that a score's configuration has."""
    stages = (provenance(score, "configuration") or {}).get("stages")
    return [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []


def output_type(score: Record) -> str:
    """How the last stage answers."""
    stages = stages_of(score)
    return "multiple_choice" if stages and stages[-1].get("mode") not in {None, "generate"} else "generate_until"


def configuration(task: str, score: Record) -> Record:
    """What was asked, as far as it has a place in a task's configuration."""
    stages = stages_of(score)
    return {
        "task": task,
        "dataset_path": score["benchmark"],
        "num_fewshot": shots(score),
        "metric_list": [{"metric": metric_name(score, name)} for name in score.get("metrics", {})],
        "output_type": output_type(score),
        "generation_kwargs": stages[-1].get("sampling", {}) if stages else {},
        "repeats": score["repeats"],
        "metadata": {"version": provenance(score, "benchmark_version"), "kind": score["kind"]},
    }


def provenance(score: Record, name: str) -> Any:
    """A field of the provenance."""
    return score.get("provenance", {}).get(name)


def shots(score: Record) -> int:
    """Examples before each question."""
    given = (provenance(score, "configuration") or {}).get("shots")
    count = given.get("count", 0) if isinstance(given, dict) else 0
    return count if isinstance(count, int) else 0


def directions(score: Record) -> dict[str, bool]:
    """Whether more is better."""
    return {
        metric_name(score, name): metric.get("unit", "share") not in LOWER
        for name, metric in score.get("metrics", {}).items()
    }


def sizes(score: Record, rows: Mapping[str, int]) -> dict[str, int]:
    """Rows that there are, and rows that were asked."""
    return {"original": rows.get(score["benchmark"], score["rows"]), "effective": score["rows"]}


def sample_lines(score: Record, samples: Iterable[Record]) -> Iterator[str]:
    """One line a row; its repeats are the responses."""
    for row, group in groupby(samples, key=lambda sample: sample["row"]):
        yield line(document(score, row, list(group)))


def document(score: Record, row: int, samples: list[Record]) -> Record:
    """One row as lm_eval logs it. The row itself is not stored, so `doc` says which one it was."""
    shown = metric_name(score, "accuracy")
    prompt, target = first_prompt(samples[0]), samples[0].get("expected", "")
    doc = {"row": row, "benchmark": score["benchmark"]}
    values = [sample["value"] for sample in samples if sample.get("value") is not None]
    stages = stages_of(score)
    return {
        "doc_id": row,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": stages[-1].get("sampling", {}) if stages else {}}},
        "resps": [[response(sample) for sample in samples]],
        "filtered_resps": [sample.get("extracted") for sample in samples],
        "filter": FILTER,
        "metrics": [shown],
        "doc_hash": hashed(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": hashed(prompt),
        "target_hash": hashed(str(target)),
        shown: fmean(values) if len(values) == len(samples) else None,
    }


def first_prompt(sample: Record) -> str:
    """What the first stage asked."""
    stages = sample.get("stages", ())
    return str(stages[0]["prompt"]) if stages else ""


def response(sample: Record) -> str:
    """All that followed the first prompt, the tails that later stages appended among it."""
    stages = sample.get("stages", ())
    return "".join((stage["prompt"] if number else "") + stage["completion"] for number, stage in enumerate(stages))


def hashed(text: str) -> str:
    """The sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
