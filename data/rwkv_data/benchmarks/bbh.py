"""BIG-Bench Hard: 6,511 rows of 27 tasks that language models found hard (Suzgun et al. 2022, arXiv 2210.09261).

Files, rows and the rule of what is right: see rwkv_data.prepare.row_shapes.choice_bbh; prompts: rwkv_data.profiles.bbh.

The catch: the rows carry the canary of BIG-bench and belong in nothing that is published as text. The harness's way of
asking stops at any capital Q and drops the last character of what it extracts; dyck_languages loses a point by that.
Its score is kept apart from ours.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, WebSource, by_name
from rwkv_data.prepare.row_shapes.choice_bbh import GRADER, ROOT, SHA256, check_row, examples, from_source
from rwkv_data.profiles import bbh

_OPTIONS = {
    "question": "Which of these is a fruit?\nOptions:\n(A) the apple\n(B) the chair",
    "answer": "(A)",
    "task": "hyperbaton",
}
_DYCK = {"question": "Close the sequence. Input: [ { [", "answer": "] } ]", "task": "dyck_languages"}
_WORDS = {"question": "Sort: pear apple fig", "answer": "apple fig pear", "task": "word_sorting"}
_SUM = {"question": "((2 - 9)) =", "answer": "-7", "task": "multistep_arithmetic_two"}


def _said(text: str) -> Answer:
    return Answer(text, ("stop_suffix",))


BENCHMARK = Benchmark(
    name="bbh",
    version=1,
    domain="free_response",
    title="BIG-Bench Hard, 27 tasks, three worked examples",
    licence="MIT",
    split="test",
    rows=6511,
    source=WebSource(tuple(f"{ROOT}/bbh/{task}.json" for task in SHA256), tuple(rows for rows, _ in SHA256.values())),
    from_source=from_source,
    expand=examples,
    check_row=check_row,
    local_files=("bbh/*.json",),
    pool=WebSource(
        tuple(f"{ROOT}/cot-prompts/{task}.txt" for task in SHA256), tuple(worked for _, worked in SHA256.values())
    ),
    pool_files=("cot-prompts/*.txt",),
    kinds=by_name(bbh.kinds(GRADER)),
    examples=(
        Example(_OPTIONS, _said("An apple grows on a tree. So the answer is (A)."), 1.0),
        Example(_OPTIONS, _said("The answer is the apple."), 1.0),
        Example(_OPTIONS, _said("So the answer is (B)."), 0.0),
        Example(_OPTIONS, Answer("A chair is furniture.\n\nAnd apples are red.", ("length",)), 0.0),
        Example(_DYCK, _said('We pop "[", "{", "[". So the answer is ] } ].'), 1.0),
        Example(_DYCK, _said("So the answer is ] ] }."), 0.0),
        Example(_WORDS, _said("So the answer is apple, fig, pear."), 1.0),
        Example(_SUM, _said("So the answer is -7."), 1.0),
        Example(_SUM, _said("So the answer is 7."), 0.0),
        Example(_OPTIONS, _said("So the answer is (A)."), 1.0, kind="free_response.lm-eval"),
        Example(_OPTIONS, _said("So the answer is (B)."), 0.0, kind="free_response.lm-eval"),
        Example(_SUM, _said("So the answer is -7"), 0.0, kind="free_response.lm-eval"),
    ),
)
