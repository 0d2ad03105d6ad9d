"""Reading what lm_eval writes: one results file, and with --log_samples one file of samples for each task."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rwkv_daemon.harness.outputs.files import cut, files_of, lines_of, only_file, value_in
from rwkv_daemon.harness.outputs.result import HarnessMetric, ResultError, TaskResult, number
from rwkv_daemon.harness.outputs.tally import GENERATED, OF_ALL_ROWS, Tally
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord

RESULTS: Final = re.compile(r"results_.*\.json")
SAMPLES: Final = re.compile(r"samples_.*\.jsonl")
MOST_RESULTS: Final = 1024**3
LONGEST_NAME: Final = 120
OWN_KEYS: Final = frozenset({"alias", "name", "sample_len", "sample_count"})
PERPLEXITIES: Final = frozenset({"word_perplexity", "byte_perplexity", "bits_per_byte"})
"""Metrics whose samples are pairs of a log-probability and a length. Those of others (mcc) are something else."""


def results(folder: Path, task: str) -> dict[str, TaskResult]:
    """Return the result of each task and each group in the one results file of a folder, whichever was asked. Raises
    ResultError, NoResultsError."""
    del task
    path = only_file(folder, RESULTS, "results")
    file = value_in(path, MOST_RESULTS)
    values = file.get("results") if isinstance(file, dict) else None
    if not isinstance(values, dict):
        raise ResultError(f"{path.name} has no results")
    every = values | table(file, "groups")
    return {name: of_task(file, values, name) for name in every if isinstance(every[name], dict)}


def of_task(file: Mapping[str, Any], values: Mapping[str, Any], task: str) -> TaskResult:
    """Return the result of one task. A group has as many rows as its parts together."""
    own = table(file, "groups").get(task) or table(values, task)
    parts = {part: rows_of(file, part) for part in parts_of(file, task)}
    sizes = [rows_of(file, task)] if not parts else list(parts.values())
    whole = [rows_of(file, one, "original") for one in (parts or [task])]
    return TaskResult(
        task=task,
        metrics=tuple(metrics_of(own)),
        n=sum(sizes),
        whole=sum(whole) or None,
        parts=parts,
        missing=tuple(part for part, rows in parts.items() if not rows or not has_metric(values.get(part))),
        version=text_of(file, "versions", task),
        shots=text_of(file, "n-shot", task),
    )


def metrics_of(values: Mapping[str, Any]) -> Iterator[HarnessMetric]:
    """Yield the metrics of a task (keys `METRIC,FILTER`), in the file's order."""
    for key, value in values.items():
        metric, _, kind = key.partition(",")
        if key in OWN_KEYS or metric.endswith("_stderr") or len(key) > LONGEST_NAME or not key.isprintable():
            continue
        known, reason = number(value)
        error, _ = number(values.get(f"{metric}_stderr,{kind}"))
        yield HarnessMetric(name=cut(name_of(metric, kind)), value=known, stderr=error, reason=reason)


def name_of(metric: str, kind: str) -> str:
    """Return what we call a metric under a filter: `acc`, or `exact_match,strict-match`."""
    return metric if kind in {"", "none"} else f"{metric},{kind}"


def has_metric(values: object) -> bool:
    """Whether a task has a metric that is a number."""
    return isinstance(values, dict) and any(metric.value is not None for metric in metrics_of(values))


def parts_of(file: Mapping[str, Any], task: str) -> list[str]:
    """Return the tasks that a group is made of, those of its own groups included; empty for a task."""
    below = {name: parts for name, parts in table(file, "group_subtasks").items() if isinstance(parts, list)}
    found, left = dict[str, None](), [task]
    while left:
        for part in below.get(left.pop(), ()):
            if isinstance(part, str) and part != task and part not in found:
                found[part] = None
                left.append(part)
    return [part for part in found if not below.get(part)]


def rows_of(file: Mapping[str, Any], task: str, what: str = "effective") -> int:
    """Return how many rows of a task were asked, or how many it has (`original`); 0 if the file does not say."""
    sizes = table(file, "n-samples").get(task)
    count = sizes.get(what) if isinstance(sizes, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0


def table(file: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = file.get(name)
    return found if isinstance(found, dict) else {}


def text_of(file: Mapping[str, Any], name: str, task: str) -> str:
    value = table(file, name).get(task, "")
    return cut(str(value))[:LONGEST_NAME] if isinstance(value, str | int | float) else ""


class LmEvalSamples:
    """The samples of a task in the files of a folder, as the records of a job: one a row, numbered through the parts of
    a group in order. The verdict is that of the headline of its own task, as `found` has it; of a perplexity, the bits
    per byte or word of the row, as our own."""

    def __init__(self, folder: Path, task: str, found: Mapping[str, TaskResult], engine: str) -> None:
        self.folder, self.result, self.found, self.engine, self.tally = folder, found[task], found, engine, Tally()

    def records(self) -> Iterator[Record]:
        """Yield the records. Raises ResultError."""
        first = 0
        for task in self.result.parts or [self.result.task]:
            headline = next(iter(self.found[task].metrics), None) if task in self.found else None
            name = headline.name if headline else ""
            kind = name.partition(",")[2] or "none"
            numbers = dict[int, dict[str, float]]()
            for line in self._lines(task):
                numbers.setdefault(doc_of(line, task), {}).update(numbers_of(line))
            seen = set[int]()
            for line in self._lines(task):
                if line.get("filter", "none") == kind and (doc := doc_of(line, task)) not in seen:
                    yield from self._of_line(line, first + len(seen), name.partition(",")[0], numbers[doc])
                    seen.add(doc)
            first += len(seen)

    def _lines(self, task: str) -> Iterator[dict[str, Any]]:
        files = [path for path in files_of(self.folder, SAMPLES) if task_of(path) == task]
        if len(files) > 1:
            raise ResultError(f"it wrote {len(files)} files of samples of {task}")
        for path in files:
            yield from lines_of(path)

    def _of_line(self, line: Mapping[str, Any], row: int, metric: str, numbers: dict[str, float]) -> Iterator[Record]:
        value, detail = verdict(line.get(metric))
        if pair := summands(line, metric):
            value, detail = number(-pair[0] / math.log(2) / max(1.0, pair[1]))
        of_all_rows = value is None and isinstance(line.get(metric), list)
        self.tally.add(value, f"{line.get('doc_hash', '')}\0{line.get('target_hash', '')}", of_all_rows=of_all_rows)
        choices, expected = choices_of(line), cut(target_of(line))
        text, logprobs, best = cut(text_of_reply(line)), [], None
        if choices:
            logprobs = [logprob for logprob, _ in choices]
            best = max(range(len(choices)), key=logprobs.__getitem__)
            text = cut(argument(line, best, "arg_1"))
            index = int(expected) if len(expected) < 10 and expected.isdecimal() else len(choices)
            expected = cut(argument(line, index, "arg_1")) if index < len(choices) else expected
        yield StageRecord(
            row=row, repeat=0, stage=0, text=text, stop="choice" if choices else GENERATED, choice=best,
            logprobs=tuple(logprobs), greedy=tuple(greedy for _, greedy in choices),
            prompt=cut(argument(line, 0, "arg_0")), engine=self.engine,
        )  # fmt: skip
        yield SampleRecord(
            row=row, repeat=0, value=value, expected=expected,
            reason="" if value is not None else OF_ALL_ROWS if of_all_rows else "error",
            extracted=text if choices else cut(filtered(line)), parts=numbers,
            detail=detail if value is None and not of_all_rows else "",
        )  # fmt: skip


def task_of(path: Path) -> str:
    """Return the task of a file `samples_TASK_TIME.jsonl`; the time has no underscore."""
    return path.stem.removeprefix("samples_").rpartition("_")[0]


def argument(line: Mapping[str, Any], number_of_request: int, name: str) -> str:
    """Return an argument of one of a sample's requests: arg_0 is the prompt, arg_1 of a choice its text."""
    arguments = table(line, "arguments").get(f"gen_args_{number_of_request}")
    value = arguments.get(name, "") if isinstance(arguments, dict) else ""
    return value if isinstance(value, str) else ""


def choices_of(line: Mapping[str, Any]) -> list[tuple[float, bool]]:
    """Return (log-probability, whether it is the likeliest) of each choice; empty for a generated answer."""
    found = list[tuple[float, bool]]()
    replies = line.get("filtered_resps")
    for reply in replies if isinstance(replies, list) else ():
        if not isinstance(reply, list) or len(reply) != 2:
            return []
        try:
            found.append((float(reply[0]), str(reply[1]) == "True"))
        except (TypeError, ValueError, OverflowError):
            return []
    return found if all(math.isfinite(logprob) for logprob, _ in found) else []


def text_of_reply(line: Mapping[str, Any]) -> str:
    """Return the first reply as it was generated."""
    reply = line.get("resps")
    while isinstance(reply, list) and reply:
        reply = reply[0]
    return reply if isinstance(reply, str) else ""


def filtered(line: Mapping[str, Any]) -> str:
    """Return what the filter took from the reply."""
    reply = line.get("filtered_resps")
    while isinstance(reply, list) and reply:
        reply = reply[0]
    return reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)


def target_of(line: Mapping[str, Any]) -> str:
    target = line.get("target", "")
    return target if isinstance(target, str) else json.dumps(target, ensure_ascii=False)


def doc_of(line: Mapping[str, Any], task: str) -> int:
    """Return the number of a sample's row. Raises ResultError."""
    found = line.get("doc_id")
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ResultError(f"a sample of {task} has no doc_id")
    return found


def numbers_of(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a sample by metric; of a metric over all rows what it adds up, under the names that our own
    metrics have for it."""
    names, kind = line.get("metrics"), str(line.get("filter", "none"))
    found = dict[str, float]()
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and (value := verdict(line.get(name))[0]) is not None:
            found[name_of(name, kind)] = value
        elif isinstance(name, str) and (pair := summands(line, name)):
            found |= {"logprob": pair[0], "words" if name.startswith("word_") else "bytes": pair[1]}
    return found


def verdict(value: object) -> tuple[float | None, str]:
    """Return the metric of one row as a number, or why it is none; tasks such as ifeval write true and false."""
    return number(float(value) if isinstance(value, bool) else value)


def summands(line: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    """Return (log-probability, length) of a sample, from which a perplexity of all rows is computed."""
    value = line.get(metric)
    if metric not in PERPLEXITIES or not isinstance(value, list) or len(value) != 2:
        return None
    first, second = number(value[0])[0], number(value[1])[0]
    return None if first is None or second is None else (first, second)
