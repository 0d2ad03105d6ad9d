"""Kinds in one turn of a conversation, which a model behind a chat API is asked."""

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.kind import Kind

EVERY = {name: registry.load(name) for name in registry.names()}
ASKED = [
    (benchmark, kind) for benchmark in EVERY.values() for kind in benchmark.kinds.values() if kind.takes_chat
]  # fmt: skip


@pytest.mark.parametrize(("benchmark", "kind"), ASKED, ids=[f"{b.name}-{k.name}" for b, k in ASKED])
def test_the_turn_is_the_part_of_the_prompt_that_the_user_says(benchmark: Benchmark, kind: Kind) -> None:
    row = next(example.row for example in benchmark.examples if example.kind in {"", kind.name})
    (turn,) = kind.turns(row)
    prompt = kind.prompt(0, row)
    assert turn.role == "user"
    assert turn.content
    assert prompt in {turn.content, f"User: {turn.content}\n\nAssistant:"}


def test_maths_contests_choices_and_translations_can_be_asked() -> None:
    named = {(benchmark.name, kind.name) for benchmark, kind in ASKED}
    assert named >= {
        ("gsm8k", "free_response.chat"), ("math_500", "free_response.chat"), ("aime24", "free_response.chat"),
        ("olympiadbench", "free_response.chat"), ("minerva_ocw", "free_response.chat"), ("apps", "code_contest.chat"),
        ("taco", "code_contest.chat"), ("mmlu_pro", "multi_choice_cot.simple-evals"), ("flores200", "translation"),
        ("ifeval", "instruction_following.chat"), ("ifbench", "instruction_following.chat"),
    }  # fmt: skip


def test_what_begins_the_answer_or_compares_log_probabilities_cannot() -> None:
    for name, kind in [("gsm8k", "free_response"), ("mmlu", "multi_choice_plain"), ("human_eval", "code_human_eval")]:
        assert not EVERY[name].kinds[kind].takes_chat
    assert EVERY["mmlu"].kinds["multi_choice_plain"].chooses
    assert not EVERY["gsm8k"].kinds["free_response"].chooses


def test_examples_in_front_of_the_question_are_no_turn() -> None:
    chat = EVERY["gsm8k"].kinds["free_response.chat"]
    assert chat.takes_chat
    assert chat.shots is None


def test_only_what_follows_the_thoughts_is_graded() -> None:
    gsm8k = EVERY["gsm8k"]
    kind, row = gsm8k.kinds["free_response.chat"], gsm8k.examples[0].row
    right = "<think>It is \\boxed{4}? No, 3.</think>The answer is \\boxed{3}."
    wrong = "<think>It is \\boxed{3}.</think>The answer is \\boxed{4}."
    with kind.grading() as grade:
        assert grade(row, Answer(right, ("stop_token",))).value == 1.0
        assert grade(row, Answer(wrong, ("stop_token",))).value == 0.0
