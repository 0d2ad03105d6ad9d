"""What a plan would have models behind endpoints do, and what that costs, before anything is sent.

Prices are never guessed: if none is set, there is no cost. Without earlier replies a reply counts as long as its limit.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.recipes import labelling, rewriting
from rwkv_daemon.recipes.labelling import PlannedLabelling
from rwkv_daemon.recipes.rewriting import PlannedRewriting
from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage, estimated_tokens
from rwkv_daemon.rules.plan import Pair, Plan
from rwkv_daemon.scheduling.endpoint_models import EndpointModels
from rwkv_daemon.store.queries.recipes import writer_replies
from rwkv_daemon.store.queries.recipes.rewriting import RightSamples
from rwkv_daemon.store.queries.verdicts import mean_reply
from rwkv_data import writers
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.writers.label_rule import LabelRule
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.split_thoughts import MOST_THOUGHTS
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.endpoints import WRITER, path_of
from rwkvctl.protocol.views import PaidView
from rwkvctl.text.quantities import several

THOUGHTS_EXPECTED: Final = 8
"""Thoughts of a completion about which the writer is expected to be asked."""
TOKENS_EXPECTED: Final = 200
"""Tokens of a problem, and of a solution, that are shown with each of them."""
PROBLEMS_READ: Final = 200
"""Problems that are read to estimate how long they are."""


async def of_plan(records: Records, catalogue: NodeCatalogue, made: Plan) -> tuple[PaidView, ...]:
    """Return one line for each model behind an endpoint that would be asked."""
    every = catalogue.benchmarks.all()
    calls: defaultdict[str, int] = defaultdict(int)
    tokens: defaultdict[str, TokenUsage] = defaultdict(lambda: NOTHING)
    for pair in made.pairs:
        if pair.model.api and pair.generates and pair.row.action in {"run", "resume", "hold"} and pair.row.samples:
            count, usage = of_sample(every[pair.kind.benchmark], pair)
            calls[pair.model.name] += count * pair.row.samples
            tokens[pair.model.name] += TokenUsage(
                usage.prompt_tokens * pair.row.samples, usage.completion_tokens * pair.row.samples
            )
    means = {name: await mean_reply(records.store, path_of(name)) for name in calls}
    return tuple(said(catalogue.endpoints, name, calls[name], tokens[name], means[name]) for name in calls)


async def of_rewritings(
    records: Records, catalogue: NodeCatalogue, plans: Iterable[PlannedRewriting], rule: WriterRule | SplitRule
) -> PaidView | None:
    """Return what the calls of rewritings would cost at most: samples that are converted need none. None without a
    writer, or if nothing would be asked."""
    to_ask = [plan.right for plan in plans if plan.action in {"run", "resume"}]
    if isinstance(rule, SplitRule):
        return await of_splitting(records, catalogue, to_ask)
    return await of_rewriting(records, catalogue, to_ask, rule)


async def of_rewriting(
    records: Records, catalogue: NodeCatalogue, right: Iterable[RightSamples], rule: WriterRule, unknown: int = 0
) -> PaidView | None:
    """Return what it would cost at most to rewrite right samples, and `unknown` others that are yet to be sampled,
    which are taken for as long. None without a writer, or if nothing would be asked."""
    known, tokens = map(sum, zip((0, 0), *right, strict=True))
    calls = known + unknown
    if catalogue.endpoints.writer is None or not calls:
        return None
    tokens = tokens * calls // known if known else rule.room("") * calls
    around = estimated_tokens(sum(len(message["content"]) for message in rule.ask("", "")))
    most = TokenUsage(tokens + around * calls, tokens)
    mean = await writer_replies.mean_reply(records.store, lambda job: is_by(rewriting.what_of(job), rule))
    paid = said(catalogue.endpoints, WRITER, calls, most, mean)
    model = catalogue.endpoints.writer.config.service.model
    return msgspec.structs.replace(paid, role=WRITER, model=model, basis="the length of the originals")


async def of_splitting(records: Records, catalogue: NodeCatalogue, shortest: Iterable[RightSamples]) -> PaidView | None:
    """Return about what it costs to split completions into thoughts and to have the writer say which are right. How
    many thoughts state no answer nobody knows before. None without a writer, or if nothing would be asked."""
    rule = writers.SPLIT_RULE
    completions, tokens = map(sum, zip((0, 0), *shortest, strict=True))
    if catalogue.endpoints.writer is None or not completions:
        return None
    around = estimated_tokens(sum(len(message["content"]) for message in rule.ask("", "")))
    each = estimated_tokens(sum(len(message["content"]) for message in rule.ask_verdict("", "", "")))
    shown = around + TOKENS_EXPECTED + THOUGHTS_EXPECTED * (each + 2 * TOKENS_EXPECTED)
    calls = completions * (1 + THOUGHTS_EXPECTED)
    most = TokenUsage(2 * tokens + shown * completions, tokens + calls)  # each thought is shown once more
    paid = said(catalogue.endpoints, WRITER, calls, most, None)
    return msgspec.structs.replace(
        paid,
        role=WRITER,
        model=catalogue.endpoints.writer.config.service.model,
        calls_most=completions * (1 + MOST_THOUGHTS) * rule.attempts,
        basis=f"the length of the completions, or the longest they may have, with {THOUGHTS_EXPECTED} thoughts in each",
    )


def is_by(what: Mapping[str, Any], rule: WriterRule | LabelRule) -> bool:
    """Whether a job of the writer follows a rule, in whichever version."""
    return str(what.get("rule", "")).partition("/")[0] == rule.name


async def of_labelling(
    records: Records, catalogue: NodeCatalogue, plan: PlannedLabelling, rule: LabelRule
) -> PaidView | None:
    """Return what it would cost to label rows: by the last labelling by this rule, else by the lengths of some of the
    problems and of an example's reply. Rows that were asked before cost nothing, which is not counted here. None
    without a writer, or if nothing would be asked."""
    if catalogue.endpoints.writer is None or plan.action not in {"run", "resume"} or not plan.to_ask:
        return None
    mean = await writer_replies.mean_reply(records.store, lambda job: is_by(labelling.what_of(job), rule))
    around = estimated_tokens(sum(len(message["content"]) for message in rule.ask("")) + len(str(rule.schema)))
    reply = max(estimated_tokens(len(example.reply)) for example in rule.examples if example.expected is not None)
    lengths = [] if mean else await asyncio.to_thread(problem_lengths, catalogue, plan)
    problem = estimated_tokens(sum(lengths)) / max(1, len(lengths))
    most = TokenUsage(math.ceil((around + problem) * plan.to_ask), reply * plan.to_ask)
    paid = said(catalogue.endpoints, WRITER, plan.to_ask, most, mean)
    return msgspec.structs.replace(
        paid,
        role=WRITER,
        model=catalogue.endpoints.writer.config.service.model,
        calls_most=plan.to_ask * rule.attempts,
        basis=f"{several(len(lengths), 'problem')} and the reply of an example",
    )


def problem_lengths(catalogue: NodeCatalogue, plan: PlannedLabelling) -> list[int]:
    """Return the characters of some of the problems that are to be labelled. Raises DataError."""
    benchmark = catalogue.benchmarks.get(plan.benchmark)
    extent = catalogue.benchmarks.extent(benchmark)
    if extent is None:
        return []
    kind = replace(benchmark.kinds[plan.kind].with_known_settings(plan.settings).sized(extent), shots=None)
    most = PROBLEMS_READ if plan.limit is None else min(plan.limit, PROBLEMS_READ)
    rows = prepared_sets.load_asked(catalogue.benchmarks.data_dir, benchmark, kind, most)
    return [sum(len(turn.content) for turn in kind.turns(row)) for row in rows]


def of_sample(benchmark: Benchmark, pair: Pair) -> tuple[int, TokenUsage]:
    """Return (requests, most tokens) of a sample, by an example of the benchmark."""
    kind = benchmark.kinds[pair.kind.kind].with_known_settings(pair.kind.settings)
    row = benchmark.examples[0].row if benchmark.examples else {}
    requests, prompt, completion = 0, 0, 0
    for number, stage in enumerate(kind.stages):
        asked = len(stage.choices(row)) if stage.choices and row else 1
        requests += asked
        prompt += asked * estimated_tokens(prompt_chars(kind, number, row))
        completion += asked if stage.choices else stage.sampling.max_tokens
    return requests, TokenUsage(prompt, completion)


def prompt_chars(kind: Kind, number: int, row: Row) -> int:
    """Return the characters of the prompts up to a stage for a row; 0 if the row has no such prompt."""
    try:
        return sum(len(kind.prompt(stage, row)) for stage in range(number + 1))
    except (DataError, KeyError, TypeError, ValueError):
        return 0


def said(
    endpoints: EndpointModels, name: str, calls: int, most: TokenUsage, mean: tuple[float, float] | None
) -> PaidView:
    """Return a model's calls with their cost, and what is left of its budget. `mean`: the tokens of a question and of
    its reply so far."""
    remote = endpoints.by_name[name]
    prompt, completion = most.prompt_tokens, most.completion_tokens
    if mean:
        prompt, completion = math.ceil(mean[0] * calls), math.ceil(mean[1] * calls)
    server = remote.config.server
    money, left = remote.exchange.budget.left()
    price = (prompt * server.prompt_price + completion * server.completion_price) / 1_000_000
    return PaidView(
        role="endpoint",
        model=name,
        calls=calls,
        calls_most=calls,
        tokens=prompt + completion,
        cost=price if server.prompt_price or server.completion_price else None,
        measured=mean is not None,
        budget_left=money,
        tokens_left=left,
    )
