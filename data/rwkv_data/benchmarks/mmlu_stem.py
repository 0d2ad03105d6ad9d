"""The STEM subjects of MMLU as the Qwen2.5-Math evaluation has them: 3,018 rows of 18 subjects.

    {"question": "...", "type": "college_biology", "choices": ["...", ...], "answer": 2}

The catch: the rows are in the test split of MMLU too, so this score says nothing that mmlu's groups do not; it is there
to compare with reports on that set.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row, WebSource, by_name
from rwkv_data.prepare.row_shapes.choice_rows import check_four, of_index
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2

COMMIT = "a45202bd16f1ec06f433442dc1152d0074773465"


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row; `type` is its subject."""
    return of_index(raw, rows.text(raw, "type"))


_ROOT = {"question": "What is 2 + 2?", "choices": ["3", "4", "5", "6"], "answer": "B", "subject": "college_mathematics"}

BENCHMARK = Benchmark(
    name="mmlu_stem",
    version=1,
    domain="multi_choice",
    title="MMLU, the STEM subjects as Qwen2.5-Math has them",
    licence="MIT",
    split="test",
    rows=3018,
    source=WebSource(
        (f"https://raw.githubusercontent.com/QwenLM/Qwen2.5-Math/{COMMIT}/evaluation/data/mmlu_stem/test.jsonl",),
        ("fd7c16f96067d285638abb5aaef9cd8a063b11454e14cb64df93141a58691478",),
    ),
    from_source=from_source,
    check_row=check_four,
    local_files=("test.jsonl",),
    kinds=by_name(
        [
            multi_choice_plain(group_by="subject"),
            multi_choice_cot(group_by="subject", default=False),
            *multi_choice_v2(group_by="subject"),
        ]
    ),
    examples=(
        Example(_ROOT, Answer(logprobs=(-2.0, -0.5, -3.0, -4.0)), 1.0),
        Example(_ROOT, Answer(logprobs=(-0.1, -0.5, -3.0, -4.0)), 0.0),
    ),
)
