"""lm_eval's rules as they are written in its files, without importing it: where its rule and ours ask the same, they
must answer the same. What takes the harness itself is the slow part `oracles`."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
STRICT = r"#### (\-?[0-9\.\,]+)"


@pytest.fixture(scope="module")
def tasks() -> Path:
    """The folder of the harness's task files."""
    found = find_spec("lm_eval")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs lm_eval: not installed")
    return Path(found.submodule_search_locations[0], "tasks")


def test_number_rule_agrees_on_published_solutions(tasks, real_rows) -> None:
    """lm_eval's strict match and ours against the published verdicts of every tenth of 4 x 1,319 graded solutions."""
    kind = registry.load("gsm8k").default_kind
    path = real_rows / "gsm8k" / "example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()][::10]
    assert f"regex_pattern: {json.dumps(STRICT)}" in (tasks / "gsm8k" / "gsm8k.yaml").read_text()
    for model in MODELS:
        disagreements = []
        for row in rows:
            final = row[model]["solution"].rpartition("\nA: ")[2].strip()
            gold = row["ground_truth"].rpartition("\nA: ")[2].strip()
            ours = kind.grade({"question": "Q", "answer": gold}, Answer(final, ("stop_token",))).value == 1.0
            found = re.findall(STRICT, f"#### {final}")
            theirs = bool(found) and found[0].replace(",", "").rstrip(".") == gold.replace(",", "")
            if not ours == theirs == row[model]["is_correct"]:
                disagreements.append((final, gold, ours, theirs, row[model]["is_correct"]))
        assert disagreements == []


def test_choices_are_laid_out_as_lm_eval_does(tasks, real_rows, tmp_path) -> None:
    """The profiles differ around them; the question (which lm_eval strips) and its lettered choices do not."""
    jinja2 = pytest.importorskip("jinja2")
    yaml = (tasks / "mmlu" / "default" / "_default_template_yaml").read_text()
    [line] = [line for line in yaml.splitlines() if line.startswith("doc_to_text:")]
    template = jinja2.Template(json.loads(line.partition(":")[2].strip()))
    prepare("mmlu", tmp_path, real_rows / "mmlu")
    benchmark = registry.load("mmlu")
    for row in prepared_sets.load_rows(tmp_path, benchmark)[::200]:
        theirs = template.render(**row).removesuffix("Answer:").strip().replace("\r\n", "\n")
        ours = benchmark.default_kind.stages[0].prompt({**row, "question": row["question"].strip()})
        assert f"Answer this question:\n{theirs}\n\nAssistant: The answer is" in ours
