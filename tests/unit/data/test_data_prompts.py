"""Prompts and sampling, byte for byte and number for number: a changed prompt is another benchmark."""

import pytest

from rwkv_data import profiles, registry, show
from rwkv_data.errors import UnknownBenchmarkError
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
    assert expected == profiles.MATH_COT


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
    [first] = show.show("gsm8k", count=1)
    assert first["of"] == "examples"
    assert [stage["prompt"][:6] for stage in first["stages"]] == ["User: ", "\nThere"]
    assert first["stages"][0]["sampling"]["top_k"] == 500
    rows = show.show("demo_choice", "multi_choice_plain")
    assert (len(rows), rows[0]["of"], rows[0]["stages"][0]["choices"]) == (3, "rows", ["A", "B", "C", "D"])


def test_show_refuses_an_unknown_kind() -> None:
    with pytest.raises(UnknownBenchmarkError, match="gsm8k has no kind 'cot'; it has free_response"):
        show.show("gsm8k", "cot")
