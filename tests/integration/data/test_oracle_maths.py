"""Prompts of lm-evaluation-harness itself for the real rows, byte for byte against ours.

The harness runs in a process of its own, because it reads its settings from the environment when it is imported, and
because its MATH tasks insist on an antlr4 version that only their graders need: that check is answered there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rwkv_data import registry, sets
from rwkv_data.prepare import prepare

HARNESS = """
import importlib.metadata, inspect, json, sys
found = importlib.metadata.version
importlib.metadata.version = lambda name: "4.11.0" if name == "antlr4-python3-runtime" else found(name)
from lm_eval import evaluator
from lm_eval.tasks import TaskManager, get_task_dict

folder, limits, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
seed = inspect.signature(evaluator.simple_evaluate).parameters["fewshot_random_seed"].default
asked = {}
for name, limit in limits.items():
    [task] = get_task_dict([name], TaskManager(include_path=folder)).values()
    task.set_fewshot_seed(seed)
    task.build_all_requests(limit=limit, rank=0, world_size=1)
    asked[name] = [[one.doc_id, *one.args] for one in sorted(task.instances, key=lambda one: one.doc_id)]
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
FIRST = 50
MIDDLE = 700


class Oracle:
    """Asks the harness for the prompts of a stock task on local rows: [(row, prompt, generation arguments)]."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, stock: str, files: dict[str, Path], limit: int | None = None, more: str = "") -> list[list]:
        tasks = Path(pytest.importorskip("lm_eval.tasks", reason="needs lm_eval: not installed").__path__[0])
        if not (tasks / stock).is_file():
            pytest.skip(f"needs lm_eval: no task {stock}")
        name = f"local_{Path(stock).stem.replace('-', '_')}"
        sources = json.dumps({split: str(path) for split, path in files.items()})
        (self.folder / f"{name}.yaml").write_text(TASK.format(stock=tasks / stock, name=name, files=sources, more=more))
        out = self.folder / "asked.json"
        command = [sys.executable, "-c", HARNESS, str(self.folder), json.dumps({name: limit}), str(out)]
        found = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, timeout=280, check=False
        )
        assert found.returncode == 0, found.stderr[-3000:]
        answer = json.loads(out.read_text())
        assert answer["seed"] == 1234
        return answer["asked"][name]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
        return kept | {
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(self.folder / "hf"),
            "TOKENIZERS_PARALLELISM": "false",
        }


@pytest.fixture
def oracle(tmp_path):
    return Oracle(tmp_path)


@pytest.fixture
def prepared(real_rows, tmp_path):
    """A kind and its rows with their examples, as the runner asks them."""

    def rows(name: str, kind: str, folder: str = "", limit: int | None = None):
        benchmark = registry.load(name)
        prepare(name, tmp_path / "data", real_rows / (folder or name))
        chosen = benchmark.kinds[kind]
        needs = chosen.shots is not None and chosen.shots.needs_pool
        pool = sets.load_pool(tmp_path / "data", benchmark) if needs else ()
        return chosen, chosen.asked(sets.load_rows(tmp_path / "data", benchmark), pool, limit)

    return rows


def same(kind, rows, theirs) -> None:
    """Prompts, stops, limit and temperature of each row that the harness asked."""
    assert len(theirs) > 0
    for doc, prompt, how in theirs:
        assert kind.prompt(0, rows[doc]) == prompt, doc
        assert list(kind.stages[0].stops.suffixes) == how["until"]
        assert kind.stages[0].sampling.max_tokens == how.get("max_gen_toks", 256)
        assert how["do_sample"] is False
        assert how.get("temperature", 0.0) == kind.stages[0].sampling.temperature == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("limit", [FIRST, None])
def test_gsm8k_draws_the_harness_examples(oracle, prepared, real_rows, limit) -> None:
    """Five examples a question from one stream; a row's examples are the same whether or not a limit is set."""
    files = {split: real_rows / "gsm8k" / f"{split}.jsonl" for split in ("train", "test")}
    theirs = oracle.ask("gsm8k/gsm8k.yaml", files, limit)
    kind, rows = prepared("gsm8k", "free_response.lm-eval", limit=limit)
    assert [doc for doc, *_ in theirs] == list(range(limit or 1319))
    same(kind, rows, theirs)
    if limit is None:
        assert theirs[MIDDLE][1].count("Question: ") == 6
        assert kind.prompt(0, rows[MIDDLE]) == theirs[MIDDLE][1]


@pytest.mark.slow
def test_gsm8k_cot(oracle, prepared, real_rows) -> None:
    theirs = oracle.ask("gsm8k/gsm8k-cot.yaml", {"test": real_rows / "gsm8k" / "test.jsonl"})
    kind, rows = prepared("gsm8k", "free_response.lm-eval-cot")
    assert len(theirs) == 1319
    same(kind, rows, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, None])
@pytest.mark.parametrize(
    ("stock", "kind"),
    [
        ("minerva_math/minerva_math500.yaml", "free_response.lm-eval"),
        ("hendrycks_math/hendrycks_math500.yaml", "free_response.lm-eval-hendrycks"),
    ],
)
def test_math_500(oracle, prepared, real_rows, stock, kind, limit) -> None:
    files = {"test": real_rows / "math_500" / "test.jsonl"}
    theirs = oracle.ask(stock, files, limit, more="training_split: null")
    ours, rows = prepared("math_500", kind, limit=limit)
    assert len(theirs) == (limit or 500)
    same(ours, rows, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stock", "name"),
    [
        ("minerva_math/minerva_math_algebra.yaml", "math_minerva"),
        ("hendrycks_math/hendrycks_math_algebra.yaml", "hendrycks_math"),
    ],
)
def test_all_of_math(oracle, prepared, real_rows, stock, name) -> None:
    """The subjects' tasks differ in nothing but their rows, so one of them stands for all 5,000."""
    files = {"test": real_rows / "math" / "test.jsonl"}
    theirs = oracle.ask(stock, files, more="training_split: null")
    kind, rows = prepared(name, "free_response.lm-eval", "math")
    assert len(theirs) == 5000
    same(kind, rows, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "column"), [("aime24", "Problem"), ("aime25", "problem")])
def test_aime(oracle, prepared, real_rows, tmp_path, name, column) -> None:
    """The local copies name their columns otherwise than the harness's sources do."""
    raw = [json.loads(line) for line in (real_rows / name / "test.jsonl").read_text().splitlines()]
    answer = "expected_answer" if name == "aime25" else "answer"
    theirs_rows = [{column: row["problem"], "Answer": row[answer], "answer": row[answer]} for row in raw]
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in theirs_rows))
    split = {"aime24": "train", "aime25": "test"}[name]
    theirs = oracle.ask(f"aime/{name}.yaml", {split: path})
    kind, rows = prepared(name, "free_response.lm-eval")
    assert len(theirs) == 30
    same(kind, rows, theirs)
