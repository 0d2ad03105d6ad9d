"""IFBench: prompts with instructions that IFEval does not have (Pyatkin et al. 2025, arXiv 2507.02833).

    {"key": "0", "prompt": "...", "instruction_id_list": ["count:keywords_multiple"], "kwargs": [{"keyword1": ...}]}

The headline is the loose verdict on the whole prompt, as in the paper; strict ones stand beside it.

The catch: some rules depend on lists of words and on sentence splitters of libraries, so versions matter; ours are in
the grader's version. rwkv-skills prepares this set and cannot grade it.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.ifeval import IFBENCH
from rwkv_data.graders.ifeval import ifbench as grader
from rwkv_data.instructions.instruction_rows import check_row, from_source
from rwkv_data.profiles import instruction

_FRUIT = {
    "question": "Name a fruit. Say the word ripe twice.",
    "key": 1,
    "instruction_id_list": ["count:word_count_range"],
    "kwargs": [{"min_words": 3, "max_words": 6}],
    "answer": "",
}

_CHAT = "instruction_following.chat"
_METRICS = ("prompt_loose", "accuracy", "inst_loose", "inst_strict")

BENCHMARK = Benchmark(
    name="ifbench",
    version=1,
    domain="instruction_following",
    title="IFBench, further instructions that a program checks",
    licence="ODC-BY 1.0 (as publicly known)",
    split="train",
    rows=300,
    source=HubSource("allenai/IFBench_test", "default", "train"),
    from_source=from_source,
    check_row=check_row,
    local_files=("IFBench_test.jsonl", "train.jsonl", "test.jsonl", "data/train-*.parquet"),
    kinds=by_name([instruction.whole(IFBENCH, _METRICS), instruction.chat(grader("after thoughts"), _METRICS)]),
    examples=(
        Example(_FRUIT, Answer(" An apple is a fruit.", ("stop_token",)), 1.0),
        Example(_FRUIT, Answer(" Apple.", ("stop_token",)), 0.0),
        Example(_FRUIT, Answer("", ("stop_token",)), 0.0),
        Example(
            _FRUIT, Answer("<think>Hm.</think>An apple is ripe.", ("stop_token",)), 1.0, "instruction_following.chat"
        ),
        Example(_FRUIT, Answer("<think>An apple is ripe.", ("length",)), 0.0, "instruction_following.chat"),
    ),
    schema_verified=False,
)
