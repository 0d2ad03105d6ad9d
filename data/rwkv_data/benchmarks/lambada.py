"""LAMBADA: 5,153 passages whose last word needs all that stands before it (Paperno et al. 2016, arXiv 1606.06031), in
OpenAI's form of the text.

    {"text": "... all the way to the last word"}

The catch: the last word is what follows the last blank, with whatever marks hang on it; the blank before it belongs to
the word. Right is a row whose word greedy decoding gives. The perplexity is per word, not per token.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.profiles.language_model import lambada


def from_source(raw: Row) -> dict[str, Any]:
    """The passage as the question, its last word as the answer."""
    context, blank, word = rows.text(raw, "text").rpartition(" ")
    if not blank or not word.strip():
        raise RowError("'text' does not end with a word after a blank")
    return {"question": context, "answer": word}


_TEA = {"question": "She poured the water over the leaves, waited, and drank her", "answer": "tea"}

BENCHMARK = Benchmark(
    name="lambada",
    version=1,
    domain="language_model",
    title="LAMBADA, the last word of a passage",
    licence="CC BY 4.0",
    split="test",
    rows=5153,
    source=HubSource("EleutherAI/lambada_openai", "default", "test"),
    from_source=from_source,
    check_row=rows.check_question,
    local_files=("lambada_test.jsonl", "lambada_test_en.jsonl", "test.jsonl"),
    kinds=by_name([lambada()]),
    examples=(
        Example(_TEA, Answer(logprobs=(-0.2,), greedy=(True,)), 1.0),
        Example(_TEA, Answer(logprobs=(-3.5,), greedy=(False,)), 0.0),
    ),
)
