"""CMMLU: 11,582 four-choice questions of 67 subjects in Chinese (Li et al. 2023, arXiv 2306.09212).

    test/agronomy.csv: (number), Question, A, B, C, D, Answer; examples in dev/agronomy.csv

The catch: the set's name tells rwkv-skills nothing of its language, and it asks in English; here the Chinese prompt is
used. Scores of the first profile are therefore not those that rwkv-skills stores.
"""

from typing import Any

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.prepare.row_shapes.choice_chinese import cmmlu_description
from rwkv_data.prepare.row_shapes.choice_rows import check_four, of_columns, subject_of
from rwkv_data.profiles import multi_choice_lm_eval
from rwkv_data.profiles.multi_choice import CHINESE, multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row, with the subject that the row or its file names."""
    return of_columns(raw, subject_of(raw))


_EVEN = {
    "question": "下列数中，偶数是",
    "choices": ["1", "2", "3", "5"],
    "answer": "B",
    "subject": "elementary_mathematics",
}

BENCHMARK = Benchmark(
    name="cmmlu",
    version=1,
    domain="multi_choice",
    title="CMMLU, 67 subjects in Chinese",
    licence="CC BY-NC-SA 4.0",
    split="test",
    rows=11582,
    source=HubSource("haonan-li/cmmlu", "", "test", files=("cmmlu_v1_0_1.zip",)),
    from_source=from_source,
    check_row=check_four,
    local_files=("test/*.csv", "cmmlu_v1_0_1.zip"),
    pool=HubSource("haonan-li/cmmlu", "", "dev", files=("cmmlu_v1_0_1.zip",)),
    pool_files=("dev/*.csv", "cmmlu_v1_0_1.zip/dev/*.csv"),
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject", wording=CHINESE, shots=True),
            multi_choice_cot(group_by="subject", wording=CHINESE),
            *multi_choice_v2(group_by="subject", shots=True),
            multi_choice_lm_eval.chinese(cmmlu_description),
        ]
    ),
    examples=(
        Example(_EVEN, Answer(logprobs=(-2.0, -0.5, -1.5, -3.0)), 1.0),
        Example(_EVEN, Answer(logprobs=(-0.1, -0.5, -1.5, -3.0)), 0.0),
    ),
)
