"""lm_eval's whole pipeline on stored completions (a model that hands back given text) against our graders."""

import json

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders import lm_eval_bbh
from rwkv_data.graders.maths import lm_eval_gsm8k, lm_eval_math

TASKS = {
    "given_gsm8k": ("gsm8k/gsm8k.yaml", "gsm8k/test.jsonl"),
    "given_gsm8k_cot": ("gsm8k/gsm8k-cot.yaml", "gsm8k/test.jsonl"),
    "given_math": ("hendrycks_math/hendrycks_math500.yaml", "math_500/test.jsonl"),
    "given_bbh": ("bbh/cot_fewshot/boolean_expressions.yaml", "bbh"),
}


@pytest.fixture(scope="module")
def evaluated(real_rows, tmp_path_factory):
    """Run lm_eval on given texts of the first 100 rows of each task; the logged samples by task."""
    lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
            patch.setenv(name, "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        folder = tmp_path_factory.mktemp("tasks")
        texts = {name: _texts(real_rows, folder, name) for name in TASKS}
        return _samples(lm_eval, folder, texts), texts


def _texts(real_rows, folder, name: str) -> list[str]:
    """Write the task's yaml, and make up a completion for each of its first rows."""
    import lm_eval.tasks

    stock, data = TASKS[name]
    file = folder / f"{name}.jsonl"
    if data == "bbh":
        examples = json.loads((real_rows / "bbh" / "bbh" / "boolean_expressions.json").read_text())["examples"]
    else:
        examples = [json.loads(line) for line in (real_rows / data).read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in examples[:100]))
    files = {split: str(file) for split in ("train", "test")}
    (folder / f"{name}.yaml").write_text(
        f"include: {lm_eval.tasks.__path__[0]}/{stock}\ntask: {name}\ndataset_path: json\ndataset_name: null\n"
        f"num_fewshot: 0\nfewshot_split: null\ntraining_split: null\ntest_split: test\n"
        f"dataset_kwargs:\n  data_files:\n    train: {files['train']}\n    test: {files['test']}\n"
    )
    return [_completion(name, row, index) for index, row in enumerate(examples[:100])]


def _completion(name: str, row: dict[str, str], index: int) -> str:
    """Return right, wrong, unfinished and oddly ended answers in turn."""
    if name.startswith("given_gsm8k"):
        solution, _, gold = row["answer"].partition("\n#### ")
        answer = gold if index % 3 else f"{gold}1"
        marked = f"#### {answer}" if name == "given_gsm8k" else f"The answer is {answer}"
        return f" {solution}\n{marked}" + ("", ".", " dollars")[index % 4 % 3]
    if name == "given_math":
        return (f" ${row['answer']}$", f" {row['answer']}", row["solution"], " $x$ and $y$")[index % 4]
    return f"So the answer is {row['target'] if index % 3 else 'maybe'}" + ("." if index % 5 else "")


def _samples(lm_eval, folder, texts):
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class GivenLM(LM):
        """lm_eval model whose completions are the stored texts."""

        def generate_until(self, requests):
            return [texts[request.task_name][request.doc_id] for request in requests]

        def loglikelihood(self, requests):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

    ran = lm_eval.simple_evaluate(
        model=GivenLM(),
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(folder)),
        bootstrap_iters=0,
        log_samples=True,
        random_seed=None,
        numpy_random_seed=None,
        torch_random_seed=None,
    )
    return ran["samples"]


@pytest.mark.slow("oracles")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "grade"), [("given_gsm8k", lm_eval_gsm8k.grade), ("given_gsm8k_cot", lm_eval_gsm8k.grade_cot)]
)
def test_gsm8k(evaluated, name: str, grade) -> None:
    samples, texts = evaluated
    seen = set()
    for sample in samples[name]:
        ours = grade({"answer": sample["doc"]["answer"]}, Answer(texts[name][sample["doc_id"]]))
        value = ours.value if sample["filter"] == "strict-match" else ours.parts["flexible"]
        assert value == sample["exact_match"], texts[name][sample["doc_id"]]
        seen.add((sample["filter"], value))
    assert len(seen) == 4


@pytest.mark.slow("oracles")
@pytest.mark.filterwarnings("ignore")
def test_hendrycks_math(evaluated) -> None:
    samples, texts = evaluated
    values = []
    for sample in samples["given_math"]:
        ours = lm_eval_math.grade_hendrycks(sample["doc"], Answer(texts["given_math"][sample["doc_id"]]))
        assert ours.value == sample["exact_match"]
        values.append(ours.value)
    assert set(values) == {0.0, 1.0}


@pytest.mark.slow("oracles")
@pytest.mark.filterwarnings("ignore")
def test_bbh(evaluated) -> None:
    samples, texts = evaluated
    values = []
    for sample in samples["given_bbh"]:
        ours = lm_eval_bbh.grade({"answer": sample["doc"]["target"]}, Answer(texts["given_bbh"][sample["doc_id"]]))
        assert ours.value == sample["exact_match"]
        values.append(ours.value)
    assert set(values) == {0.0, 1.0}
