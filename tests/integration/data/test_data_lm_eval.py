"""lm_eval as an oracle: where its rule and ours ask the same, they must answer the same."""

import json
from pathlib import Path

import pytest

from rwkv_data import registry, sets
from rwkv_data.benchmark import Answer
from rwkv_data.prepare import prepare

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
STRICT = r"#### (\-?[0-9\.\,]+)"


@pytest.fixture(scope="module")
def extraction():
    return pytest.importorskip("lm_eval.filters.extraction", reason="needs lm_eval: not installed")


@pytest.mark.slow
def test_number_rule_agrees_on_published_solutions(extraction, real_rows) -> None:
    """lm_eval's strict match and ours against the published verdicts of 4 x 1,319 graded solutions."""
    kind = registry.load("gsm8k").default_kind
    path = real_rows / "gsm8k" / "example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    strict = extraction.RegexFilter(STRICT)
    for model in MODELS:
        disagreements = []
        for row in rows:
            final = row[model]["solution"].rpartition("\nA: ")[2].strip()
            gold = row["ground_truth"].rpartition("\nA: ")[2].strip()
            ours = kind.grade({"question": "Q", "answer": gold}, Answer(final, ("stop_token",))).value == 1.0
            [[found]] = strict.apply([[f"#### {final}"]], [{}])
            theirs = found.replace(",", "").rstrip(".") == gold.replace(",", "")
            if not ours == theirs == row[model]["is_correct"]:
                disagreements.append((final, gold, ours, theirs, row[model]["is_correct"]))
        assert disagreements == []


@pytest.mark.slow
def test_choices_are_laid_out_as_lm_eval_does(real_rows, tmp_path) -> None:
    """The profiles differ around them; the question (which lm_eval strips) and its lettered choices do not."""
    templates = pytest.importorskip("lm_eval.tasks", reason="needs lm_eval: not installed")
    jinja2 = pytest.importorskip("jinja2")
    yaml = Path(templates.__path__[0], "mmlu", "default", "_default_template_yaml").read_text()
    [line] = [line for line in yaml.splitlines() if line.startswith("doc_to_text:")]
    template = jinja2.Template(json.loads(line.partition(":")[2].strip()))
    prepare("mmlu", tmp_path, real_rows / "mmlu")
    benchmark = registry.load("mmlu")
    for row in sets.load_rows(tmp_path, benchmark)[::200]:
        theirs = template.render(**row).removesuffix("Answer:").strip().replace("\r\n", "\n")
        ours = benchmark.default_kind.stages[0].prompt({**row, "question": row["question"].strip()})
        assert f"Answer this question:\n{theirs}\n\nAssistant: The answer is" in ours
