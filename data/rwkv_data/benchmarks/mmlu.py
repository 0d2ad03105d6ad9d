"""MMLU: 14,042 four-choice questions of 57 subjects (Hendrycks et al. 2021, arXiv 2009.03300).

    hub    {"question": "...", "subject": "abstract_algebra", "choices": ["0", "1", "2", "3"], "answer": 1}
    zip    data/test/abstract_algebra_test.csv: question, four choices, letter; no header; subject: see the name

The catch: some choices are the words "None" and "N/A", which data-frame readers turn into missing values. The csv
module keeps them. The overall score weighs every question alike; `groups` gives each subject, and their plain mean.
The examples of a subject are the five of its dev split, in order.
"""

from typing import Any

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.prepare.row_shapes.choice_rows import check_four, of_index, subject_of
from rwkv_data.profiles import multi_choice_lm_eval
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_text import multi_choice_text
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any]:
    """A hub row, or the cells of a line of csv."""
    if "cells" not in raw:
        return of_index(raw, subject_of(raw))
    if len(raw["cells"]) != 6:
        raise RowError(f"{len(raw['cells'])} cells; a question, four choices and a letter are 6")
    question, *choices, answer = raw["cells"]
    return {"question": question, "choices": choices, "answer": answer.strip(), "subject": subject_of(raw)}


_CYCLIC = {
    "question": "Which choice is the word itself?",
    "choices": ["None", "N/A", "0", "1"],
    "answer": "B",
    "subject": "abstract_algebra",
}

BENCHMARK = Benchmark(
    name="mmlu",
    version=1,
    domain="multi_choice",
    title="MMLU, 57 subjects, four choices",
    licence="MIT",
    split="test",
    rows=14042,
    source=HubSource("cais/mmlu", "all", "test"),
    from_source=from_source,
    check_row=check_four,
    local_files=("mmlu.zip", "data.zip"),
    pool=HubSource("cais/mmlu", "all", "dev"),
    pool_files=("mmlu.zip/data/dev/*.csv", "data.zip/data/dev/*.csv"),
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject", shots=True),
            multi_choice_cot(group_by="subject"),
            *multi_choice_v2(group_by="subject", shots=True),
            multi_choice_text(group_by="subject"),
            multi_choice_lm_eval.mmlu(),
        ]
    ),
    examples=(
        Example(_CYCLIC, Answer(logprobs=(-2.0, -0.5, -3.0, -4.0)), 1.0),
        Example(_CYCLIC, Answer(logprobs=(-0.1, -0.5, -3.0, -4.0)), 0.0),
        Example(_CYCLIC, Answer(logprobs=(-1.0, -1.0, -3.0, -4.0)), 0.0),
        Example(_CYCLIC, Answer("It is plain.\nAnswer: B", ("stop_token",)), 1.0, kind="multi_choice_cot.simple-evals"),
        Example(_CYCLIC, Answer("It is plain.\nAnswer: A", ("stop_token",)), 0.0, kind="multi_choice_cot.simple-evals"),
    ),
)
