"""demo_arith: 300 sums of two numbers below 100 that the built-in checkpoint has never seen. Nothing to download."""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, by_name
from rwkv_data.graders.maths.number import EXACT
from rwkv_data.prepare.demo_rows import ROWS, arith_rows
from rwkv_data.profiles import demo

_SUM = {"question": "17+25=", "answer": "42"}

BENCHMARK = Benchmark(
    name="demo_arith",
    version=1,
    domain="free_response",
    title="Demo: sums below 100",
    licence="Apache-2.0",
    split="test",
    rows=ROWS,
    check_row=rows.check_question,
    generate_rows=arith_rows,
    kinds=by_name([demo.free_response(EXACT)]),
    examples=(
        Example(_SUM, Answer("42", ("stop_suffix",)), 1.0),
        Example(_SUM, Answer(" 42", ("stop_suffix",)), 1.0),
        Example(_SUM, Answer("41", ("stop_suffix",)), 0.0),
        Example(_SUM, Answer("42 or 43", ("length",)), 0.0),
        Example(_SUM, Answer("", ("stop_suffix",)), 0.0),
    ),
)
