"""What a plan would have the judge and the checker do, and what that costs, before anything is sent.

What the rule grader accepts needs no judge, so if a model's score by the rule is known, only the rest counts. Prices
are never guessed: if none is set, there is no cost.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.judge.judge_service import JudgeService
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage, estimated_tokens
from rwkv_daemon.rules.plan import Pair, Plan
from rwkv_daemon.store.queries.verdicts import mean_reply, right_shares
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.kind import Kind
from rwkv_data.judges.checker import rule_for
from rwkv_data.judges.judge_rule import ReviewRule
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.views import PaidView

Shares = Mapping[tuple[str, str, str], float]
"""(model, benchmark, kind) -> the share of samples that was right before."""


@dataclass(frozen=True, slots=True)
class JudgeCalls:
    """Expected calls for some samples, the most there can be (`most`, with every retry of a reply), and an estimate of
    their tokens, which is used if none were measured."""

    calls: int = 0
    most: int = 0
    tokens: TokenUsage = NOTHING


async def of_plan(
    records: Records, judges: Judges, catalogue: NodeCatalogue, selection: Selection, made: Plan
) -> tuple[PaidView, ...]:
    """Return one line for the judge and one for the checker, if they would be asked."""
    pairs = [pair for pair in made.pairs if pair.row.action in {"run", "resume", "hold"} and pair.row.samples]
    if not pairs or (judges.judge is None and judges.checker is None):
        return ()
    right, every = await right_shares(records.store), catalogue.benchmarks.all()
    found = []
    if judges.judge is not None:
        calls = total(pairs, every, lambda pair, kind: (kind.grader.judge, judged_share(pair, right)))
        found.append(await said(records, judges, "judge", judges.judge, calls))
    if judges.checker is not None and not selection.disable_checker:
        rule = rule_for(judges.checker.config.max_prompt_chars)
        calls = total(
            pairs, every, lambda pair, kind: (rule if checked(kind) else None, 1 - right.get(place(pair), 0.0))
        )
        found.append(await said(records, judges, "checker", judges.checker, calls))
    return tuple(view for view in found if view.calls)


def place(pair: Pair) -> tuple[str, str, str]:
    return pair.model.name, pair.kind.benchmark, pair.kind.kind


def judged_share(pair: Pair, right: Shares) -> float:
    """Return the share of samples that the rule grader leaves to the judge; 1 if it is not known."""
    model, benchmark, kind = place(pair)
    plain = pair.kind.asked_as
    return 1 - right.get((model, benchmark, plain), 0.0) if plain and plain != kind else 1.0


def checked(kind: Kind) -> bool:
    """Whether wrong answers of a kind go to the checker."""
    return kind.samples_tokens and kind.search is None


def total(
    pairs: Iterable[Pair],
    every: Mapping[str, Benchmark],
    asked: Callable[[Pair, Kind], tuple[ReviewRule[Any] | None, float]],
) -> JudgeCalls:
    """Return all calls of a plan. `asked` returns the rule and the share of a pair's samples that are asked about."""
    known: dict[tuple[str, str], tuple[int, int]] = {}
    calls = most = prompt = completion = 0
    for pair in pairs:
        benchmark = every[pair.kind.benchmark]
        rule, share = asked(pair, benchmark.kinds[pair.kind.kind])
        if rule is None:
            continue
        which = pair.kind.benchmark, pair.kind.kind
        if which not in known:
            known[which] = example(rule, benchmark)
        requests, chars = known[which]
        samples = pair.row.samples or 0
        some = math.ceil(samples * share) * requests
        calls, most = calls + some, most + samples * requests * rule.attempts
        prompt, completion = prompt + some * estimated_tokens(chars), completion + some * rule.max_tokens
    return JudgeCalls(calls, most, TokenUsage(prompt, completion))


def example(rule: ReviewRule[Any], benchmark: Benchmark) -> tuple[int, int]:
    """Return (requests per sample, characters per request) for an example of the benchmark."""
    try:
        one = benchmark.examples[0]
        requests = rule.ask(one.row, one.answer.text, one.answer)
    except (IndexError, KeyError, TypeError, ValueError):
        return 1, 0
    chars = sum(len(text) for messages in requests for message in messages for text in message.values())
    return len(requests), chars // max(1, len(requests))


async def said(records: Records, judges: Judges, role: str, service: JudgeService, calls: JudgeCalls) -> PaidView:
    """Return calls with their cost, and what is left of the budget."""
    mean = await mean_reply(records.store, "judge" if service is judges.judge else role)
    prompt, completion = (
        (math.ceil(mean[0] * calls.calls), math.ceil(mean[1] * calls.calls))
        if mean
        else (calls.tokens.prompt_tokens, calls.tokens.completion_tokens)
    )
    endpoints = service.exchange.pool.endpoints
    priced = any(one.config.prompt_price or one.config.completion_price for one in endpoints)
    money, tokens = service.exchange.budget.left()
    return PaidView(
        role=role,
        model=service.model,
        calls=calls.calls,
        calls_most=calls.most,
        tokens=prompt + completion,
        cost=max(one.cost(prompt, completion) for one in endpoints) if priced else None,
        measured=mean is not None,
        budget_left=money,
        tokens_left=tokens,
    )
