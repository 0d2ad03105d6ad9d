r"""GSM8K: 1,319 grade-school word problems with whole-number answers (Cobbe et al. 2021, arXiv 2110.14168).

    {"question": "Janet's ducks lay 16 eggs ...", "answer": "Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 ...\n#### 18"}

The catch: the gold answer is what follows `####`, with commas between thousands in 14 rows and a minus in 2; none is
decimal. rwkv-skills changes one gold answer (Mr. Finnegan's tanks); here the published one stands. The harness shows
five whole solutions of the train split, marks included, drawn anew for each question from one stream.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row
from rwkv_data.definition.errors import RowError
from rwkv_data.graders.maths.number import NUMBER, final_number
from rwkv_data.profiles import lm_eval_maths
from rwkv_data.profiles.free_response import WORKED, free_response
from rwkv_data.profiles.maths_examples import GSM8K
from rwkv_data.profiles.maths_set import examples, maths_set


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


def example_from_source(raw: Row) -> dict[str, Any]:
    """An example also keeps its whole answer, as the harness shows it."""
    return from_source(raw) | {"target": rows.text(raw, "answer")}


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
_KINDS = maths_set(
    free_response(NUMBER, shots=WORKED),
    [lm_eval_maths.gsm8k(), lm_eval_maths.gsm8k_cot()],
    judged=True,
    qwen=GSM8K,
)
_FORMS = {lm_eval_maths.NAME: lambda answer: f" He takes 2+1=<<2+1={answer}>>{answer} bolts\n#### {answer}"}

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
    pool=HubSource("openai/gsm8k", "main", "train"),
    pool_files=("train.jsonl",),
    pool_from_source=example_from_source,
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _ROBE, "3", "2", _FORMS),
        Example(_ROBE, Answer("3.0 \\text{ bolts}", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("2 + 1 = 3", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("\\frac{6}{2}", ("stop_token", "stop_token")), 1.0),
        Example(_ROBE, Answer("3}.\n\nSo 4 bolts", ("stop_token", "length")), 1.0),
        Example(_ROBE, Answer("\\sqrt{3}", ("stop_token", "stop_token")), 0.0),
        Example(_ROBE, Answer("-3", ("stop_token", "stop_token")), 0.0),
        Example(_ROBE, Answer("", ("length", "stop_token")), 0.0),
        Example(_HOUSE, Answer("\\$70,000", ("stop_token", "stop_token")), 1.0),
        Example(_HOUSE, Answer("70{,}000", ("stop_token", "stop_token")), 1.0),
    ),
)
