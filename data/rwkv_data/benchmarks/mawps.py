r"""MAWPS: 2,065 word problems of four collections (Koncel-Kedziorski et al. 2016), as microsoft/ToRA keeps them.

    {"input": "Joan found 70 seashells on the beach . she gave Sam some ...", "target": 43.0}

The catch: four files, addsub (395), singleeq (508), singleop (562) and multiarith (600), with several questions in more
than one of them; answers are floats, dozens of them not whole (11.5). Which file it was is the group.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row
from rwkv_data.graders.maths.number import NUMBER
from rwkv_data.prepare.row_shapes.question_rows import check_number
from rwkv_data.prepare.row_shapes.question_sources import github
from rwkv_data.prepare.row_shapes.question_text import first_text, first_value, number
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_examples import GSM8K
from rwkv_data.profiles.maths_set import examples, maths_set

_FILES = {
    "src/data/mawps/addsub.jsonl": "2fae2c92530cdf1ac0487db9a90e68d6af84049d755c07c4486411c1d7f43e75",
    "src/data/mawps/singleeq.jsonl": "07bec92bae226dd5231a966e907a0f097ba3170a1557c73ceeb135caad8d09f8",
    "src/data/mawps/singleop.jsonl": "feb012e7ed5503cdb96fd127d539692b033000e9134655acaf4f4e0091328e94",
    "src/data/mawps/multiarith.jsonl": "12e8295088364af21fb6591dbdbd1dda452aade57227f63d725677471ded2951",
}


def from_source(raw: Row) -> dict[str, Any]:
    """The question; the collection is named in the row or by its file."""
    return {
        "question": rows.text(raw, "input"),
        "answer": number(first_value(raw, ("target",))),
        "collection": first_text(raw, ("type", "_file")),
    }


def check_row(row: Row) -> None:
    """A question row with a number for an answer and one of the four collections."""
    check_number(row)
    rows.text(row, "collection")


_SHELLS = {"question": "Joan found 70 shells and has 27 left. How many did she give?", "answer": "43"}
_SHELL_ROW = {**_SHELLS, "collection": "addsub"}
_KINDS = maths_set(free_response(NUMBER, group_by="collection"), qwen=GSM8K)

BENCHMARK = Benchmark(
    name="mawps",
    version=1,
    domain="free_response",
    title="MAWPS, word problems of four collections",
    licence="MIT (microsoft/ToRA)",
    split="test",
    rows=2065,
    source=github("microsoft/ToRA", "213c1c995038c73fab10343814df7a42f990f026", _FILES),
    from_source=from_source,
    check_row=check_row,
    local_files=("test.jsonl", "[ams]*.jsonl"),
    kinds=_KINDS,
    examples=(
        *examples(_KINDS, _SHELL_ROW, "43", "97"),
        Example(_SHELL_ROW, Answer("43 \\text{ seashells}", ("stop_token", "stop_token")), 1.0),
    ),
)
