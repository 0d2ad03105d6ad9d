"""HellaSwag: 10,042 beginnings of ActivityNet captions and WikiHow articles with four endings (Zellers et al. 2019,
arXiv 1905.07830), the validation split.

    hub     {"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "...", "ctx_b": "he", "ctx": "...",
             "endings": ["...", ...], "source_id": "activitynet~v_-JhWjGDPHMY", "label": "3"}
    copies  {"context": the same as ctx, "endings": [...], "label": 3, "activity_label": "...", "source_id": "..."}

The catch: the labels of the test split are hidden. Rows are stored in the harness's cleaned form (see
rwkv_data.prepare.row_shapes.choice_hellaswag); a copy without ctx_a and ctx_b has them told apart by where its last
sentence begins. The field scores the endings themselves, with the length norm, so that is the default here; letters are
the other way.
"""

from dataclasses import replace

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.prepare.row_shapes.choice_hellaswag import from_source
from rwkv_data.prepare.row_shapes.choice_rows import check_four
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_lm_eval import continuations, hellaswag_prompt
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2

_KETTLE = {
    "question": "Making tea: A woman fills a kettle and sets it on the stove. She",
    "choices": ["waits until it boils.", "paints it blue.", "throws it away.", "plants a tree in it."],
    "answer": "A",
    "subject": "Making tea",
}

BENCHMARK = Benchmark(
    name="hellaswag",
    version=1,
    domain="multi_choice",
    title="HellaSwag, how a text goes on",
    licence="MIT",
    split="validation",
    rows=10042,
    source=HubSource("Rowan/hellaswag", "default", "validation"),
    from_source=from_source,
    check_row=check_four,
    local_files=("validation.jsonl", "hellaswag_val.jsonl", "hellaswag_val_500_en.jsonl"),
    pool=HubSource("Rowan/hellaswag", "default", "train"),
    pool_files=("train.jsonl", "hellaswag_train.jsonl"),
    kinds=by_name(
        [
            replace(continuations(hellaswag_prompt, metrics=("acc_norm", "accuracy"), one_more=True), default=True),
            multi_choice_plain(default=False),
            multi_choice_cot(default=False),
            *multi_choice_v2(),
        ]
    ),
    examples=(
        Example(_KETTLE, Answer(logprobs=(-9.0, -14.0, -15.0, -20.0)), 1.0),
        Example(_KETTLE, Answer(logprobs=(-9.0, -7.0, -15.0, -20.0)), 0.0),
    ),
)
