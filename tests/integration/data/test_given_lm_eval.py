"""lm_eval as an oracle for what `rwkvctl baseline add` reads: results files that it wrote itself, and what its tasks
say of their examples."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.compare.given_scores import runs_of
from rwkv_data.definition import registry
from rwkvctl.cli.score_files import score_file
from rwkvctl.export.lm_eval_tasks import TASKS
from rwkvctl.protocol.training.baselines import GivenScore

lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(600)]

TASK = """\
include: {stock}
task: {name}
dataset_path: json
dataset_name: null
dataset_kwargs: {{data_files: {{test: {rows}}}}}
training_split: null
fewshot_split: null
validation_split: null
test_split: test
num_fewshot: 0
"""
GROUP = """\
group: {name}
task: [{tasks}]
aggregate_metric_list: [{{metric: acc, weight_by_size: true}}]
"""
QUESTION = {"question": "1+1?", "choices": {"text": ["2", "3"], "label": ["A", "B"]}, "answerKey": "A"}


def written(folder: Path) -> Path:
    """What lm_eval writes for its dummy model on three questions, as a task and as groups of groups."""
    rows = folder / "rows.jsonl"
    rows.write_text((json.dumps(QUESTION) + "\n") * 3)
    stock = Path(lm_eval.__path__[0], "tasks", "arc", "arc_easy.yaml")
    for name in ("arc_easy", "mmlu_one", "mmlu_two", "mmlu_three", "stranger"):
        (folder / f"{name}.yaml").write_text(TASK.format(stock=stock, name=name, rows=rows))
    for name, tasks in (("mmlu", "mmlu_a, mmlu_b"), ("mmlu_a", "mmlu_one, mmlu_two"), ("mmlu_b", "mmlu_three")):
        (folder / f"{name}.yaml").write_text(GROUP.format(name=name, tasks=tasks))
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "OMP_NUM_THREADS": "1"}
    script = (
        "import sys, lm_eval\n"
        "from lm_eval.tasks import TaskManager\n"
        "from lm_eval.loggers import EvaluationTracker\n"
        "tracker = EvaluationTracker(output_path=sys.argv[1] + '/out')\n"
        "manager = TaskManager(include_path=sys.argv[1], include_defaults=False)\n"
        "found = lm_eval.simple_evaluate(model='dummy', tasks=['arc_easy', 'mmlu', 'stranger'], task_manager=manager,\n"
        "    bootstrap_iters=10, evaluation_tracker=tracker)\n"
        "found.pop('samples', None)\n"
        "tracker.save_results_aggregated(results=found, samples={})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=os.environ | quiet, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    [found] = (folder / "out").rglob("results_*.json")
    return found


def test_a_file_of_lm_eval_is_read_and_its_scores_are_ones_of_our_kinds(tmp_path: Path) -> None:
    path = written(tmp_path)
    theirs: dict[str, Any] = json.loads(path.read_text())["results"]
    found = score_file.read(str(path), "m")
    kind = "multi_choice_plain.lm-eval"
    assert {(one["benchmark"], one["kind"], one["metric"]): (one["value"], one["n"], one["shots"])
            for one in found.scores} == {
        ("arc_easy", kind, "accuracy"): (theirs["arc_easy"]["acc,none"], 3, 0),
        ("arc_easy", kind, "acc_norm"): (theirs["arc_easy"]["acc_norm,none"], 3, 0),
        ("mmlu", kind, "accuracy"): (theirs["mmlu"]["acc,none"], 9, 0),
    }  # fmt: skip
    assert found.left_out == ["1 task that no kind of ours repeats: stranger"]
    catalogue = {name: registry.load(name) for name in ("arc_easy", "mmlu")}
    runs = runs_of([GivenScore(**one) for one in found.scores], catalogue)
    assert [(run.benchmark, run.n) for run in runs] == [("arc_easy", 3), ("mmlu", 9)]


def test_tasks_as_they_are_have_as_many_examples_as_our_kinds() -> None:
    """So a run of lm_eval without --num_fewshot is one that can be given."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager()
    unlike = []
    for (benchmark, kind), task in TASKS.items():
        known = registry.load(benchmark).kinds[kind]
        ours = known.shots.count if known.shots else 0
        theirs = examples(manager, task.name)
        if theirs - {ours}:
            unlike.append((task.name, theirs, ours))
    assert unlike == []


def examples(manager: Any, name: str) -> set[int]:
    """The numbers of examples that a task, or the leaves of a group or a tag, ask with."""
    from lm_eval.tasks._yaml_loader import load_yaml

    index = manager.task_index
    kind = index[name].kind.name
    if kind == "TAG":
        return set().union(*(examples(manager, one) for one, entry in index.items() if name in entry.tags))
    config = load_yaml(index[name].yaml_path, resolve_func=False)
    if kind == "GROUP":
        parts = [part if isinstance(part, str) else part["task"] for part in config["task"]]
        return set().union(*(examples(manager, part) for part in parts if part != name))
    return {config.get("num_fewshot") or 0}
