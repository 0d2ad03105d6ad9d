"""Scores in the shape that lm_eval 0.4.13 writes with `--output_path` and `--log_samples`.

A folder a model: `results_DATE.json` with one task a benchmark and kind, `samples_TASK_DATE.jsonl` a task. Kinds that
repeat a task of lm_eval have its name and its metrics' keys; others their benchmark's name, and keys in the same form.
What lm_eval has and we have not is null; what we have and it has not lies under `rwkvctl`.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from statistics import fmean
from typing import Any, Final

from rwkvctl.cli.client import Record
from rwkvctl.export.file_names import file_name, folded, is_plain, marked
from rwkvctl.export.jsonl import line
from rwkvctl.export.lm_eval_tasks import TASKS, Task

FILTER: Final = "none"
LONGER: Final = "{benchmark}_{kind}_v{version}"
LONGEST: Final = "{benchmark}_{kind}_v{version}_{job}"
"""Names of a score where its benchmark's is another's."""
LOWER: Final = frozenset({"bits", "perplexity"})


def folder_of(model: str) -> str:
    """Return the name of a model's folder, which is unique to it."""
    return file_name(model)


def task_names(scores: Iterable[Record]) -> list[str]:
    """A task's name for each score: lm_eval's where it is one of its tasks, else the benchmark's; with kind and version
    where that would be another's, then with the job."""
    listed = list(scores)
    names = [known.name if (known := task_of(score)) else str(score["benchmark"]) for score in listed]
    foreign = {known.name for score in listed if (known := task_of(score))}
    for longer in (LONGER, LONGEST):
        plain = [re.sub(r"[^\w.-]", "_", name) for name in names]
        told = Counter(name.casefold() for name in plain)
        names = [
            name if told[name.casefold()] == 1 or is_first(score, name, foreign, listed) else longer.format_map(score)
            for name, score in zip(plain, listed, strict=True)
        ]
    names = [known.name if (known := task_of(score)) and name == known.name else distinct(score, name)
             for score, name in zip(listed, names, strict=True)]  # fmt: skip
    told = Counter(folded(name) for name in names)
    return [marked(name, LONGEST.format_map(score)) if told[folded(name)] > 1 else name
            for score, name in zip(listed, names, strict=True)]  # fmt: skip


def distinct(score: Record, name: str) -> str:
    """The name for a file of samples: whatever was replaced in it, no other score has it."""
    plain = re.sub(r"[^\w.-]", "_", name)
    kept = {str(score["benchmark"]), LONGER.format_map(score), LONGEST.format_map(score)}
    return plain if plain in kept and is_plain(plain) else marked(plain, LONGEST.format_map(score))


def is_first(score: Record, name: str, foreign: set[str], listed: list[Record]) -> bool:
    """Whether a score keeps a name that others have, too: the first one of the task of lm_eval that is called so."""
    if name not in foreign:
        return False
    return next(one for one in listed if (known := task_of(one)) and known.name == name) is score


def is_exported(score: Record) -> bool:
    """Whether a score can be written so. Of one that was given without samples it is not known how it was asked."""
    return not score.get("provenance", {}).get("given")


def task_of(score: Record) -> Task | None:
    """The task of lm_eval that a score repeats; an imported one is none."""
    return None if "imported" in score.get("provenance", {}) else TASKS.get((score["benchmark"], score["kind"]))


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
        (shown, filtered), stderr = key_of(score, name), metric.get("stderr")
        found[f"{shown},{filtered}"] = metric.get("value")
        found[f"{shown}_stderr,{filtered}"] = "N/A" if stderr is None else stderr
    return found


def key_of(score: Record, name: str) -> tuple[str, str]:
    """(metric, filter): those of lm_eval's task; elsewhere the accuracy of scored choices is `acc` and that of answers
    `exact_match`, as lm_eval calls them."""
    known = task_of(score)
    if known and name in known.keys:
        metric, _, filtered = known.keys[name].partition(",")
        return metric, filtered
    usual = "acc" if output_type(score) == "multiple_choice" else "exact_match"
    return usual if name == "accuracy" else name, FILTER


def stages_of(score: Record) -> list[Record]:
    """Return the stages of a score's configuration."""
    stages = (provenance(score, "configuration") or {}).get("stages")
    return [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []


def output_type(score: Record) -> str:
    """Return lm_eval's output type of the last stage: `multiple_choice` or `generate_until`."""
    stages = stages_of(score)
    return "multiple_choice" if stages and stages[-1].get("mode") not in {None, "generate"} else "generate_until"


def configuration(task: str, score: Record) -> Record:
    """What was asked, as far as it has a place in a task's configuration."""
    stages = stages_of(score)
    metrics = dict.fromkeys(key_of(score, name)[0] for name in score.get("metrics", {}))
    return {
        "task": task,
        "dataset_path": score["benchmark"],
        "num_fewshot": shots(score),
        "metric_list": [{"metric": metric} for metric in metrics],
        "output_type": output_type(score),
        "generation_kwargs": stages[-1].get("sampling", {}) if stages else {},
        "repeats": score["repeats"],
        "metadata": {"version": provenance(score, "benchmark_version"), "kind": score["kind"]},
    }


def provenance(score: Record, name: str) -> Any:
    """Return one field of a score's provenance; None if it is absent."""
    return score.get("provenance", {}).get(name)


def shots(score: Record) -> int:
    """Return the number of few-shot examples in the score's configuration; 0 if it names none."""
    given = (provenance(score, "configuration") or {}).get("shots")
    count = given.get("count", 0) if isinstance(given, dict) else 0
    return count if isinstance(count, int) else 0


def directions(score: Record) -> dict[str, bool]:
    """Return by metric whether a higher value is better: false for units in LOWER."""
    return {
        key_of(score, name)[0]: metric.get("unit", "share") not in LOWER
        for name, metric in score.get("metrics", {}).items()
    }


def sizes(score: Record, rows: Mapping[str, int]) -> dict[str, int]:
    """Return lm_eval's `n-samples` entry: the rows of the benchmark and the rows that were evaluated."""
    return {"original": rows.get(score["benchmark"], score["rows"]), "effective": score["rows"]}


def sample_lines(score: Record, samples: Iterable[Record]) -> Iterator[str]:
    """One line a row and filter; its repeats are the responses."""
    names = [verdict_name(score), *score.get("metrics", {})]
    filters = list(dict.fromkeys(key_of(score, name)[1] for name in names))
    for row, group in groupby(samples, key=lambda sample: sample["row"]):
        own = list(group)
        for filtered in filters:
            yield line(document(score, row, own, filtered))


def document(score: Record, row: int, samples: list[Record], filtered: str) -> Record:
    """One row as lm_eval logs it, under one of its filters. The row itself is not stored, so `doc` says which one it
    was; what a filter that is not our grader's own extracts is not stored, either."""
    verdict = verdict_name(score)
    measured = [verdict, *(name for name in score.get("metrics", {}) if any(name in parts(one) for one in samples))]
    keys = {name: key_of(score, name) for name in measured}
    found = {
        key: mean_of(samples, "" if name == verdict else name) for name, (key, of) in keys.items() if of == filtered
    }
    prompt, target = first_prompt(samples[0]), samples[0].get("expected", "")
    doc = {"row": row, "benchmark": score["benchmark"]}
    if picks_rows(score):  # then a number says nothing about which row of the set it is
        doc["row_id"] = samples[0].get("row_id", "")
    stages = stages_of(score)
    return {
        "doc_id": row,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": stages[-1].get("sampling", {}) if stages else {}}},
        "resps": [[response(sample) for sample in samples]],
        "filtered_resps": [sample.get("extracted") if keys[verdict][1] == filtered else None for sample in samples],
        "filter": filtered,
        "metrics": [*found],
        "doc_hash": hashed(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": hashed(prompt),
        "target_hash": hashed(str(target)),
        **found,
    }


def picks_rows(score: Record) -> bool:
    """Whether the rows of a score were picked by `rows`, `where` or `order`."""
    configuration = score.get("provenance", {}).get("configuration") or {}
    return any(map(configuration.get, ("rows", "where", "order")))


def verdict_name(score: Record) -> str:
    """Return the metric that is the mean of the samples' verdicts: `pass@1` or `accuracy`."""
    return "pass@1" if "pass@1" in score.get("metrics", {}) and "accuracy" not in score["metrics"] else "accuracy"


def mean_of(samples: list[Record], part: str) -> float | None:
    """Return the mean of one row over its samples' verdicts, or over the metric `part`; None if a sample has no
    value."""
    values = [parts(sample).get(part) if part else sample.get("value") for sample in samples]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(samples) else None


def parts(sample: Record) -> Mapping[str, float]:
    """Return the further metrics of a sample by name; empty if it has none."""
    found: Mapping[str, float] = sample.get("parts", {})
    return found


def first_prompt(sample: Record) -> str:
    """Return the prompt of the first stage; empty if the sample has no stages."""
    stages = sample.get("stages", ())
    return str(stages[0]["prompt"]) if stages else ""


def response(sample: Record) -> str:
    """Return everything after the first prompt: the completions, and the text that later stages appended."""
    stages = sample.get("stages", ())
    return "".join((stage["prompt"] if number else "") + stage["completion"] for number, stage in enumerate(stages))


def hashed(text: str) -> str:
    """Return the sha256 of a text as hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
