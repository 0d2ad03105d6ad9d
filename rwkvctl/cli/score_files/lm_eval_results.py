"""Reading the results file of lm_eval: the tasks that our kinds of the profile lm-eval repeat, as numbers of theirs."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rwkvctl.export.lm_eval_tasks import TASKS, Task
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.text.quantities import several


class ResultsError(RwkvctlError):
    """The file is no results file, or of a run whose prompts are not those of our kinds."""

    exit_code = Exit.USAGE


class TaskNumber(NamedTuple):
    """One metric of one task, in our names. `shots`: how many examples stood before each question."""

    benchmark: str
    kind: str
    metric: str
    value: float
    n: int
    shots: int
    task: str


NAMED: Final = 8
HIGHEST: Final = 2**53
"""A number from there on is no score and no number of rows, and the daemon would refuse it."""

OURS: Final[Mapping[str, tuple[tuple[str, str], Task]]] = {task.name: (key, task) for key, task in TASKS.items()}


def numbers(file: Any) -> tuple[list[TaskNumber], list[str]]:
    """Return the numbers of a results file, and what of it is left out, as sentences. Raises ResultsError if its
    prompts are not those of our kinds."""
    if not isinstance(file, dict):
        raise ResultsError("it is JSON, but no results file of lm_eval.")
    results = file.get("results")
    if not isinstance(results, dict) or not results:
        raise ResultsError("it has no results: it is no results file of lm_eval.")
    config = file.get("config")
    if isinstance(config, dict) and config.get("gen_kwargs"):
        raise ResultsError("it was measured with other settings of generation (gen_kwargs) than those of its tasks.")
    for name, what in (("chat_template", "a chat template"), ("system_instruction", "a system instruction")):
        if file.get(name):
            raise ResultsError(f"it was measured with {what}, which our kinds of the profile lm-eval do not have.")
    found, left_out = list[TaskNumber](), list[str]()
    for task in (task for task in results if task in OURS):
        try:
            found += of_task(file, task, results[task])
        except ResultsError as error:
            left_out.append(str(error).rstrip("."))
    parts = {part for task in results if task in OURS for part in subtasks(file, task)}
    if unknown := [task for task in results if task not in OURS and task not in parts]:
        left_out.append(f"{several(len(unknown), 'task')} that no kind of ours repeats: {', '.join(unknown[:NAMED])}")
    return found, left_out


def of_task(file: Mapping[str, Any], task: str, values: Any) -> Iterator[TaskNumber]:
    """Yield the metrics of one task. Raises ResultsError if it has none of them, or no number of samples."""
    (benchmark, kind), known = OURS[task]
    if not isinstance(values, dict):
        raise ResultsError(f"{task}: its results are no table.")
    leaves = list(leaves_of(file, task))
    n, shots = rows_of(file, task, leaves), shots_of(file, task, leaves)
    named = {metric: values[key] for metric, key in known.keys.items() if key in values}
    if not named:
        raise ResultsError(f"{task} has none of {', '.join(known.keys.values())}: it is another version of the task.")
    for metric, value in named.items():
        if not is_number(value):
            raise ResultsError(f"{task}: {known.keys[metric]} is no number.")
        yield TaskNumber(benchmark, kind, metric, float(value), n, shots, task)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number that a score can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < HIGHEST  # not NaN either


def is_count(value: Any, least: int) -> bool:
    """Whether a value of JSON is a number of rows, or of examples."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < HIGHEST


def subtasks(file: Mapping[str, Any], task: str) -> list[str]:
    """Return the tasks that a group is made of, at every level, each once."""
    found, left = dict[str, None](), [task]
    while left:
        below = [part for part in parts_of(file, left.pop()) if part not in found and part != task]
        found |= dict.fromkeys(below)
        left += below
    return list(found)


def parts_of(file: Mapping[str, Any], task: str) -> list[str]:
    """Return the parts of a group; none of a task that is no group."""
    groups = file.get("group_subtasks")
    below = groups.get(task) if isinstance(groups, dict) else None
    return [part for part in below if isinstance(part, str)] if isinstance(below, list) else []


def leaves_of(file: Mapping[str, Any], task: str) -> Iterator[str]:
    """Yield the tasks of a group that are none themselves; a task that is no group is its own."""
    yield from (part for part in subtasks(file, task) or [task] if not parts_of(file, part))


def rows_of(file: Mapping[str, Any], task: str, leaves: list[str]) -> int:
    """Return how many rows were asked. Raises ResultsError if the file does not say."""
    sizes = file.get("n-samples")
    known = [sizes.get(leaf) if isinstance(sizes, dict) else None for leaf in leaves]
    counts: list[Any] = [one.get("effective") if isinstance(one, dict) else None for one in known]
    if not counts or not all(is_count(count, 1) for count in counts):
        raise ResultsError(f"{task}: n-samples does not say how many rows were asked.")
    every: list[Any] = [one.get("original") if isinstance(one, dict) else None for one in known]
    if any(is_count(whole, 1) and count < whole for count, whole in zip(counts, every, strict=True)):
        raise ResultsError(f"{task}: only some of its rows were asked (--limit).")
    return sum(counts)


def shots_of(file: Mapping[str, Any], task: str, leaves: list[str]) -> int:
    """Return how many examples stood before each question. Raises ResultsError if the file does not say, or not all
    parts of a group had as many."""
    shots = file.get("n-shot")
    counts = [shots[name] for name in leaves if name in shots] if isinstance(shots, dict) else []
    if not counts or not all(is_count(count, 0) for count in counts):
        raise ResultsError(f"{task}: n-shot does not say how many examples it was asked with.")
    if len(different := sorted(set(counts))) > 1:
        raise ResultsError(f"{task}: its parts were asked with {', '.join(map(str, different))} examples.")
    return int(different[0])
