"""Arena-Hard-Auto v0.1: 500 hard prompts of people, answers compared by a judge (Li et al. 2024, arXiv 2406.11939).

Rows: see rwkv_data.prepare.row_shapes.arena_rows. The judge sees the model's answer and GPT-4-0314's (the row's
`baseline`) twice, once in each order; the headline is the mean of the games. It has no meaning without a judge, and
another judge gives other numbers: the published ones are GPT-4-Turbo's.

The catch: Arena-Hard itself counts a clear win or loss three times, and fits a Bradley-Terry model, which with a single
baseline is the weighted share of wins: the sum of the part `won` over that of `weight`. rwkv-skills prepares this set
and cannot grade it.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.judges import arena
from rwkv_data.prepare.row_shapes.arena_rows import BASELINE, check_row, from_source, joined
from rwkv_data.profiles.chat import pairwise_judge

_TEA = {
    "question": "How do I make tea?",
    "baseline": "Pour hot water over the leaves and wait.",
    "answer": BASELINE,
    "cluster": "Kitchen",
    "id": "1",
}

BENCHMARK = Benchmark(
    name="arena_hard",
    version=1,
    domain="instruction_following",
    title="Arena-Hard-Auto v0.1, open prompts, judged in pairs",
    licence="Apache-2.0 (as publicly known)",
    split="test",
    rows=500,
    source=HubSource(
        "lmarena-ai/arena-hard-auto",
        "default",
        "test",
        files=("data/arena-hard-v0.1/question.jsonl", f"data/arena-hard-v0.1/model_answer/{BASELINE}.jsonl"),
    ),
    from_source=from_source,
    expand=joined,
    check_row=check_row,
    local_files=("arena-hard-v0.1/**/*.jsonl", "*.jsonl"),
    kinds=by_name([pairwise_judge(arena.RULE)]),
    examples=(Example(_TEA, Answer(" ", ("stop_token",)), 0.0),),
    schema_verified=False,
)
