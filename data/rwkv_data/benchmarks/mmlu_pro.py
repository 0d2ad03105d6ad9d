"""MMLU-Pro: 12,032 questions of 14 fields with up to ten choices (Wang et al. 2024, arXiv 2406.01574).

    {"question_id": 70, "question": "...", "options": ["...", ...], "answer": "I", "answer_index": 8,
     "cot_content": "", "category": "business", "src": "ori_mmlu-business_ethics"}

The catch: the number of choices differs from row to row, so blind choosing gets more than a tenth; the score carries
the level. The examples are the validation split's five of each field.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.prepare.row_shapes.choice_rows import check_subject, letter_of
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_text import multi_choice_text
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any]:
    """The field is the subject. Letter and number of the answer must say the same."""
    options = rows.texts(raw, "options")
    answer = rows.text(raw, "answer").strip()
    if answer != letter_of(rows.whole(raw, "answer_index"), len(options)):
        raise RowError(f"'answer' is {answer!r}, 'answer_index' {raw['answer_index']}")
    return {
        "question": rows.text(raw, "question").strip(),
        "choices": [option.strip() for option in options],
        "answer": answer,
        "subject": rows.text(raw, "category"),
        "source": str(raw.get("src") or ""),
    }


_TENTH = {
    "question": "Which digit is the greatest?",
    "choices": list("0123456789"),
    "answer": "J",
    "subject": "math",
}

BENCHMARK = Benchmark(
    name="mmlu_pro",
    version=1,
    domain="multi_choice",
    title="MMLU-Pro, 14 fields, up to ten choices",
    licence="MIT",
    split="test",
    rows=12032,
    source=HubSource("TIGER-Lab/MMLU-Pro", "default", "test"),
    from_source=from_source,
    check_row=check_subject,
    local_files=("test.jsonl", "data/test-*.parquet"),
    pool=HubSource("TIGER-Lab/MMLU-Pro", "default", "validation"),
    pool_files=("validation.jsonl", "data/validation-*.parquet"),
    schema_verified=False,
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject", shots=True),
            multi_choice_cot(group_by="subject"),
            *multi_choice_v2(group_by="subject", shots=True),
            multi_choice_text(group_by="subject"),
        ]
    ),
    examples=(
        Example(_TENTH, Answer(logprobs=(-9.0, -9.0, -9.0, -9.0, -9.0, -9.0, -9.0, -9.0, -2.0, -1.0)), 1.0),
        Example(_TENTH, Answer(logprobs=(-1.0, -9.0, -9.0, -9.0, -9.0, -9.0, -9.0, -9.0, -2.0, -1.0)), 0.0),
        Example(_TENTH, Answer("It is plain.\nAnswer: J", ("stop_token",)), 1.0, kind="multi_choice_cot.simple-evals"),
        Example(_TENTH, Answer("It is plain.\nAnswer: I", ("stop_token",)), 0.0, kind="multi_choice_cot.simple-evals"),
    ),
)
