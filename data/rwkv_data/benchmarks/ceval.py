"""C-Eval: 52 subjects in Chinese, from middle school to professions (Huang et al. 2023, arXiv 2305.08322).

    val/accountant_val.csv: id, question, A, B, C, D, answer; dev/accountant_dev.csv has examples with explanations

The catch: the answers of the test split (12,342 rows) are secret, so its score would mean nothing; rwkv-skills asks it
all the same. Asked here are the 1,346 rows of the validation split, as lm-evaluation-harness does.
"""

from typing import Any

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.prepare.row_shapes.choice_chinese import ceval_description
from rwkv_data.prepare.row_shapes.choice_rows import check_four, of_columns, subject_of
from rwkv_data.profiles import multi_choice_lm_eval
from rwkv_data.profiles.multi_choice import CHINESE, multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row, with the subject that the row or its file names."""
    return of_columns(raw, subject_of(raw))


_PRIME = {
    "question": "下列数中，质数是____。",
    "choices": ["4", "6", "8", "7"],
    "answer": "D",
    "subject": "middle_school_mathematics",
}

BENCHMARK = Benchmark(
    name="ceval",
    version=1,
    domain="multi_choice",
    title="C-Eval, 52 subjects in Chinese, validation split",
    licence="CC BY-NC-SA 4.0",
    split="val",
    rows=1346,
    source=HubSource("ceval/ceval-exam", "", "val", files=("ceval-exam.zip",)),
    from_source=from_source,
    check_row=check_four,
    local_files=("ceval.zip", "ceval-exam.zip", "val/*_val.csv"),
    pool=HubSource("ceval/ceval-exam", "", "dev", files=("ceval-exam.zip",)),
    pool_files=("ceval.zip/dev/*.csv", "ceval-exam.zip/dev/*.csv", "dev/*_dev.csv"),
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject", wording=CHINESE, shots=True),
            multi_choice_cot(group_by="subject", wording=CHINESE),
            *multi_choice_v2(group_by="subject", shots=True),
            multi_choice_lm_eval.chinese(ceval_description),
        ]
    ),
    examples=(
        Example(_PRIME, Answer(logprobs=(-2.0, -1.5, -3.0, -0.5)), 1.0),
        Example(_PRIME, Answer(logprobs=(-0.1, -1.5, -3.0, -0.5)), 0.0),
    ),
)
