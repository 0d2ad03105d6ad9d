"""What a splitting asks about the shortest right completions of a job, in which order, and what it makes of them."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.runner.splitting import SplitCompletion, Splitting, open_splitting
from rwkv_daemon.runner.work_left import SampleUnit, open_work
from rwkv_daemon.runner.writer_work import Ended, PartToGrade
from rwkv_daemon.workers.run_directory import JobSpec, Record, RewritingSource, SampleRecord, StageRecord
from rwkv_data.benchmarks.demo_arith import BENCHMARK
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.recipes.selection.preference_pair import WHY_NO_PAIR
from rwkv_data.recipes.selection.thought_variants import VARIANT_RULES
from rwkv_data.writers.split_thoughts import MARK, RULE, parts
from rwkv_data.writers.thought_form import normal_form
from rwkvctl.protocol.engine import GenerateItem

KIND = BENCHMARK.default_kind
ROWS = [{"question": f"{number}+1=", "answer": str(number + 1)} for number in range(4)]
THOUGHTS = ("One and two is 4.", "No, I count again: it is 3.", "Or by hand, naïve: 2.", "Once more, one by one: 3.")
SOLUTION = "It is \\boxed{3}."
WHOLE = normal_form("\n\n".join(THOUGHTS), SOLUTION)
TAGGED = f"<think>\n{'  '.join(THOUGHTS)}\n</think>\n{SOLUTION}"
MARKED = f"\n{MARK}\n".join(THOUGHTS)
TOKENS = 101
NAME = "9.1.2.0.0"


def completion(row: int, repeat: int = 0, text: str = WHOLE, **more: Any) -> StageRecord:
    return StageRecord(row=row, repeat=repeat, stage=0, text=text, stop="stop_token", generated=TOKENS, **more)


def reply(unit: SampleUnit, text: str, stop: str = "stop_token") -> StageRecord:
    """What the writer says, as the job writes it down."""
    return StageRecord(
        row=unit.row, repeat=unit.repeat, stage=0, text=text, stop=stop, prompt="asked", prompt_tokens=100,
        generated=70, engine="endpoint:writer", seconds=1.5,
    )  # fmt: skip


def write(path: Path, *records: Record) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))


def opened(folder: Path, *places: tuple[int, int], rule: str = RULE.label) -> Splitting:
    source = RewritingSource(rule=rule, name="j7", folder=str(folder), attempts=(1, 2), right=places or ((0, 0),))
    spec = JobSpec(
        job=9, attempt=1, earlier=(), model="writer", benchmark="demo_arith", kind=KIND.name, settings={}, seed=0,
        limit=None, repeats=3, data_dir="", rows_sha256="", generation_key="", grade_key="", api="chat",
        rewriting=source,
    )  # fmt: skip
    return open_splitting(spec, source, KIND, ROWS)


def with_original(folder: Path, text: str = WHOLE) -> Splitting:
    """A splitting of one row whose shortest right completion has this text."""
    write(folder / "samples-1.jsonl", completion(0, text=text))
    return opened(folder)


def lead_of(found: Splitting, *records: Record, row: int = 0) -> SampleUnit:
    """The unit of a row that goes through the questions, after what is recorded already."""
    work = open_work(len(ROWS), 3, 1, records)
    list(found.left_out(work))
    return next(unit for unit in work.pending if unit.row == row)


Grading = Callable[[str], SampleRecord]
Writing = Callable[[GenerateItem], str]


def graded(value: float | None, reason: str, route: str = "minerva") -> SampleRecord:
    return SampleRecord(row=0, repeat=0, value=value, reason=reason, route=route)


def grading(*verdicts: float | None) -> Grading:
    """A grader of THOUGHTS: each is right, wrong, or (None) without an answer."""
    reasons = {1.0: "right", 0.0: "wrong", None: "no_answer"}
    of = dict(zip(THOUGHTS, verdicts, strict=False))
    return lambda text: graded(of[text] or 0.0, reasons[of[text]])


def writing(*verdicts: bool, split: str = MARKED) -> Writing:
    """A writer that marks the thoughts, and then says of each thought whether it agrees."""

    def answer(item: GenerateItem) -> str:
        if ".split." in item.id:
            return split
        return str(verdicts[int(item.id.rpartition("-")[2].partition(".")[0])])

    return answer


def driven(found: Splitting, unit: SampleUnit, grader: Grading, writer: Writing) -> tuple[Ended, list[str]]:
    """What a row ends with, and what happened before: thoughts that were graded, and ids of requests."""
    events: list[str] = []
    while len(events) < 100:
        step = found.before_asking(unit)
        if isinstance(step, PartToGrade):
            assert step.unit is unit
            events.append(step.text)
            step.take(grader(step.text))
            continue
        if step is not None:
            return step, events
        item = found.item(unit, NAME)
        events.append(item.id.removeprefix(f"{NAME}."))
        if (ended := found.read(unit, reply(unit, writer(item)))) is not None:
            return ended, events
    raise AssertionError("it does not end")


def by_rule(ended: Ended) -> dict[str, StageRecord | SampleRecord]:
    assert [record.repeat for _, record in ended] == [unit.repeat for unit, _ in ended]
    return {VARIANT_RULES[record.repeat]: record for _, record in ended}


def texts(ended: Ended) -> dict[str, str]:
    return {name: record.text for name, record in by_rule(ended).items() if isinstance(record, StageRecord)}


def variant(thoughts: int) -> str:
    return normal_form("\n\n".join(THOUGHTS[:thoughts]), SOLUTION)


# which rows are split


def test_one_unit_of_a_row_leads_and_the_others_end_with_it(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0, 4), completion(3, 1, "another"))
    write(tmp_path / "samples-2.jsonl", completion(2, 7))
    found, work = opened(tmp_path, (0, 4), (2, 7)), open_work(4, 3, 1, [])
    assert found.is_graded
    dropped = list(found.left_out(work))
    why = "j7 has no two right samples of different lengths"
    assert dropped == [
        SampleRecord(row=row, repeat=repeat, value=None, reason="dropped", detail=why)
        for row in (1, 3)
        for repeat in range(3)
    ]
    assert [(unit.row, unit.repeat) for unit in work.pending] == [(0, 0), (2, 0)]
    assert [[(each.row, each.repeat) for each in unit.beside] for unit in work.pending] == [
        [(0, 1), (0, 2)], [(2, 1), (2, 2)],
    ]  # fmt: skip
    assert work.left == 12  # who writes the records counts them


def test_where_some_of_a_row_are_done_the_first_that_waits_leads(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", *(completion(row) for row in range(4)))
    found = opened(tmp_path, *((row, 0) for row in range(4)))
    done = [completion(0), graded(1.0, "right"), completion(1), completion(2), completion(2, 1)]
    work = open_work(4, 3, 1, done)
    assert list(found.left_out(work)) == []
    assert [(unit.row, unit.repeat, [each.repeat for each in unit.beside]) for unit in work.pending] == [
        (0, 1, [2]), (1, 1, [2]), (2, 2, []), (3, 0, [1, 2]),
    ]  # fmt: skip
    assert [(unit.row, unit.repeat) for unit in work.ungraded] == [(1, 0), (2, 0), (2, 1)]


def test_a_completion_is_read_at_its_place_whichever_repeat_it_was(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0, 0, TAGGED), completion(0, 5, WHOLE), graded(1.0, "right"))
    found = opened(tmp_path, (0, 5))
    ended, _ = driven(found, lead_of(found), grading(1.0, 1.0), writing())
    assert texts(ended)["fcs"] == variant(1)


@pytest.mark.parametrize("rule", ["split-thoughts/0", "split-thoughts/2", "thought-solution/1"])
def test_a_rule_that_this_version_does_not_have_is_refused(tmp_path: Path, rule: str) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0))
    with pytest.raises(RowsDamagedError, match="has version 1 now"):
        opened(tmp_path, (0, 0), rule=rule)


def test_completions_that_are_gone_are_said_to_be_so(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0))
    with pytest.raises(RowsDamagedError, match="1 completions of j7 are not in"):
        opened(tmp_path, (0, 0), (1, 0))
    found = opened(tmp_path, (0, 0))
    lead = lead_of(found)
    (tmp_path / "samples-1.jsonl").unlink()
    with pytest.raises(RowsDamagedError, match="cannot be read"):
        found.before_asking(lead)


@pytest.mark.parametrize(
    "text", ["", "It is 3.", f"{MARKED} {SOLUTION}", normal_form(MARKED, SOLUTION), f"{WHOLE} So."]
)
def test_a_completion_without_the_form_ends_its_row_without_a_call(tmp_path: Path, text: str) -> None:
    found = with_original(tmp_path, text)
    lead = lead_of(found)
    ended = found.before_asking(lead)
    assert isinstance(ended, list)
    assert [unit for unit, _ in ended] == [lead, *lead.beside]
    assert [(record.row, record.repeat, record.value, record.reason) for _, record in ended] == [
        (0, repeat, None, "form") for repeat in range(3)
    ]
    assert all(record.detail for _, record in ended)


# the whole way


def test_a_completion_becomes_its_variants(tmp_path: Path) -> None:
    for text, blank in ((WHOLE, "\n\n"), (TAGGED, "  ")):
        found = with_original(tmp_path, text)
        lead = lead_of(found)
        ended, events = driven(found, lead, grading(0.0, 1.0, 0.0, 1.0), writing())
        assert events == ["split.0", *THOUGHTS]
        assert [unit for unit, _ in ended] == [lead, *lead.beside]
        assert list(texts(ended).values()) == [
            text.replace(blank.join(THOUGHTS), blank.join(THOUGHTS[:kept])) for kept in (2, 3, 4)
        ]
        for repeat, (_, record) in enumerate(ended):
            assert isinstance(record, StageRecord)
            assert (record.row, record.repeat, record.stage, record.stop) == (0, repeat, 0, "stop_token")
            assert (record.engine, record.prompt, record.ids) == ("endpoint:writer", None, ())
            assert record.prompt_tokens == (0 if repeat else 100)
            assert 0 < record.generated <= TOKENS
        assert not found.begun


def test_the_tokens_of_a_variant_are_its_share_and_all_thoughts_have_those_of_the_original(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    ended, _ = driven(found, lead_of(found), grading(1.0, 0.0, 0.0, 1.0), writing())
    tokens = [record.generated for _, record in ended if isinstance(record, StageRecord)]
    shares = [len(text.encode()) / len(WHOLE.encode()) for text in texts(ended).values()]
    assert tokens == [int(TOKENS * share) for share in shares[:2]] + [TOKENS]
    assert tokens == sorted(set(tokens))


def test_a_thought_is_graded_as_an_answer_that_ended_by_itself(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    lead = lead_of(found)
    assert found.before_asking(lead) is None
    found.item(lead, NAME)
    assert found.read(lead, reply(lead, MARKED)) is None
    part = found.before_asking(lead)
    assert isinstance(part, PartToGrade)
    shown = part.as_sample
    assert (shown.row, shown.repeat) == (0, 0)
    assert [(stage.stage, stage.text, stage.stop) for stage in shown.stages] == [(0, THOUGHTS[0], "stop_token")]
    assert not lead.stages  # the unit itself has no completion yet


def test_the_writer_is_asked_about_thoughts_in_which_the_grader_finds_no_answer(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    lead, asked = lead_of(found), list[GenerateItem]()
    writer = writing(False, True, False, True)

    def answer(item: GenerateItem) -> str:
        asked.append(item)
        return writer(item)

    ended, events = driven(found, lead, grading(None, 0.0, None, None), answer)
    assert events == [
        "split.0", THOUGHTS[0], "thought-0.0", THOUGHTS[1], THOUGHTS[2], "thought-2.0", THOUGHTS[3], "thought-3.0",
    ]  # fmt: skip
    assert texts(ended) == {"fcs": variant(4), "fcs+1": variant(4)}
    first, *verdicts = asked
    assert [turn.role for turn in first.messages] == ["system", "user"]
    assert ROWS[0]["question"] in first.messages[1].content
    assert "\n\n".join(THOUGHTS) in first.messages[1].content
    assert SOLUTION not in first.messages[1].content
    for item, thought in zip(verdicts, (THOUGHTS[0], THOUGHTS[2], THOUGHTS[3]), strict=True):
        content = item.messages[1].content
        assert [other in content for other in THOUGHTS] == [other == thought for other in THOUGHTS]
        assert SOLUTION in content
        assert ROWS[0]["question"] in content
    assert by_rule(ended)["fcs"].prompt_tokens == 400  # of all four questions


@pytest.mark.parametrize(
    ("grade", "verdict"),
    [
        (graded(1.0, "right"), True),
        (graded(0.0, "wrong"), False),
        (graded(0.9, "partly"), False),
        (graded(0.0, "timeout"), False),
        (graded(1.0, "right", "sentence"), True),
        (graded(0.0, "wrong", "minerva, rounded"), False),
        (graded(0.0, "wrong", "boxed"), None),
        (graded(0.0, "wrong", "sentence"), None),
        (graded(1.0, "right", "last-fence"), True),
        (graded(1.0, "right", "last-number"), None),  # any number of a thought may be its last
        (graded(1.0, "right", "last-number, rounded"), None),
        (graded(0.0, "wrong", ""), None),
        (graded(1.0, "right", "all"), None),
        (graded(0.0, "no_answer"), None),
        (graded(None, "no_answer"), None),
        (graded(None, "error"), None),
        (graded(None, "unjudged"), None),
    ],
)
def test_the_grader_s_verdict_counts_and_without_one_the_writer_s(
    tmp_path: Path, grade: SampleRecord, verdict: bool | None
) -> None:
    for said in (True, False):
        found = with_original(tmp_path)
        ended, events = driven(found, lead_of(found), lambda _: grade, writing(*4 * [said]))
        right = said if verdict is None else verdict
        assert any(event.startswith("thought-") for event in events) == (verdict is None)
        kept = {"fcs": variant(1), "fcs+1": variant(2), "fcs+reflection": variant(2)}
        assert texts(ended) == (kept if right else {})


@pytest.mark.parametrize(
    ("verdicts", "kept", "why"),
    [
        ((0.0, 0.0, 0.0, 0.0), {}, "none-true"),
        ((0.0, 0.0, 0.0, 1.0), {"fcs": 4, "fcs+1": 4}, "one-true"),
        ((1.0, 0.0, 0.0, 0.0), {"fcs": 1, "fcs+1": 2}, "one-true"),
    ],
)
def test_a_variant_that_there_is_not_is_dropped_with_the_reason(
    tmp_path: Path, verdicts: tuple[float, ...], kept: dict[str, int], why: Any
) -> None:
    found = with_original(tmp_path)
    ended, events = driven(found, lead_of(found), grading(*verdicts), writing())
    assert events == ["split.0", *THOUGHTS]
    assert texts(ended) == {name: variant(thoughts) for name, thoughts in kept.items()}
    missing = [record for _, record in ended if isinstance(record, SampleRecord)]
    said = ", ".join("right" if verdict else "wrong" for verdict in verdicts)
    detail = f"{WHY_NO_PAIR[why]}; its thoughts: {said}"
    assert missing == [
        SampleRecord(row=0, repeat=at, value=None, reason="dropped", detail=detail, route=why)
        for at in range(len(kept), 3)
    ]


def test_a_missing_variant_says_which_verdicts_were_the_writer_s(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    ended, _ = driven(found, lead_of(found), grading(0.0, None, None, 0.0), writing(False, False, True, False))
    said = "its thoughts: wrong, wrong (writer), right (writer), wrong"
    assert by_rule(ended)["fcs+reflection"].detail == f"{WHY_NO_PAIR['one-true']}; {said}"


def test_a_completion_of_one_thought_has_one_variant_at_most(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    whole = "\n\n".join(THOUGHTS)
    ended, events = driven(found, lead_of(found), lambda _: graded(1.0, "right"), writing(split=whole))
    assert events == ["split.0", whole]
    assert texts(ended) == {"fcs": WHOLE, "fcs+1": WHOLE}
    assert [record.generated for _, record in ended[:2]] == [TOKENS, TOKENS]


@pytest.mark.parametrize(
    ("verdicts", "looked_at"), [((1.0, 1.0), 2), ((0.0, 1.0, 1.0), 3), ((1.0, 0.0, 1.0), 3), ((1.0, None), 2)]
)
def test_nothing_is_asked_behind_the_second_right_thought(
    tmp_path: Path, verdicts: tuple[float | None, ...], looked_at: int
) -> None:
    found = with_original(tmp_path)
    ended, events = driven(found, lead_of(found), grading(*verdicts), writing(True, True, True))
    assert [event for event in events if event in THOUGHTS] == list(THOUGHTS[:looked_at])
    assert texts(ended)["fcs+reflection"] == variant(looked_at)


def test_whoever_gives_the_verdicts_the_variants_are_those_of_the_right_thoughts(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0))
    ways = ("right", "wrong", "no_answer", "error", "said-right")
    for drawn in product(ways, repeat=len(THOUGHTS)):
        right = [at for at, way in enumerate(drawn) if way in {"right", "said-right"}]
        of = dict(zip(THOUGHTS, drawn, strict=True))

        def grade(text: str, of: dict[str, str] = of) -> SampleRecord:
            way = of[text].replace("said-right", "no_answer")
            return graded({"right": 1.0, "wrong": 0.0, "no_answer": 0.0}.get(way), way)

        found = opened(tmp_path)
        ended, events = driven(found, lead_of(found), grade, writing(*(way == "said-right" for way in drawn)))
        expected = {}
        if right:
            expected = {"fcs": variant(right[0] + 1), "fcs+1": variant(right[0] + 2)}
        if len(right) > 1:
            expected["fcs+reflection"] = variant(right[1] + 1)
        assert texts(ended) == expected
        looked_at = right[1] + 1 if len(right) > 1 else len(THOUGHTS)
        asked = [at for at, way in enumerate(drawn[:looked_at]) if way not in {"right", "wrong"}]
        assert [event for event in events if event not in THOUGHTS] == ["split.0", *(f"thought-{at}.0" for at in asked)]
        assert ended[0][1].repeat == 0
        assert not right or ended[0][1].prompt_tokens == 100 * (1 + len(asked))
        assert all(record.prompt_tokens == 0 for _, record in ended[1:] if isinstance(record, StageRecord))


PROSE = st.text(st.characters(exclude_characters="<`\\"), min_size=1, max_size=30).filter(str.strip)


SHAPES = st.sampled_from([normal_form("{0}", "{1}"), "<think>\n{0}\n</think>\n\n{1}\n", "{0}</think>{1}"])


@given(st.lists(PROSE, min_size=1, max_size=6), st.integers(1, 10_000), SHAPES)
def test_a_variant_has_the_form_and_never_more_tokens_than_the_original(
    thoughts: list[str], tokens: int, shape: str
) -> None:
    reasoning = " ".join(["word", *thoughts]).strip()
    ends = RULE.read(reasoning, MARK.join(["word", *thoughts]))
    text = shape.format(reasoning, SOLUTION)
    whole = SplitCompletion(parts(text), tokens, ends, [None] * len(ends))
    variants = [whole.parts.shortened(end) for end in ends]
    assert variants[-1] == text
    assert [whole.thought(at) for at in range(len(ends))] == ["word", *(thought.strip() for thought in thoughts)]
    for text, end in zip(variants, ends, strict=True):
        assert (parts(text).reasoning, parts(text).solution) == (reasoning[:end], SOLUTION)
    of_each = [whole.tokens_of(text) for text in variants]
    assert of_each == sorted(of_each)
    assert of_each[0] >= 1
    assert of_each[-1] == tokens


# what cannot be read


def failing(found: Splitting, unit: SampleUnit, *said: str, stop: str = "stop_token") -> Iterator[Ended | None]:
    for text in said:
        assert found.before_asking(unit) is None
        found.item(unit, NAME)
        yield found.read(unit, reply(unit, text, stop))


@pytest.mark.parametrize(
    ("said", "why"), [("", "form"), ("I will not.", "unfaithful"), (MARKED.replace("3", "4"), "unfaithful")]
)
def test_three_replies_that_are_not_the_reasoning_end_the_row(tmp_path: Path, said: str, why: str) -> None:
    found = with_original(tmp_path)
    lead = lead_of(found)
    first, second, ended = failing(found, lead, said, said, said)
    assert (first, second) == (None, None)
    assert ended is not None
    assert [unit for unit, _ in ended] == [lead, *lead.beside]
    assert [(record.row, record.repeat, record.value, record.reason) for _, record in ended] == [
        (0, repeat, None, why) for repeat in range(3)
    ]
    assert all(record.detail.endswith(".") for _, record in ended)
    assert not found.begun


def test_three_verdicts_that_are_none_end_the_row_though_a_thought_was_right(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    ended, events = driven(
        found, lead_of(found), grading(1.0, None), lambda item: MARKED if ".split." in item.id else "Perhaps."
    )
    assert events == ["split.0", *THOUGHTS[:2], "thought-1.0", "thought-1.1", "thought-1.2"]
    assert [(record.repeat, record.reason) for _, record in ended] == [(0, "form"), (1, "form"), (2, "form")]


def test_each_question_has_three_replies_of_its_own(tmp_path: Path) -> None:
    """Two that cannot be read of every question, and the third can."""
    found = with_original(tmp_path)
    writer = writing(False, True, False, True)
    ended, events = driven(
        found,
        lead_of(found),
        lambda _: graded(None, "error"),
        lambda item: writer(item) if item.id.endswith(".2") else "Hm.",
    )
    assert [event for event in events if event not in THOUGHTS] == [
        f"{question}.{number}"
        for question in ("split", "thought-0", "thought-1", "thought-2", "thought-3")
        for number in range(3)
    ]
    assert texts(ended) == {"fcs": variant(2), "fcs+1": variant(3), "fcs+reflection": variant(4)}
    assert by_rule(ended)["fcs"].prompt_tokens == 1500


def test_a_reply_that_was_cut_off_is_asked_for_with_double_room(tmp_path: Path) -> None:
    found = with_original(tmp_path)
    lead = lead_of(found)
    assert found.before_asking(lead) is None

    def room() -> int:
        return found.item(lead, NAME).sampling.max_tokens

    once = RULE.room("\n\n".join(THOUGHTS))
    assert room() == once
    assert found.read(lead, reply(lead, MARKED[:30], stop="length")) is None
    assert room() == 2 * once
    assert found.read(lead, reply(lead, "none")) is None
    assert room() == once
    assert found.read(lead, reply(lead, MARKED, stop="length")) is None  # cut off behind the reasoning
    part = found.before_asking(lead)
    assert isinstance(part, PartToGrade)
    part.take(graded(None, "error"))
    assert found.before_asking(lead) is None
    assert room() == RULE.verdict_room
    assert found.read(lead, reply(lead, "<think>Let me", stop="length")) is None
    assert found.before_asking(lead) is None
    assert room() == 2 * RULE.verdict_room
    assert found.read(lead, reply(lead, "True", stop="length")) is None
    part = found.before_asking(lead)
    assert isinstance(part, PartToGrade)
    assert part.text == THOUGHTS[1]


# requests


def requests(found: Splitting, unit: SampleUnit, name: str) -> list[GenerateItem]:
    """All requests of a row whose verdicts are the writer's, with one unreadable reply of each."""
    items: list[GenerateItem] = []
    writer = writing(False, True, False, True)
    while not isinstance(step := found.before_asking(unit), list):
        if isinstance(step, PartToGrade):
            step.take(graded(None, "error"))
            continue
        items.append(found.item(unit, name))
        again = items[-1].id.endswith(".1")
        assert found.read(unit, reply(unit, writer(items[-1]) if again else "Hm.")) is None
    return items


def test_requests_of_a_row_have_ids_of_their_own_and_keys_by_the_attempt_alone(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0), completion(1))
    found = opened(tmp_path, (0, 0), (1, 0))
    first = requests(found, lead_of(found), "9.1.0.0.0")
    second = requests(found, lead_of(found, row=1), "9.1.1.0.0")
    every = [*first, *second]
    assert len(first) == len(second) == 10
    assert len({item.id for item in every}) == len(every)
    assert len({item.messages for item in every}) == 10  # each is asked twice
    assert {len(item.keys) for item in every} == {1}
    assert {(item.id[-2:], item.keys, item.sampling.temperature) for item in every} == {
        (".0", first[0].keys, 0.0), (".1", first[1].keys, 0.3),
    }  # fmt: skip
    assert first[0].keys != first[1].keys
    assert {(item.group, item.n) for item in every} == {("j9", 1)}


def test_after_a_kill_the_same_is_asked_again_with_the_same_keys(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0))
    before, after = opened(tmp_path), opened(tmp_path)
    undisturbed = requests(before, lead_of(before), NAME)
    assert requests(after, lead_of(after), NAME) == undisturbed
    resumed = opened(tmp_path)
    assert requests(resumed, lead_of(resumed, completion(0)), NAME) == undisturbed


def test_the_same_thought_of_two_rows_with_one_problem_is_one_question(tmp_path: Path) -> None:
    write(tmp_path / "samples-1.jsonl", completion(0), completion(1))
    found = opened(tmp_path, (0, 0), (1, 0))
    found.rows = [ROWS[0], ROWS[0], *ROWS[2:]]
    first, second = requests(found, lead_of(found), "one"), requests(found, lead_of(found, row=1), "other")
    assert [(item.messages, item.keys, item.sampling) for item in first] == [
        (item.messages, item.keys, item.sampling) for item in second
    ]


def test_asking_for_a_request_twice_counts_no_try(tmp_path: Path) -> None:
    """An engine may die under it."""
    found = with_original(tmp_path)
    lead = lead_of(found)
    assert found.before_asking(lead) is None
    items = [found.item(lead, NAME) for _ in range(5)]
    assert all(item == items[0] for item in items)
    assert found.before_asking(lead) is None


# resuming


@pytest.mark.parametrize("verdicts", [(0.0, 1.0, 0.0, 1.0), (1.0, None, 0.0, 0.0), (0.0,) * 4, (None,) * 4])
def test_where_only_some_variants_wait_they_are_those_of_the_undisturbed_run(
    tmp_path: Path, verdicts: tuple[float | None, ...]
) -> None:
    found, writer = with_original(tmp_path), writing(True, True, False, True)
    undisturbed, asked = driven(found, lead_of(found), grading(*verdicts), writer)
    records = [record for _, record in undisturbed]
    for done in (records[:1], [graded(1.0, "right")], records[:2], [records[1]], [records[0], records[2]]):
        places = {(record.row, record.repeat) for record in done}
        again = opened(tmp_path)
        ended, asked_again = driven(again, lead_of(again, *done), grading(*verdicts), writer)
        assert [record for _, record in ended] == [one for one in records if (one.row, one.repeat) not in places]
        assert asked_again == asked
