"""ARC-Easy: 2,376 grade-school science questions that look-up or co-occurrence answers (Clark et al. 2018, arXiv
1803.05457).

Forms of the rows, and their catch: see rwkv_data.prepare.row_shapes.choice_arc. The letters of the first profile stand
for the choices' places, also where the set says 1 to 4.
"""

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.prepare.row_shapes.choice_arc import from_source
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_lm_eval import arc_prompt, continuations
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2

_SKIN = {
    "question": "Which skin surface will produce the most heat?",
    "choices": ["dry palms", "wet palms", "oiled palms"],
    "answer": "A",
    "subject": "science",
}

BENCHMARK = Benchmark(
    name="arc_easy",
    version=1,
    domain="multi_choice",
    title="ARC-Easy, science questions",
    licence="CC BY-SA 4.0",
    split="test",
    rows=2376,
    source=HubSource("allenai/ai2_arc", "ARC-Easy", "test"),
    from_source=from_source,
    check_row=rows.check_choice,
    local_files=("test.json", "ARC-Easy-Test.jsonl", "test.jsonl"),
    pool=HubSource("allenai/ai2_arc", "ARC-Easy", "train"),
    pool_files=("train.json", "ARC-Easy-Train.jsonl", "train.jsonl"),
    kinds=by_name(
        [
            multi_choice_plain(shots=True),
            multi_choice_cot(default=False),
            *multi_choice_v2(shots=True),
            continuations(arc_prompt, metrics=("accuracy", "acc_norm")),
        ]
    ),
    examples=(
        Example(_SKIN, Answer(logprobs=(-0.5, -1.0, -2.0)), 1.0),
        Example(_SKIN, Answer(logprobs=(-1.5, -1.0, -2.0)), 0.0),
    ),
)
