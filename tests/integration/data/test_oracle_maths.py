"""Prompts of lm-evaluation-harness itself for the real rows, byte for byte against ours.

The harness runs once, in a process of its own, because it reads its settings from the environment when it is imported,
and because its MATH tasks insist on an antlr4 version that only their graders need: that check is answered there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

HARNESS = """
import importlib.metadata, inspect, json, sys
found = importlib.metadata.version
importlib.metadata.version = lambda name: "4.11.0" if name == "antlr4-python3-runtime" else found(name)
from lm_eval import evaluator
from lm_eval.tasks import TaskManager, get_task_dict

folder, names, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
seed = inspect.signature(evaluator.simple_evaluate).parameters["fewshot_random_seed"].default
manager, asked = TaskManager(include_path=folder, include_defaults=False), {}
for name, limits in names.items():
    [task] = get_task_dict([name], manager).values()
    for limit in limits:
        task.set_fewshot_seed(seed)
        task.build_all_requests(limit=limit, rank=0, world_size=1)
        instances = sorted(task.instances, key=lambda one: one.doc_id)
        asked[f"{name}-{limit}"] = [[one.doc_id, *one.args] for one in instances]
json.dump({"seed": seed, "asked": asked}, open(out, "w"))
"""
TASK = """
include: {stock}
task: {name}
dataset_path: json
dataset_name: null
dataset_kwargs:
  data_files: {files}
{more}
"""
GSM8K = {"train": "gsm8k/train.jsonl", "test": "gsm8k/test.jsonl"}
NO_TRAIN = "training_split: null"
TASKS = {
    "gsm8k": ("gsm8k/gsm8k.yaml", GSM8K, ""),
    "gsm8k_cot": ("gsm8k/gsm8k-cot.yaml", {"test": "gsm8k/test.jsonl"}, ""),
    "minerva_500": ("minerva_math/minerva_math500.yaml", {"test": "math_500/test.jsonl"}, NO_TRAIN),
    "hendrycks_500": ("hendrycks_math/hendrycks_math500.yaml", {"test": "math_500/test.jsonl"}, NO_TRAIN),
    "minerva": ("minerva_math/minerva_math_algebra.yaml", {"test": "math/test.jsonl"}, NO_TRAIN),
    "hendrycks": ("hendrycks_math/hendrycks_math_algebra.yaml", {"test": "math/test.jsonl"}, NO_TRAIN),
    "aime24": ("aime/aime24.yaml", {"train": "aime24.jsonl"}, ""),
    "aime25": ("aime/aime25.yaml", {"test": "aime25.jsonl"}, ""),
}
MIDDLE = 700
MANY = 200
"""Enough where all rows have the same examples: the harness compiles its templates anew for each of them."""


def aime_rows(folder: Path, real_rows: Path) -> None:
    """The local copies name their columns otherwise than the sources that the harness reads."""
    for name, question, answer in (("aime24", "Problem", "answer"), ("aime25", "problem", "expected_answer")):
        raw = [json.loads(line) for line in (real_rows / name / "test.jsonl").read_text().splitlines()]
        rows = [{question: row["problem"], "Answer": row[answer], "answer": row[answer]} for row in raw]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def harness(real_rows, tmp_path_factory):
    """What the stock tasks ask of local rows: harness(task, limit) -> [[row, prompt, generation arguments], ...]."""
    stock = Path(pytest.importorskip("lm_eval.tasks", reason="needs lm_eval: not installed").__path__[0])
    folder = tmp_path_factory.mktemp("harness")
    aime_rows(folder, real_rows)
    for name, (yaml, files, more) in TASKS.items():
        places = {
            split: str((folder if path.startswith("aime") else real_rows) / path) for split, path in files.items()
        }
        text = TASK.format(stock=stock / yaml, name=f"local_{name}", files=json.dumps(places), more=more)
        (folder / f"{name}.yaml").write_text(text)
    out = folder / "asked.json"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
    settings = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    limits = {f"local_{name}": (20, MANY if name in {"gsm8k_cot", "minerva", "hendrycks"} else None) for name in TASKS}
    command = [sys.executable, "-c", HARNESS, str(folder), json.dumps(limits), str(out)]
    found = subprocess.run(
        command, env=kept | settings, capture_output=True, text=True, timeout=550, check=False, cwd=folder
    )
    assert found.returncode == 0, found.stderr[-3000:]
    answer = json.loads(out.read_text())
    assert answer["seed"] == 1234
    return lambda name, limit: answer["asked"][f"local_{name}-{limit}"]


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """A kind and its rows with their examples, as the runner asks them."""
    data = tmp_path_factory.mktemp("data")

    def rows(name: str, kind: str, folder: str, limit: int | None):
        benchmark = registry.load(name)
        if prepared_sets.read_manifest(data, name) is None:
            prepare(name, data, real_rows / folder)
        chosen = benchmark.kinds[kind]
        needs = chosen.shots is not None and chosen.shots.needs_pool
        pool = prepared_sets.load_pool(data, benchmark) if needs else ()
        return chosen, chosen.asked(prepared_sets.load_rows(data, benchmark), pool, limit)

    return rows


@pytest.mark.slow("oracles")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("few", [True, False], ids=["20", "all"])
@pytest.mark.parametrize(
    ("task", "benchmark", "kind", "folder", "count"),
    [
        ("gsm8k", "gsm8k", "free_response.lm-eval", "gsm8k", 1319),
        ("gsm8k_cot", "gsm8k", "free_response.lm-eval-cot", "gsm8k", MANY),
        ("minerva_500", "math_500", "free_response.lm-eval", "math_500", 500),
        ("hendrycks_500", "math_500", "free_response.lm-eval-hendrycks", "math_500", 500),
        # A subject's task differs from the others in nothing but its rows, so one stands for all seven.
        ("minerva", "math_minerva", "free_response.lm-eval", "math", MANY),
        ("hendrycks", "hendrycks_math", "free_response.lm-eval", "math", MANY),
        ("aime24", "aime24", "free_response.lm-eval", "aime24", 30),
        ("aime25", "aime25", "free_response.lm-eval", "aime25", 30),
    ],
)
def test_prompts_are_those_of_the_harness(harness, prepared, task, benchmark, kind, folder, count, few) -> None:
    limit = 20 if few else MANY if count == MANY else None
    theirs = harness(task, limit)
    ours, rows = prepared(benchmark, kind, folder, limit)
    assert [doc for doc, *_ in theirs] == list(range(min(limit or count, count)))
    assert len(rows) == len(theirs)
    for doc, prompt, how in theirs:
        assert ours.prompt(0, rows[doc]) == prompt, doc
        assert list(ours.stages[0].stops.suffixes) == how["until"]
        assert ours.stages[0].sampling.max_tokens == how.get("max_gen_toks", 256)
        assert how["do_sample"] is False
        assert how.get("temperature", 0.0) == ours.stages[0].sampling.temperature == 0.0


@pytest.mark.slow("oracles")
@pytest.mark.timeout(600)
def test_a_question_in_the_middle_has_the_examples_of_the_whole_stream(harness, prepared) -> None:
    """Its five examples depend on all the questions before it; nothing else gives the same."""
    prompt = harness("gsm8k", None)[MIDDLE][1]
    kind, rows = prepared("gsm8k", "free_response.lm-eval", "gsm8k", None)
    assert prompt.count("Question: ") == 6
    assert prompt.count("#### ") == 5
    assert kind.prompt(0, rows[MIDDLE]) == prompt
    assert kind.prompt(0, rows[MIDDLE - 1]).partition("\nAnswer:")[0] != prompt.partition("\nAnswer:")[0]
