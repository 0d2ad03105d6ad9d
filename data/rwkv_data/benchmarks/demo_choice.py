"""demo_choice: 300 look-ups in a legend of four made-up words. Nothing to download."""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, by_name
from rwkv_data.prepare.demo_rows import ROWS, choice_rows
from rwkv_data.profiles import demo

_LEGEND = {"choices": ["bab", "cec", "did", "fof"], "question": "did", "answer": "C"}

BENCHMARK = Benchmark(
    name="demo_choice",
    version=1,
    domain="multi_choice",
    title="Demo: look-up in a legend",
    licence="Apache-2.0",
    split="test",
    rows=ROWS,
    check_row=rows.check_choice,
    generate_rows=choice_rows,
    kinds=by_name([demo.multi_choice()]),
    examples=(
        Example(_LEGEND, Answer(logprobs=(-3.0, -2.0, -0.1, -4.0)), 1.0),
        Example(_LEGEND, Answer(logprobs=(-0.1, -2.0, -3.0, -4.0)), 0.0),
    ),
)
