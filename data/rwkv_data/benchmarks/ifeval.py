r"""IFEval: 541 prompts with 834 instructions that a program can check (Zhou et al. 2023, arXiv 2311.07911).

    {"key": 1000, "prompt": "...", "instruction_id_list": ["punctuation:no_comma", ...], "kwargs": [{}, ...]}

The value of a sample is the strict verdict on the whole prompt; the other three published measures stand beside it.

The catch: rwkv-skills stops at the token "\n\n", and no answer of one paragraph can have three; see
rwkv_data.profiles.instruction. Echoing the prompt scores a quarter of the prompts strictly. Sentences are split by
NLTK's punkt_tab where NLTK_DATA has it, else by a splitter of our own, and the grader's version says which.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.graders.ifeval import IFEVAL
from rwkv_data.graders.ifeval import ifeval as grader
from rwkv_data.instructions.instruction_rows import check_row, from_source
from rwkv_data.profiles import instruction

_MEASURES = ("prompt_loose", "inst_strict", "inst_loose")
_WHOLE = instruction.whole(IFEVAL, ("accuracy", "avg@4", *_MEASURES), repeats=4)
_FRUIT = {
    "question": "Name two fruits. Use no commas and only small letters.",
    "key": 1,
    "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
    "kwargs": [{}, {}],
    "answer": "",
}
_RIGHT, _WRONG = "an apple is a fruit and so is a pear.\n\nthey grow on trees.", " Apples, pears"

BENCHMARK = Benchmark(
    name="ifeval",
    version=1,
    domain="instruction_following",
    title="IFEval, instructions that a program checks",
    licence="Apache-2.0",
    split="train",
    rows=541,
    source=HubSource("google/IFEval", "default", "train"),
    from_source=from_source,
    check_row=check_row,
    local_files=("input_data.jsonl", "ifeval_input_data.jsonl", "train.jsonl", "test.jsonl"),
    kinds=by_name(
        [
            _WHOLE,
            instruction.v1(_WHOLE),
            instruction.thinking(_WHOLE, grader("behind a thought")),
            instruction.lm_eval(IFEVAL, ("accuracy", *_MEASURES)),
            instruction.chat(grader("after thoughts"), ("accuracy", *_MEASURES)),
        ]
    ),
    examples=(
        Example(_FRUIT, Answer(f" {_RIGHT}", ("stop_token",)), 1.0),
        Example(_FRUIT, Answer(_WRONG, ("stop_token",)), 0.0),
        Example(_FRUIT, Answer("", ("stop_token",)), 0.0),
        Example(_FRUIT, Answer(f" {_RIGHT}", ("stop_token",)), 1.0, "instruction_following.rwkv-skills-v1"),
        Example(_FRUIT, Answer(_WRONG, ("stop_token",)), 0.0, "instruction_following.rwkv-skills-v1"),
        Example(
            _FRUIT,
            Answer(f"> Two fruits, then.</think>\n{_RIGHT}", ("stop_token",)),
            1.0,
            "instruction_following.rwkv-skills-v1-thinking",
        ),
        Example(_FRUIT, Answer(f"> {_RIGHT}", ("length",)), 0.0, "instruction_following.rwkv-skills-v1-thinking"),
        Example(_FRUIT, Answer(_RIGHT, ("stop_token",)), 1.0, "instruction_following.lm-eval"),
        Example(_FRUIT, Answer(_WRONG, ("stop_token",)), 0.0, "instruction_following.lm-eval"),
        Example(_FRUIT, Answer(_RIGHT, ("stop_token",)), 1.0, "instruction_following.chat"),
        Example(_FRUIT, Answer(f"<think>A, B?</think>\n{_RIGHT}", ("stop_token",)), 1.0, "instruction_following.chat"),
        Example(_FRUIT, Answer(f"<think>{_RIGHT}", ("length",)), 0.0, "instruction_following.chat"),
        Example(_FRUIT, Answer(_WRONG, ("stop_token",)), 0.0, "instruction_following.chat"),
    ),
)
