"""lm_eval as an oracle for code and instructions: prompts byte for byte, and verdicts on given completions sample by
sample for humaneval and mbpp.

The harness runs unmodified and offline in a process of its own, on its own task files with local rows. Its metric comes
from a repository that cannot be fetched here, so one of the same name and signature stands in: it runs the program,
then the tests, in one process, 3 s at most, as that one does.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(600)]

STOCK = Path(lm_eval.__path__[0], "tasks")
METRIC = """
import subprocess
import sys
import datasets
import evaluate

def passes(program):
    try:
        done = subprocess.run([sys.executable, "-I", "-c", program], timeout=3, capture_output=True)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0

class CodeEval(evaluate.Metric):
    def _info(self):
        features = datasets.Features(
            {"predictions": datasets.Sequence(datasets.Value("string")), "references": datasets.Value("string")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references, k=(1, 10, 100), num_workers=4, timeout=3.0):
        right = [[passes(code + "\\n" + test) for code in codes] for codes, test in zip(predictions, references)]
        return {"pass@1": sum(sum(one) / len(one) for one in right) / len(right)}, right
"""
SCRIPT = """
import json, sys, types
try:
    import immutabledict
except ImportError:  # a table of constants of IFEval's checks, of which only the prompts matter here
    sys.modules["immutabledict"] = types.SimpleNamespace(immutabledict=dict)
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager, get_task_dict

said = json.load(open("said.json"))

class GivenLM(LM):
    def generate_until(self, requests):
        return [said[request.task_name][request.doc_id] for request in requests]
    def loglikelihood(self, requests):
        raise NotImplementedError
    loglikelihood_rolling = loglikelihood

manager, found = TaskManager(include_path=".", include_defaults=False), {"asked": {}, "graded": {}}
for name in ("all_humaneval", "all_mbpp", "all_ifeval"):
    [task] = get_task_dict([name], manager).values()
    task.set_fewshot_seed(1234)
    task.build_all_requests(rank=0, world_size=1)
    instances = sorted(task.instances, key=lambda one: one.doc_id)
    found["asked"][name] = [[one.doc_id, *one.args] for one in instances]
result = lm_eval.simple_evaluate(
    model=GivenLM(), tasks=list(said), task_manager=manager, bootstrap_iters=0, log_samples=True,
    confirm_run_unsafe_code=True)
for name, samples in result["samples"].items():
    found["graded"][name] = sorted(samples, key=lambda sample: sample["doc_id"])
    found["graded"][name + "/results"] = result["results"][name]
json.dump(found, open("found.json", "w"), default=str)
"""
TASK = """
include: {stock}
task: {name}
dataset_path: json
dataset_name: null
dataset_kwargs:
  data_files: {files}
"""
SETS = {
    "humaneval": ("human_eval", "human_eval", "code_human_eval.lm-eval", "test"),
    "mbpp": ("mbpp", "mbpp", "code_mbpp.lm-eval", "test"),
    "ifeval": ("ifeval", "ifeval", "instruction_following.lm-eval", "train"),
}
ROW_OF_TASK_367 = 367 - 11
GRADED = {"humaneval": [*range(0, 160, 3), *range(1, 12, 2)], "mbpp": [*range(0, 490, 9), 1, 2, 4, ROW_OF_TASK_367]}


def docs(real_rows: Path) -> dict[str, list[Row]]:
    """The harness's documents: the local rows as they are."""
    with gzip.open(real_rows / "human_eval" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        functions = [json.loads(line) for line in lines]
    tasks = [json.loads(line) for line in (real_rows / "mbpp" / "mbpp.jsonl").read_text().splitlines()]
    prompts = [json.loads(line) for line in (real_rows / "ifeval" / "input_data.jsonl").read_text().splitlines()]
    return {
        "humaneval": functions,
        "mbpp": [task for task in tasks if 11 <= task["task_id"] <= 510],
        # a table has every column in every row; the kwargs decide nothing about the prompt
        "ifeval": [{**prompt, "kwargs": json.dumps(prompt["kwargs"])} for prompt in prompts],
    }


def completion(number: int, solution: str) -> str:
    """Return a completion: the solution, or a changed form of it."""
    forms = (
        solution,
        solution.replace("return ", "return not ", 1),
        solution.replace("\n", "\n\n"),
        solution[: len(solution) // 2],
        solution.replace("+", "-", 1).replace("range(", "range(1, ", 1),
        f"{solution}\nThis solves it.",
        f"{solution}\n# done",
        "",
    )
    return forms[number // 2 % len(forms)] if number % 2 else solution


@pytest.fixture(scope="module")
def completions(real_rows) -> dict[str, list[str]]:
    """A completion for each graded row."""
    found = docs(real_rows)
    solutions = {
        "humaneval": [found["humaneval"][row]["canonical_solution"] for row in GRADED["humaneval"]],
        "mbpp": [found["mbpp"][row]["code"] for row in GRADED["mbpp"]],
    }
    return {name: [completion(number, text) for number, text in enumerate(texts)] for name, texts in solutions.items()}


@pytest.fixture(scope="module")
def harness(real_rows, completions, tmp_path_factory) -> dict[str, Any]:
    """Return the harness's prompts of all rows, and its verdicts on the completions of some."""
    folder = tmp_path_factory.mktemp("harness")
    (folder / "code_eval").mkdir()
    (folder / "code_eval" / "code_eval.py").write_text(METRIC)
    for name, rows in docs(real_rows).items():
        write_task(folder, f"all_{name}", name, rows)
        if name in GRADED:
            write_task(folder, f"some_{name}", name, [rows[number] for number in GRADED[name]])
    (folder / "said.json").write_text(json.dumps({f"some_{name}": said for name, said in completions.items()}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
    settings = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    settings |= {"HF_ALLOW_CODE_EVAL": "1", "NLTK_DATA": str(nltk_data(folder))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=kept | settings, capture_output=True, text=True, timeout=580, check=False,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "found.json").read_text())


def write_task(folder: Path, name: str, task: str, rows: list[Row]) -> None:
    """A task that is the stock one on other rows."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = json.dumps({SETS[task][3]: str(path)})
    (folder / f"{name}.yaml").write_text(TASK.format(stock=STOCK / task / f"{task}.yaml", name=name, files=files))


def nltk_data(folder: Path) -> Path:
    """Enough for the harness's IFEval to be imported: it looks for the sentence model, which nothing here asks."""
    place = folder / "nltk" / "tokenizers" / "punkt_tab" / "english"
    place.mkdir(parents=True)
    for name in ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"):
        (place / name).write_text("")
    return folder / "nltk"


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """A task's kind and all its rows with their examples, as the runner asks them."""
    data_dir = tmp_path_factory.mktemp("data")

    def asked(task: str) -> tuple[Kind, list[Row]]:
        name, folder, kind, _ = SETS[task]
        benchmark = registry.load(name)
        if prepared_sets.read_manifest(data_dir, name) is None:
            prepare(name, data_dir, real_rows / folder)
        chosen = benchmark.kinds[kind]
        pool = prepared_sets.load_pool(data_dir, benchmark) if chosen.shots else ()
        return chosen, chosen.asked(prepared_sets.load_rows(data_dir, benchmark), pool)

    return asked


@pytest.mark.parametrize(("task", "count", "shots"), [("humaneval", 164, 0), ("mbpp", 500, 3), ("ifeval", 541, 0)])
def test_prompts_are_those_of_the_harness(harness, prepared, task: str, count: int, shots: int) -> None:
    kind, rows = prepared(task)
    theirs = harness["asked"][f"all_{task}"]
    assert len(theirs) == len(rows) == count
    stage = kind.stages[0]
    for number, prompt, how in theirs:
        assert kind.prompt(0, rows[number]) == prompt, number
        assert prompt.count("[DONE]") == shots
        assert list(stage.stops.suffixes) == how["until"]
        assert stage.sampling.max_tokens == how.get("max_gen_toks", 256)
        assert how["do_sample"] is False
        assert how.get("temperature", 0.0) == stage.sampling.temperature == 0.0


@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize("task", ["humaneval", "mbpp"])
def test_verdicts_are_those_of_the_harness(harness, prepared, completions, task: str) -> None:
    kind, rows = prepared(task)
    theirs = harness["graded"][f"some_{task}"]
    assert len(theirs) == len(GRADED[task]) >= 58
    with kind.grading() as grade:
        ours = [
            grade(rows[number], Answer(text, ("stop_suffix",)))
            for number, text in zip(GRADED[task], completions[task], strict=True)
        ]
    metric = {"humaneval": "pass@1", "mbpp": "pass_at_1"}[task]
    verdicts = [float(sample[metric]) for sample in theirs]
    assert [grade.value for grade in ours] == verdicts
    assert 0.4 < sum(verdicts) / len(verdicts) < 0.95
    assert harness["graded"][f"some_{task}/results"][
        f"{metric},{'create_test' if task == 'humaneval' else 'none'}"
    ] == (pytest.approx(sum(verdicts) / len(verdicts)))


@pytest.mark.usefixtures("needs_sandbox")
def test_a_task_that_the_harness_cannot_solve_is_solved_where_its_setup_runs(harness, prepared, completions) -> None:
    place = GRADED["mbpp"].index(ROW_OF_TASK_367)
    assert float(harness["graded"]["some_mbpp"][place]["pass_at_1"]) == 0.0
    _, rows = prepared("mbpp")
    row = rows[ROW_OF_TASK_367]
    assert row["test_setup_code"]
    usual = registry.load("mbpp").default_kind
    assert usual.grade(row, Answer(f"\n{row['code']}\n", ("stop_suffix",))).value == 1.0
