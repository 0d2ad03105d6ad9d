"""GSM8K graders against 4 x 1,319 published verdicts, and against lm_eval's own filters and metric."""

import json

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.maths import grader, lm_eval_gsm8k, number, qwen_math

RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}
# Wrong answers that Qwen2.5-Math's rule accepts: it takes 100 times the reference and a hundredth of it for right, and
# a relative difference of 1e-4 (120,006 for 120,000).
QWEN_DISAGREES = {
    ("6b_finetuning", 413, "25", "2500"),
    ("6b_finetuning", 534, "300", "3"),
    ("6b_finetuning", 1013, "2", "200"),
    ("6b_finetuning", 1182, "1800", "18"),
    ("6b_verification", 586, "800", "8"),
    ("6b_verification", 1067, "245", "24500"),
    ("6b_verification", 1182, "1800", "18"),
    ("175b_finetuning", 313, "120000", "120006"),
    ("175b_finetuning", 466, "1", "100"),
    ("175b_finetuning", 586, "800", "8"),
    ("175b_finetuning", 594, "42", "4200"),
    ("175b_finetuning", 688, "100", "1"),
    ("175b_finetuning", 759, "60000", "600"),
    ("175b_finetuning", 914, "3", "300"),
    ("175b_verification", 466, "1", "100"),
}


@pytest.fixture(scope="module")
def solutions(real_rows):
    """(model, index, gold, solution, published verdict) of every published solution."""
    lines = (real_rows / "gsm8k" / "example_model_solutions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        (model, index, row["ground_truth"], row[model]["solution"], row[model]["is_correct"])
        for model in RIGHT
        for index, row in enumerate(rows)
    ]


def _gold(truth: str) -> str:
    return truth.rpartition("\nA: ")[2].strip().replace(",", "")


def _hashed(solution: str) -> str:
    return " " + solution.replace("\nA: ", "\n#### ")


@pytest.mark.parametrize(
    "name",
    [
        "number-v1",
        "lm_eval-gsm8k-v1",
        *(pytest.param(name, marks=pytest.mark.slow("golds")) for name in ("number-text-v1", "math-text-v1")),
    ],
)
def test_no_verdict_differs_from_the_published_one(solutions, name: str) -> None:
    graders = {g.name: g for g in (number.NUMBER, number.TEXT, grader.TEXT, lm_eval_gsm8k.GSM8K)}
    boxed = name == "number-v1"
    disagreements, right = [], dict.fromkeys(RIGHT, 0)
    with graders[name].open() as grade:
        for model, index, truth, solution, published in solutions:
            said = solution.rpartition("\nA: ")[2] if boxed else _hashed(solution)
            value = grade({"answer": _gold(truth)}, Answer(said)).value
            right[model] += value == 1.0
            if value != published:
                disagreements.append((model, index, _gold(truth), said[-30:], value))
    assert disagreements == []
    assert right == RIGHT


@pytest.mark.parametrize(
    "every", [67, pytest.param(1, marks=pytest.mark.slow("golds"))], ids=["where it differs and a few more", "all"]
)
def test_where_qwens_rule_differs_is_known(solutions, every: int) -> None:
    found, asked = set(), {(model, index) for model, index, _, _ in QWEN_DISAGREES}
    with qwen_math.GRADER.open() as grade:
        for place, (model, index, truth, solution, published) in enumerate(solutions):
            if place % every and (model, index) not in asked:
                continue
            verdict = grade({"answer": _gold(truth)}, Answer(solution))
            if verdict.value != published:
                found.add((model, index, _gold(truth), verdict.extracted))
    assert found == QWEN_DISAGREES


STRICT = r"#### (\-?[0-9\.\,]+)"
STRICT_COT = r"The answer is (\-?[0-9\.\,]+)."
FLEXIBLE = r"(-?[$0-9.,]{2,})|(-?[0-9]+)"
IGNORED = [",", "\\$", "(?s).*#### ", "\\.$"]
MORE = [
    "",
    "####",
    "#### 18.",
    "#### -$5",
    "The answer is 8",
    "The answer is 18",
    "18...",
    "$1,2.3,",
    "٣",
    "#### 1,0\n#### 2",
]


@pytest.mark.slow("oracles")
@pytest.mark.parametrize(("strict", "ours"), [(STRICT, lm_eval_gsm8k.grade), (STRICT_COT, lm_eval_gsm8k.grade_cot)])
def test_both_columns_are_lm_evals(solutions, strict: str, ours) -> None:
    extraction = pytest.importorskip("lm_eval.filters.extraction", reason="needs lm_eval: not installed")
    metrics = pytest.importorskip("lm_eval.api.metrics")

    def theirs(pattern: str, which: int, text: str, target: str) -> float:
        [[found]] = extraction.RegexFilter(pattern, group_select=which).apply([[text]], [{}])
        options = {"regexes_to_ignore": IGNORED, "ignore_case": True}
        return float(
            metrics.exact_match_hf_evaluate(predictions=[found], references=[target], **options)["exact_match"]
        )

    form = (lambda text: text.replace("\nA: ", " The answer is ") + ".") if strict == STRICT_COT else _hashed
    texts = [(form(solution), truth) for _, _, truth, solution, _ in solutions[::4]]
    texts += [(text, "x\nA: 18") for text in MORE] + [
        (solution[: len(solution) // 2], truth) for _, _, truth, solution, _ in solutions[::40]
    ]
    for text, truth in texts:
        target = truth.replace("\nA: ", "\n#### ")
        grade = ours({"answer": target}, Answer(text))
        assert grade.value == theirs(strict, 0, text, target), text
        assert grade.parts["flexible"] == theirs(FLEXIBLE, -1, text, target), text
