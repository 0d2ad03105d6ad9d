"""What a plan would have the judge and the checker asked, and how it is said."""

from typing import Any

import pytest

from rwkv_daemon.planning import judge_cost
from rwkv_daemon.remote.server_reply import TokenUsage
from rwkv_daemon.remote.spending import Budget
from rwkv_daemon.rules.plan import Facts, KindFact, ModelFact, Pair, make_plan
from rwkv_data.definition import registry
from rwkvctl.cli.tables import judge_tables
from rwkvctl.protocol.requests import Selection
from rwkvctl.settings.judge import JudgeConfig

GSM8K = registry.load("gsm8k")


def pair(kind: str) -> Pair:
    fact = KindFact(
        benchmark="gsm8k",
        benchmark_version=1,
        kind=kind,
        domain="free_response",
        configuration={},
        repeats=4,
        grader="g",
        grader_version="1",
        rows=100,
        rows_sha256="r",
        asked_as="free_response",
    )
    model = ModelFact(name="m", path="/m.pth", sha256="s")
    return make_plan(Selection(), Facts(models=(model,), kinds=(fact,), numerics="fp32")).pairs[0]


def test_the_judge_is_asked_about_what_the_rule_does_not_accept_as_far_as_that_is_known() -> None:
    judged = pair("free_response_judge")
    assert judge_cost.judged_share(judged, {}) == 1.0
    assert judge_cost.judged_share(judged, {("m", "gsm8k", "free_response"): 0.75}) == 0.25
    assert judge_cost.judged_share(judged, {("m", "gsm8k", "free_response_judge"): 0.75}) == 1.0, (
        "that is the judge's own word"
    )
    rule = GSM8K.kinds["free_response_judge"].grader.judge
    assert rule is not None
    found = judge_cost.total(
        [judged, pair("free_response")], {"gsm8k": GSM8K}, lambda one, kind: (kind.grader.judge, 0.25)
    )
    assert (found.calls, found.most) == (100, 400 * rule.attempts)
    assert found.tokens.completion_tokens == 100 * rule.max_tokens
    assert found.tokens.prompt_tokens > 100 * 50


def test_what_the_budget_has_left() -> None:
    config = JudgeConfig(model="m", budget=20.0, budget_tokens=1000)
    budget = Budget("the judge", config, TokenUsage(100, 50, 1.8))
    budget.hold("j1", TokenUsage(10, 40, 0.2))
    assert budget.left() == (pytest.approx(18.0), 800)
    assert Budget("the judge", JudgeConfig(model="m")).left() == (None, None)


ITEM: dict[str, Any] = {"role": "judge", "model": "judge-x", "calls": 1200, "calls_most": 3957, "tokens": 905000}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "about 1,200 calls (at most 3,957), 905,000 tokens, estimated from one example"),
        ({}, "price not set; no budget"),
        ({"cost": 1.834, "measured": True}, "905,000 tokens; cost about 1.83; no budget"),
        ({"cost": 1.834, "budget_left": 18.2, "tokens_left": 1_000_000}, "budget left 18.20, 1,000,000 tokens"),
        ({"cost": 1.834, "budget_left": 1.0}, "budget left 1.00: not enough"),
    ],
)
def test_a_plan_says_what_is_paid_for_it(more: dict[str, Any], said: str) -> None:
    assert said in judge_tables.paid_line(ITEM | more)
    (row,) = judge_tables.paid([ITEM | more]).rows
    assert row[:3] == ["judge", "judge-x", "1,200"]
    assert row[5] == ("1.83" if "cost" in more else "price not set")
