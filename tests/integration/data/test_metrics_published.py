"""Statistics of published verdicts: the reference's golden numbers of four models on the 1,319 rows of GSM8K."""

import json
from pathlib import Path

import pytest

from rwkv_data.scoring.paired_tests import pair
from rwkv_data.scoring.statistics import estimate, mcnemar, paired_difference

GOLDEN = [
    # b, a, difference, stderr, normal interval, only_b, only_a, p, bootstrap interval
    ("175b_finetuning", "6b_verification", -.043215, .014361, -.071362, -.015067, 152, 209, .003151,
     -.071266, -.014405),
    ("175b_verification", "6b_verification", .172100, .014106, .144452, .199748, 306, 79, 0.0, .144807, .200152),
    ("175b_finetuning", "6b_finetuning", .130402, .013685, .103580, .157224, 260, 88, 0.0, .103867, .157695),
]  # fmt: skip


@pytest.fixture(scope="module")
def solutions(real_rows):
    """is_correct of the four models of example_model_solutions.jsonl."""
    path = real_rows / "gsm8k" / "example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    return {model: [float(row[model]["is_correct"]) for row in rows] for model in models}


@pytest.mark.parametrize(
    ("model", "right", "mean", "stderr", "interval"),
    [
        ("6b_finetuning", 286, 0.2168309325246399, 0.011350909906677514, (0.195431, 0.239875)),
        ("6b_verification", 515, 0.390447, 0.013438, (0.364474, 0.417057)),
        ("175b_finetuning", 458, 0.347233, 0.013114, (0.322017, 0.373336)),
        ("175b_verification", 742, 0.5625473843821076, 0.013664299060751915, (0.535633, 0.589099)),
    ],
)
def test_golden_gsm8k(solutions, model, right, mean, stderr, interval) -> None:
    values = solutions[model]
    assert (len(values), sum(values)) == (1319, right)
    got = estimate(values)
    exact = len(repr(mean)) > 10
    assert got[:2] == pytest.approx((mean, stderr), rel=1e-12 if exact else None, abs=None if exact else 5e-7)
    assert got[2:] == pytest.approx(interval, abs=5e-7)


@pytest.mark.parametrize(
    ("a", "b", "difference", "stderr", "interval", "only_a", "only_b", "p"),
    [
        ("175b_finetuning", "6b_verification", -0.043215, 0.014361, (-0.071362, -0.015067), 152, 209, 0.003151),
        ("175b_verification", "6b_verification", 0.172100, 0.014106, (0.144452, 0.199748), 306, 79, 0.0),
        ("175b_finetuning", "6b_finetuning", 0.130402, 0.013685, (0.103580, 0.157224), 260, 88, 0.0),
    ],
)
def test_golden_paired(solutions, a, b, difference, stderr, interval, only_a, only_b, p) -> None:
    pairs = list(zip(solutions[a], solutions[b], strict=True))
    assert paired_difference(solutions[a], solutions[b]) == pytest.approx((difference, stderr, *interval), abs=5e-7)
    assert (pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0))) == (only_a, only_b)
    assert mcnemar(only_a, only_b) == pytest.approx(p, abs=1e-6)


@pytest.fixture(scope="module")
def published(real_rows: Path) -> dict[str, list[float]]:
    """The published verdicts of four models on the 1,319 rows of GSM8K."""
    text = (real_rows / "gsm8k" / "example_model_solutions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    names = {name for golden in GOLDEN for name in golden[:2]}
    return {name: [float(row[name]["is_correct"]) for row in rows] for name in names}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden[0]}-{golden[1]}")
def test_published_verdicts_give_the_golden_numbers(published: dict[str, list[float]], golden: tuple) -> None:
    name_b, name_a, value, stderr, low, high, only_b, only_a, p, boot_low, boot_high = golden
    found = pair(published[name_a], published[name_b], verdicts=True)
    assert (found.rows, found.test) == (1319, "mcnemar")
    assert found.difference == pytest.approx((value, stderr, low, high), abs=6e-7)
    assert (found.only_b, found.only_a) == (only_b, only_a)
    assert found.p == pytest.approx(p, abs=1e-6)
    again = pair(published[name_a], published[name_b], verdicts=False)
    assert again.test == "bootstrap"
    # The ends of 10,000 draws scatter by about 1.5 % of the interval's width from seed to seed.
    noise = 0.03 * (boot_high - boot_low)
    assert (again.difference.ci_low, again.difference.ci_high) == pytest.approx((boot_low, boot_high), abs=noise)
    assert again.p == pytest.approx(0.0038 if p else 0.0002, abs=0.0016 if p else 1e-4)
