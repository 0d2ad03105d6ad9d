"""ifeval-v1: strict and loose, parts, thoughts, rows without verdict; and the shape of the rows."""

import concurrent.futures

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import RowError
from rwkv_data.graders.ifeval import IFEVAL, grade, ifeval, variants
from rwkv_data.instructions.instruction_rows import check_row, from_source

NO_COMMA_TWO_BULLETS = {
    "question": "List two things, without commas.",
    "key": 7,
    "instruction_id_list": ["punctuation:no_comma", "detectable_format:number_bullet_lists"],
    "kwargs": [{}, {"num_bullets": 2}],
    "answer": "",
}


def _verdict(text: str, row: dict[str, object] = NO_COMMA_TWO_BULLETS) -> tuple[float | None, float, str]:
    found = grade(row, Answer(text))
    return found.value, found.parts["prompt_loose"], found.reason


def test_strict_and_loose() -> None:
    assert _verdict("* a\n* b") == (1.0, 1.0, "right")
    assert _verdict("Sure, here:\n* a\n* b") == (0.0, 1.0, "wrong")
    assert _verdict("* a\n* b, c") == (0.0, 1.0, "wrong")  # each rule chooses its own variant
    assert _verdict("* a, b") == (0.0, 0.0, "wrong")
    assert _verdict("") == (0.0, 0.0, "no_answer")
    assert _verdict(" \n ") == (0.0, 0.0, "no_answer")


def test_parts_and_detail() -> None:
    found = grade(NO_COMMA_TWO_BULLETS, Answer("Sure, here:\n* a"))
    assert found.parts == {
        "prompt_loose": 0.0,
        "instructions": 2.0,
        "followed_strict": 0.0,
        "followed_loose": 1.0,
        "punctuation.instructions": 1.0,
        "punctuation.followed_strict": 0.0,
        "punctuation.followed_loose": 1.0,
        "detectable_format.instructions": 1.0,
        "detectable_format.followed_strict": 0.0,
        "detectable_format.followed_loose": 0.0,
    }
    assert found.detail == "not followed: punctuation:no_comma, detectable_format:number_bullet_lists"
    assert found.expected == "punctuation:no_comma, detectable_format:number_bullet_lists"
    assert (found.extracted, found.route) == ("0 of 2 rules", IFEVAL.version.split("+")[1])


def test_eight_variants() -> None:
    assert variants("*a*\nb\n*c*") == ("*a*\nb\n*c*", "a\nb\nc", "b\n*c*", "*a*\nb", "b", "b\nc", "a\nb")
    assert variants("one") == ("one",)
    assert variants("") == ()


def test_only_the_blank_of_the_prompt_is_taken_off() -> None:
    row = NO_COMMA_TWO_BULLETS | {"instruction_id_list": ["format:no_whitespace"], "kwargs": [{}]}
    assert _verdict(" word", row)[0] == 1.0
    assert _verdict("  word", row)[0] == 0.0


def test_only_what_follows_the_thought_counts() -> None:
    with ifeval("behind a thought").open() as verdict_of:
        assert verdict_of(NO_COMMA_TWO_BULLETS, Answer(", so</think>\n\n* a\n* b")).value == 1.0
        assert verdict_of(NO_COMMA_TWO_BULLETS, Answer("* a\n* b")).reason == "no_answer"
        assert verdict_of(NO_COMMA_TWO_BULLETS, Answer("* a\n* b</think>")).reason == "no_answer"
    assert ifeval("behind a thought").version != IFEVAL.version


@pytest.mark.parametrize(
    ("names", "kwargs", "told"),
    [
        (["punctuation:no_comma", "made:up"], [{}, {}], "'made:up' is unknown"),
        (["startend:end_checker"], [{}], "end_phrase"),
        (["punctuation:no_comma"], [], "zip"),
    ],
)
def test_what_cannot_be_judged_has_no_verdict(names: list[str], kwargs: list[dict[str, object]], told: str) -> None:
    found = grade({"question": "Q", "instruction_id_list": names, "kwargs": kwargs}, Answer("a"))
    assert (found.value, found.reason) == (None, "error")
    assert told in found.detail


def test_threads_agree() -> None:
    row = NO_COMMA_TWO_BULLETS | {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "en"}]}
    texts = [f"SHORT TEXT {number} IN ROMA" for number in range(8)]
    alone = [grade(row, Answer(text)) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: grade(row, Answer(text)), texts)) == alone


def test_rows_of_the_hub_lose_their_padding() -> None:
    raw = {
        "key": "12",
        "prompt": "P",
        "instruction_id_list": ["repeat:repeat_span"],
        "kwargs": [{"n_start": 0, "n_end": 2.0, "prompt_to_repeat": "word", "N": None}],
    }
    row = from_source(raw)
    assert row["kwargs"] == [{"n_start": 0, "n_end": 2.0, "prompt_to_repeat": "word"}]
    assert (row["key"], row["question"], row["answer"]) == (12, "P", "")
    check_row(row)
    assert grade(row, Answer("WOR")).value == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"question": ""},
        {"key": "7"},
        {"instruction_id_list": []},
        {"instruction_id_list": ["punctuation:no_comma"]},
        {"kwargs": [{}, {"num_bullets": "two"}]},
        {"kwargs": [{}, {}]},
        {"kwargs": [{}, None]},
        {"kwargs": {}},
    ],
)
def test_rows_that_are_refused(change: dict[str, object]) -> None:
    check_row(NO_COMMA_TWO_BULLETS)
    with pytest.raises(RowError):
        check_row(NO_COMMA_TWO_BULLETS | change)


def test_rules_of_a_newer_set_are_let_through() -> None:
    check_row(NO_COMMA_TWO_BULLETS | {"instruction_id_list": ["punctuation:no_comma", "new:rule"]})
