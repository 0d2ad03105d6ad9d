r"""GSM8K: 1,319 grade-school word problems with whole-number answers (Cobbe et al. 2021, arXiv 2110.14168).

    {"question": "Janet's ducks lay 16 eggs ...", "answer": "Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 ...\n#### 18"}

The catch: the gold answer is what follows `####`, with commas between thousands in 14 rows and a minus in 2; none is
decimal. rwkv-skills changes one gold answer (Mr. Finnegan's tanks); here the published one stands.
"""

from typing import Any

from rwkv_data import profiles, rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.errors import RowError
from rwkv_data.graders.number import NUMBER, final_number


def from_source(raw: Row) -> dict[str, Any]:
    """Split the gold answer from its solution."""
    solution, mark, gold = rows.text(raw, "answer").rpartition("####")
    if not mark:
        raise RowError("'answer' has no '####' before the gold answer")
    return {
        "question": rows.text(raw, "question"),
        "answer": gold.strip().replace(",", ""),
        "solution": solution.strip(),
    }


def check_row(row: Row) -> None:
    """A question row whose answer is a number."""
    rows.check_question(row)
    if final_number(row["answer"]) is None:
        raise RowError(f"'answer' is {row['answer']!r}, not a number")


_ROBE = {
    "question": "A robe takes 2 bolts of blue fiber and half that much white. How many bolts in total?",
    "answer": "3",
}
_HOUSE = {"question": "How much profit did he make?", "answer": "70000"}

BENCHMARK = Benchmark(
    name="gsm8k",
    version=1,
    domain="free_response",
    title="GSM8K, grade-school word problems",
    licence="MIT",
    split="test",
    rows=1319,
    source=HubSource("openai/gsm8k", "main", "test"),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl",),
    kinds=by_name([profiles.free_response(NUMBER, metrics=("pass@1",))]),
    examples=(
        Example(_ROBE, Answer("3", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("3.0 \\text{ bolts}", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("2 + 1 = 3", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("\\frac{6}{2}", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("3}.\n\nSo 4 bolts", ("stop_token", "length")), 1.0),
        Example(_ROBE, Answer("2", ("stop_token", "stop_token")), 0.0),
        Example(_ROBE, Answer("\\sqrt{3}", ("stop_token", "stop_token")), 0.0),
        Example(_ROBE, Answer("-3", ("stop_token", "stop_token")), 0.0),
        Example(_ROBE, Answer("", ("length", "stop_token")), 0.0),
        Example(_HOUSE, Answer("\\$70,000", ("stop_token", "stop_token")), 1.0),
        Example(_HOUSE, Answer("70{,}000", ("stop_token", "stop_token")), 1.0),
    ),
)
