"""Reading what evalplus writes: one file of verdicts, and one of the replies as they were generated.

The file of verdicts has no scores. They are computed as evalplus prints them: the share of the problems whose solution
passes the base tests, and of those whose solution passes both the base tests and the added ones (`plus`).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rwkv_daemon.harness.outputs.files import cut, lines_of, only_file, value_in
from rwkv_daemon.harness.outputs.result import HarnessMetric, ResultError, TaskResult
from rwkv_daemon.harness.outputs.tally import GENERATED, Tally
from rwkv_daemon.workers.run_directory import Record, SampleRecord, StageRecord
from rwkvctl.text.quantities import several

RESULTS: Final = re.compile(r".*_eval_results\.json")
REPLIES: Final = re.compile(r".*\.raw\.jsonl")
MOST_RESULTS: Final = 256 * 1024**2
MOST_PROBLEMS: Final = 100_000
PASSED: Final = "pass"
TIMED_OUT: Final = "timeout"
STATUSES: Final = (PASSED, "fail", TIMED_OUT)
NUMBERS: Final = re.compile(r"[0-9]{1,9}")


def results(folder: Path, task: str) -> dict[str, TaskResult]:
    """Return the result of the one dataset in a folder, by its name. Raises ResultError, NoResultsError."""
    del task
    dataset, hashed, problems = verdicts(folder)
    every = [passes_base_and_all(one) for one in problems.values()]
    known = [one for one in every if one is not None]
    metrics = tuple(
        HarnessMetric(name=name, value=sum(one[at] for one in known) / len(every))
        if len(known) == len(every) and every
        else HarnessMetric(name=name, value=None, reason=f"no verdict on {several(len(every) - len(known), 'problem')}")
        for at, name in ((1, "pass@1,plus"), (0, "pass@1,base"))
    )
    return {dataset: TaskResult(task=dataset, metrics=metrics, n=len(every), version=cut(hashed)[:12])}


def verdicts(folder: Path) -> tuple[str, str, dict[str, dict[str, Any]]]:
    """Return the dataset, the hash of its file, and the verdict on each problem in the order of their numbers. Raises
    ResultError, NoResultsError."""
    path = only_file(folder, RESULTS, "results")
    file = value_in(path, MOST_RESULTS)
    every = file.get("eval") if isinstance(file, dict) else None
    if not isinstance(every, dict):
        raise ResultError(f"{path.name} has no verdicts")
    problems = dict[str, dict[str, Any]]()
    for name in sorted(every, key=lambda name: ([int(one) for one in NUMBERS.findall(name)], name)):
        solutions = every[name]
        if not isinstance(solutions, list) or len(solutions) != 1 or not isinstance(solutions[0], dict):
            raise ResultError(f"{path.name} does not have one solution of {cut(name)[:60]}")
        problems[name] = solutions[0]
    return path.parent.name, str(file.get("hash", "")), problems


def passes_base_and_all(verdict: Mapping[str, Any]) -> tuple[bool, bool] | None:
    """Return whether a solution passes the base tests, and all; None if evalplus does not say."""
    base, plus = verdict.get("base_status"), verdict.get("plus_status")
    if base not in STATUSES or plus not in STATUSES:
        return None
    return base == PASSED, base == plus == PASSED


class EvalplusSamples:
    """The solutions of a dataset as the records of a job. The verdict is that of all tests; what the model replied, of
    which evalplus takes the solution, is in a file of its own."""

    def __init__(self, folder: Path, task: str, found: Mapping[str, TaskResult], engine: str) -> None:
        del task, found
        self.folder, self.engine, self.tally = folder, engine, Tally()

    def records(self) -> Iterator[Record]:
        """Yield the records. Raises ResultError, NoResultsError."""
        _, hashed, problems = verdicts(self.folder)
        replies = replies_in(self.folder)
        if replies.keys() != problems.keys():
            raise ResultError("its replies and its verdicts are not of the same problems")
        for row, (name, verdict) in enumerate(problems.items()):
            passes = passes_base_and_all(verdict)
            value = None if passes is None else float(passes[1])
            self.tally.add(value, f"{hashed}\0{name}")
            yield StageRecord(
                row=row, repeat=0, stage=0, text=replies[name], stop=GENERATED, prompt=cut(name),
                engine=self.engine,
            )  # fmt: skip
            yield SampleRecord(
                row=row, repeat=0, value=value, reason="error" if value is None else "",
                extracted=text_of(verdict, "solution"), parts={} if passes is None else {"base": float(passes[0])},
                detail=detail_of(verdict, passes),
            )  # fmt: skip


def replies_in(folder: Path) -> dict[str, str]:
    """Return the reply to each problem. Raises ResultError, NoResultsError."""
    found = dict[str, str]()
    for line in lines_of(only_file(folder, REPLIES, "replies")):
        if (name := str(line.get("task_id"))) in found or len(found) == MOST_PROBLEMS:
            raise ResultError(f"it has several replies to {cut(name)[:60]}, or over {MOST_PROBLEMS:,} problems")
        found[name] = text_of(line, "solution")
    return found


def detail_of(verdict: Mapping[str, Any], passes: tuple[bool, bool] | None) -> str:
    """Return why a solution has no point: what became of the tests, and the input of the first that failed. Of tests
    that were ended in time evalplus gives the last one that passed."""
    if passes is not None and passes[1]:
        return ""
    said = []
    for tests in ("base", "plus"):
        status, failed = verdict.get(f"{tests}_status"), verdict.get(f"{tests}_fail_tests")
        if status != PASSED:
            given = failed if isinstance(failed, list) and status != TIMED_OUT else []
            first = f" with {given[0]!r:.200}" if given else ""
            said.append(f"{tests} tests: {cut(str(status))[:20]}{cut(first)}")
    return "; ".join(said)


def text_of(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    return cut(value) if isinstance(value, str) else ""
