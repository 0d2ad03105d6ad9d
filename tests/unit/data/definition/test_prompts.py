"""Prompts and sampling, byte for byte and number for number: a changed prompt is another benchmark."""

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.errors import UnknownBenchmarkError
from rwkv_data.profiles.sampling import MATH_COT
from rwkv_data.reference import show
from rwkvctl.protocol.engine import Sampling, Stops

UNPENALISED = (" ", "\t", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")


def test_two_stage_prompt() -> None:
    kind = registry.load("gsm8k").default_kind
    cot, final = kind.stages
    assert cot.prompt({"question": "How many\nbolts?"}) == "User: How many\nbolts?\n\nAssistant: <think"
    assert final.prompt({"question": "How many\nbolts?"}) == "\nTherefore, the answer is \\(\\boxed{"
    assert (kind.profile, kind.profile_version, cot.name, final.name) == ("rwkv-skills-v1", 1, "cot", "final")


@pytest.mark.parametrize("name", ["gsm8k", "math_500"])
def test_two_stage_sampling_is_that_of_the_table(name: str) -> None:
    cot, final = registry.load(name).default_kind.stages
    assert cot.sampling == Sampling(
        max_tokens=4096,
        temperature=0.3,
        top_k=500,
        top_p=0.4,
        presence=0.5,
        frequency=0.1,
        decay=0.99,
        unpenalised=UNPENALISED,
    )
    assert cot.stops == Stops(end_of_text=True, tokens=("\n\n", "User"))
    assert final.sampling == Sampling(
        max_tokens=64, temperature=1.0, top_k=1, top_p=0.3, presence=0, frequency=0, decay=0.99, unpenalised=UNPENALISED
    )
    assert final.stops == Stops(end_of_text=True, tokens=("}\\", " }\\"))


def test_math_template_is_that_of_the_table() -> None:
    expected = Sampling(
        max_tokens=4096,
        temperature=0.55,
        top_k=66,
        top_p=0.79,
        presence=0.14,
        frequency=0.01,
        decay=0.997,
        unpenalised=UNPENALISED,
    )
    assert expected == MATH_COT


def test_repeats_and_metrics() -> None:
    gsm8k, math_500 = registry.load("gsm8k").default_kind, registry.load("math_500").default_kind
    assert (gsm8k.repeats, gsm8k.metrics) == (1, ("pass@1",))
    assert (math_500.repeats, math_500.metrics) == (4, ("avg@4", "pass@1"))


def test_direct_choice_prompt() -> None:
    stage = registry.load("mmlu").default_kind.stages[0]
    row = {
        "question": " Find all c\r\nin Z_3.",
        "choices": ["0", "1", "None", "N/A "],
        "answer": "B",
        "subject": "abstract_algebra",
    }
    assert stage.prompt(row) == (
        "User: You are a very talented expert in abstract algebra. Answer this question:\n"
        " Find all c\nin Z_3.\nA. 0\nB. 1\nC. None\nD. N/A \n\nAssistant: The answer is"
    )
    assert stage.choices is not None
    assert stage.choices(row) == (" A", " B", " C", " D")


def test_choice_prompt_has_as_many_letters_as_choices() -> None:
    stage = registry.load("arc_challenge").default_kind.stages[0]
    row = {"question": "Q", "choices": ["u", "v", "w", "x", "y"], "answer": "E", "subject": "science"}
    assert stage.prompt(row) == (
        "User: You are a very talented expert in science. Answer this question:\n"
        "Q\nA. u\nB. v\nC. w\nD. x\nE. y\n\nAssistant: The answer is"
    )
    assert stage.choices is not None
    assert stage.choices(row) == (" A", " B", " C", " D", " E")


EVEN = {"question": "Which is even?", "choices": ["1", "2", "3"], "answer": "B", "subject": "number_theory"}
USER_V2 = (
    "User: You are a very talented expert in number theory.\n"
    "Answer this question and finish with a single option letter.\n"
    "Question: Which is even?\nChoices:\nA. 1\nB. 2\nC. 3\n\n"
)


def test_thinking_choice_prompt() -> None:
    cot, final = registry.load("mmlu").kinds["multi_choice_cot"].stages
    assert cot.prompt(EVEN) == (
        "User: You are a very talented expert in number theory. Answer this question:\n"
        "Which is even?\nA. 1\nB. 2\nC. 3\n\nAssistant: <think"
    )
    assert final.prompt(EVEN) == "\nTherefore, the answer is"
    assert (cot.mode, final.mode) == ("generate", "choose")
    assert final.choices(EVEN) == (" A", " B", " C")


def test_thinking_choice_sampling_is_that_of_the_table() -> None:
    cot, _ = registry.load("mmlu").kinds["multi_choice_cot"].stages
    assert cot.sampling == Sampling(
        max_tokens=4096,
        temperature=0.5,
        top_k=50,
        top_p=0.3,
        presence=1.0,
        frequency=0.1,
        decay=0.99,
        unpenalised=UNPENALISED,
    )
    assert cot.stops == Stops(end_of_text=True, tokens=("\n\n", "User"))


@pytest.mark.parametrize("name", ["cmmlu", "ceval"])
def test_chinese_sets_are_asked_in_chinese(name: str) -> None:
    kinds = registry.load(name).kinds
    [direct], (cot, final) = kinds["multi_choice_plain"].stages, kinds["multi_choice_cot"].stages
    assert direct.prompt(EVEN) == "User: Which is even?\nA. 1\nB. 2\nC. 3\n\nAssistant: 正确答案是"
    assert cot.prompt(EVEN) == "User: Which is even?\nA. 1\nB. 2\nC. 3\n\nAssistant:"
    assert final.prompt(EVEN) == "\n综上所述，答案是"


def test_the_second_profile_s_choice_prompts() -> None:
    kinds = registry.load("mmlu").kinds
    [fake], [direct] = kinds["multi_choice_fake_cot"].stages, kinds["multi_choice_plain.rwkv-skills-v2"].stages
    cot, final = kinds["multi_choice_cot.rwkv-skills-v2"].stages
    assert direct.prompt(EVEN) == f"{USER_V2}Assistant: Therefore, the answer is"
    assert fake.prompt(EVEN) == f"{USER_V2}Assistant: <think>\n</think>\nTherefore, the answer is"
    assert cot.prompt(EVEN) == f"{USER_V2}Assistant: <think>"
    assert final.prompt(EVEN) == "</think>\nTherefore, the answer is"
    assert cot.stops == Stops(tokens=("\n\n", "User"), suffixes=("</think>",))
    assert {kinds[name].profile for name in kinds if "fake" in name or "v2" in name} == {"rwkv-skills-v2"}


def test_examples_stand_in_the_form_of_the_prompt() -> None:
    kind = registry.load("mmlu").default_kind.with_settings({"shots": "1"})
    other = {"question": "Odd?", "choices": ["4", "5"], "answer": "B", "subject": "number_theory"}
    [row] = kind.asked([EVEN], [{**other, "subject": "anatomy"}, other])
    opening = "User: You are a very talented expert in number theory. Answer this question:\n"
    assert kind.prompt(0, row) == (
        f"{opening}Odd?\nA. 4\nB. 5\n\nAssistant: The answer is B\n\n"
        f"{opening}Which is even?\nA. 1\nB. 2\nC. 3\n\nAssistant: The answer is"
    )


def test_no_examples_stand_before_a_question_unless_asked_for() -> None:
    for name in ("mmlu", "mmlu_pro", "cmmlu", "ceval", "arc_challenge", "arc_easy", "hellaswag"):
        for kind in registry.load(name).kinds.values():
            assert kind.shots is None or kind.shots.count == 0


@pytest.mark.parametrize(
    ("name", "kind", "repeats", "metrics"),
    [
        ("mmlu", "multi_choice_plain", 1, ("accuracy",)),
        ("mmlu", "multi_choice_cot", 1, ("pass@1",)),
        ("gpqa_main", "multi_choice_plain", 1, ("accuracy",)),
        ("gpqa_main", "multi_choice_cot", 16, ("avg@16",)),
        ("gpqa_diamond", "multi_choice_cot.rwkv-skills-v2", 16, ("avg@16",)),
        ("arc_challenge", "multi_choice_plain.lm-eval", 1, ("acc_norm", "accuracy")),
        ("hellaswag", "multi_choice_plain.lm-eval", 1, ("acc_norm", "accuracy")),
        ("lambada", "lambada", 1, ("accuracy", "word_perplexity")),
        ("held_out_text", "perplexity", 1, ("bits_per_byte", "word_perplexity")),
    ],
)
def test_how_often_choices_are_asked(name: str, kind: str, repeats: int, metrics: tuple[str, ...]) -> None:
    found = registry.load(name).kinds[kind]
    assert (found.repeats, found.metrics) == (repeats, metrics)


def test_free_choice_prompt() -> None:
    kind = registry.load("gpqa_diamond").kinds["multi_choice_cot.simple-evals"]
    [stage] = kind.stages
    assert stage.prompt(EVEN) == (
        "User: Answer the following multiple choice question. The last line of your response should be of the "
        "following format: 'Answer: $LETTER' (without quotes) where LETTER is one of ABC. Think step by step "
        "before answering.\n\nWhich is even?\n\nA) 1\nB) 2\nC) 3\n\nAssistant:"
    )
    assert (stage.sampling, stage.stops) == (Sampling(max_tokens=2048), Stops(suffixes=("\nUser:",)))
    assert (kind.grader.name, kind.default) == ("letter-v1", False)


def test_bbh_prompt_and_stops() -> None:
    kinds = registry.load("bbh").kinds
    assert (
        kinds["free_response"].stages[0].prompt({"question": "Is it?"}) == "Q: Is it?\nA: Let's think step by step.\n"
    )
    assert kinds["free_response"].stages[0].stops == Stops(suffixes=("\nQ:", "\nUser:"))
    assert kinds["free_response.lm-eval"].stages[0].stops == Stops(suffixes=("</s>", "Q", "\n\n"))
    assert {kind.stages[0].sampling for kind in kinds.values()} == {Sampling(max_tokens=1024)}
    assert {kind.shots.count for kind in kinds.values()} == {3}


def test_scored_text_stands_after_its_context() -> None:
    [word] = registry.load("lambada").default_kind.stages
    row = {"question": "drank her", "answer": "tea"}
    assert (word.prompt(row), word.choices(row), word.split) == ("drank her", (" tea",), "lm-eval")
    [document] = registry.load("held_out_text").default_kind.stages
    row = {"text": "Four.\n"}
    assert (document.prompt(row), document.choices(row)) == ("", ("Four.\n",))


def test_demo_prompts() -> None:
    arith = registry.load("demo_arith").default_kind.stages[0]
    assert arith.prompt({"question": "17+25=", "answer": "42"}) == "17+25="
    assert (arith.sampling, arith.stops) == (Sampling(max_tokens=8), Stops(suffixes=("\n",)))
    choice = registry.load("demo_choice").default_kind.stages[0]
    row = {"choices": ["bab", "cec", "did", "fof"], "question": "did", "answer": "C"}
    assert choice.prompt(row) == "bab=A cec=B did=C fof=D;did="
    assert choice.choices is not None
    assert choice.choices(row) == ("A", "B", "C", "D")


def test_show_gives_the_prompts_as_sent() -> None:
    [first] = show.show(registry.load("gsm8k"), count=1)
    assert first["of"] == "examples"
    assert [stage["prompt"][:6] for stage in first["stages"]] == ["User: ", "\nThere"]
    assert first["stages"][0]["sampling"]["top_k"] == 500
    rows = show.show(registry.load("demo_choice"), "multi_choice_plain")
    assert (len(rows), rows[0]["of"], rows[0]["stages"][0]["choices"]) == (3, "rows", ["A", "B", "C", "D"])


def test_show_refuses_an_unknown_kind() -> None:
    with pytest.raises(UnknownBenchmarkError, match="gsm8k has no kind 'cot'; it has free_response"):
        show.show(registry.load("gsm8k"), "cot")
