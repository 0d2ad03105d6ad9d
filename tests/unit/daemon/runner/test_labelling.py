"""What a writer is asked about the rows that it labels, how often, and what becomes of its replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.recipes.asked_problems import why_no_rows
from rwkv_daemon.runner.labelling import Labelling, open_labelling
from rwkv_daemon.runner.work_left import SampleUnit, open_work
from rwkv_daemon.runner.writer_work import Ended, asked_of
from rwkv_daemon.workers.run_directory import JobSpec, SampleRecord, StageRecord
from rwkv_data.definition import registry
from rwkv_data.definition.errors import DataError, RowsDamagedError, SettingError
from rwkv_data.writers.difficulty import RULE
from rwkvctl.protocol.engine import GenerateItem

ROWS = [{"question": f"{number}+1=", "answer": str(number + 1)} for number in range(4)]
KIND = registry.load("gsm8k_train").kinds["free_response.chat"]
UNIT = SampleUnit(2, 0)


def opened(label: str = RULE.label, rows: list[dict[str, Any]] = ROWS) -> Labelling:
    spec = JobSpec(
        job=9, attempt=1, earlier=(), model="writer", benchmark="gsm8k_train", kind=KIND.name,
        settings={}, seed=0, limit=None, repeats=1, data_dir="", rows_sha256="", generation_key="", grade_key="",
        api="chat", labelling=label,
    )  # fmt: skip
    return open_labelling(spec, label, KIND, rows)


def reply(text: str, stop: str = "stop_token", row: int = UNIT.row) -> StageRecord:
    return StageRecord(row=row, repeat=0, stage=0, text=text, stop=stop, generated=9)


def ended(found: Labelling, text: str, unit: SampleUnit = UNIT) -> SampleRecord:
    """The sample that one reply makes of a row."""
    found.item(unit, "name")
    return only(found.read(unit, reply(text, row=unit.row)))


def only(ended: Ended | None) -> SampleRecord:
    """The one sample that has ended."""
    assert ended is not None
    ((_, sample),) = ended
    assert isinstance(sample, SampleRecord)
    return sample


def asked(found: Labelling, *stops: str, text: str = "no level") -> list[GenerateItem]:
    """The requests before, between and after unreadable replies that end so."""
    items = [found.item(UNIT, "9.1.2.0.0.0")]
    for stop in stops:
        assert found.read(UNIT, reply(text, stop)) is None
        items.append(found.item(UNIT, "9.1.2.0.0.0"))
    return items


def test_a_request_is_the_rule_s_about_the_problem_with_its_schema() -> None:
    found = opened()
    (item,) = asked(found)
    assert found.prompt(UNIT) == asked_of(KIND, ROWS[2])
    asks = list(RULE.ask(asked_of(KIND, ROWS[2])))
    assert [{"role": turn.role, "content": turn.content} for turn in item.messages] == asks
    assert json.loads(item.schema) == RULE.schema
    assert (item.n, len(item.keys), item.group) == (1, 1, "j9")
    assert (item.text, item.ids) == (None, None)
    assert item.sampling.max_tokens == RULE.room


def test_the_first_try_is_at_temperature_0_and_later_ones_are_not_and_have_other_seeds() -> None:
    items = asked(opened(), *["stop_token"] * (RULE.attempts - 1))
    assert [item.sampling.temperature > 0 for item in items] == [False, *[True] * (RULE.attempts - 1)]
    assert items[0].sampling.temperature == 0
    for distinct in ({item.keys for item in items}, {item.id for item in items}):
        assert len(distinct) == RULE.attempts
    for same in ({item.messages for item in items}, {item.schema for item in items}):
        assert len(same) == 1


def test_a_try_that_gets_no_reply_is_sent_again_as_it_was() -> None:
    found = opened()
    assert asked(found) == asked(found)


def test_a_reply_that_was_cut_off_is_asked_for_again_with_twice_the_room() -> None:
    rooms = [item.sampling.max_tokens for item in asked(opened(), "length", "stop_token")]
    assert rooms == [RULE.room, 2 * RULE.room, RULE.room]
    rooms = [item.sampling.max_tokens for item in asked(opened(), "stop_token", "length")]
    assert rooms == [RULE.room, RULE.room, 2 * RULE.room]


def test_equal_problems_are_one_question() -> None:
    found = opened(rows=[{"question": "1+1="}, {"question": "1+1="}, {"question": "2+1="}])
    first, second, third = (found.item(SampleUnit(row, 0), "name") for row in range(3))
    assert first == second
    assert (first.keys, first.sampling) == (third.keys, third.sampling)
    assert first.messages != third.messages


@pytest.mark.parametrize("text", ["", "It is a 4.", "[[4]] or perhaps [[5]]", '{"level": 11}', "<think>[[4]]"])
def test_a_row_has_no_label_when_all_tries_gave_unreadable_replies(text: str) -> None:
    found = opened()
    asked(found, *["stop_token"] * (RULE.attempts - 1), text=text)
    sample = only(found.read(UNIT, reply(text)))
    assert (sample.row, sample.repeat) == (UNIT.row, UNIT.repeat)
    assert (sample.value, sample.reason, sample.extracted) == (None, "form", None)
    assert sample.detail.endswith(".")


def test_a_row_that_has_ended_is_asked_like_a_new_one() -> None:
    found = opened()
    (first,) = asked(found)
    for _ in range(RULE.attempts):
        found.item(UNIT, "9.1.2.0.0.0")
        ended_so = found.read(UNIT, reply("no level", "length"))
    assert ended_so is not None
    assert asked(found) == [first]
    assert ended(found, "[[4]]").reason == "labelled"
    assert asked(found) == [first]


@pytest.mark.parametrize(
    ("text", "label"),
    [('{"level": 4.5}', "4.5"), ('{"level": 7.0}', "7"), ("[[10]]", "10"), ("[8.25]", "8.25"), ("[[1.004]]", "1")],
)
def test_a_readable_reply_ends_a_row_with_its_level_as_text(text: str, label: str) -> None:
    sample = ended(opened(), text)
    assert (sample.row, sample.repeat) == (UNIT.row, UNIT.repeat)
    assert (sample.value, sample.reason, sample.extracted, sample.detail) == (None, "labelled", label, "")


@given(st.integers(100, 1000).map(lambda hundredths: hundredths / 100))
def test_the_text_of_a_level_is_that_number(level: float) -> None:
    label = ended(opened(), json.dumps({"level": level})).extracted
    assert label is not None
    assert float(label) == level
    assert label.isdigit() == level.is_integer()


@pytest.mark.parametrize("before", range(RULE.attempts))
def test_every_try_may_give_the_label(before: int) -> None:
    found = opened()
    asked(found, *["length"] * before)
    sample = only(found.read(UNIT, reply("[[4]]", "length")))
    assert (sample.reason, sample.extracted) == ("labelled", "4")


def test_rows_have_their_tries_each() -> None:
    found, other = opened(), SampleUnit(3, 0)
    asked(found, *["length"] * (RULE.attempts - 1))
    item = found.item(other, "name")
    assert (item.sampling.temperature, item.sampling.max_tokens) == (0, RULE.room)
    assert found.read(other, reply("no level", row=other.row)) is None
    assert found.read(UNIT, reply("no level")) is not None
    assert found.item(other, "name").sampling.temperature > 0


def test_every_row_is_asked_about_and_nothing_is_graded() -> None:
    found, work = opened(), open_work(4, 1, 1, [])
    assert list(found.left_out(work)) == []
    assert [unit.row for unit in work.pending] == [0, 1, 2, 3]
    assert found.before_asking(UNIT) is None
    assert found.is_graded is False


@pytest.mark.parametrize("label", ["difficulty/0", "difficulty/2", "difficulty/01", "difficulty/1/1", "difficulty"])
def test_another_version_of_the_rule_is_refused(label: str) -> None:
    with pytest.raises(RowsDamagedError, match="the rule difficulty has version 1 now") as caught:
        opened(label)
    assert isinstance(caught.value, DataError)


@pytest.mark.parametrize("label", ["nonsense/1", "nonsense", "", "/1", "Difficulty/1", "thought-solution/1"])
def test_a_rule_that_there_is_not_is_refused(label: str) -> None:
    with pytest.raises(SettingError, match="there are: difficulty") as caught:
        opened(label)
    assert isinstance(caught.value, DataError)


def test_the_rule_is_opened_by_its_name_and_version() -> None:
    assert opened("difficulty/1").rule is RULE


@pytest.mark.parametrize("name", ["flores200", "wmt24pp", "numina_math", "taco_train"])
def test_what_is_shown_of_a_row_is_what_a_model_is_asked_and_never_its_answer(name: str) -> None:
    benchmark = registry.load(name)
    kind = next(kind for kind in benchmark.kinds.values() if not why_no_rows("", kind))
    row = next(example.row for example in benchmark.examples if len(str(example.row.get("answer", ""))) > 8)
    shown = asked_of(kind, row)
    assert shown == "\n\n".join(turn.content for turn in kind.turns(row))
    assert str(row["answer"]) not in shown
