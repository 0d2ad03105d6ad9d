"""Which rows of its parts a mix has, compared with a second way to write the rules."""

import dataclasses
import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_rows import lineage

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.cleaning.problem_text import Problem
from rwkv_data.recipes.files.training_row import TrainingRow, Turn
from rwkv_data.recipes.mixing.mix import Mix, MixPart
from rwkv_data.recipes.mixing.mixed_rows import REPEATED, MixedRows, MixReading, compared

RECIPE_SETS, ROW_IDS = ("a" * 64, "b" * 64), ("gsm8k/1", "gsm8k/2", "gsm8k/3")
DRAWN = st.tuples(
    st.sampled_from(["foreign", *itertools.product(RECIPE_SETS, ROW_IDS)]), st.sampled_from("QRS"), st.text("ab\né\0")
)
TABLES = st.one_of(
    st.just({}),
    st.builds(lambda limit: {"limit": limit}, st.integers(1, 12)),
    st.builds(lambda weight: {"weight": float(weight)}, st.integers(1, 5)),
)
PARTS = st.lists(st.tuples(TABLES, st.lists(DRAWN, max_size=9)), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**63 - 1)

Rows = Sequence[TrainingRow]


def foreign(question: str, answer: str, row_id: str = "chat/0") -> TrainingRow:
    """A row that others made: it has no samples."""
    return said(question, answer, row_id=row_id, rows_sha256="f" * 64, samples=(), writers=())


def said(question: str, answer: str, **fields: Any) -> TrainingRow:
    """A row of a recipe."""
    return TrainingRow(turns=(Turn("user", question), Turn("assistant", answer)), lineage=lineage(**fields))


def pair(question: str) -> TrainingRow:
    return TrainingRow(turns=(Turn("user", question),), chosen="good", rejected="bad", lineage=lineage())


def row_of(drawn: tuple[Any, str, str], place: str) -> TrainingRow:
    of, question, answer = drawn
    if of == "foreign":
        return foreign(question, answer, place)
    return said(question, answer, rows_sha256=of[0], row_id=of[1])


def parts_of(case: Sequence[tuple[dict[str, Any], Sequence[Any]]]) -> tuple[list[MixPart], list[list[TrainingRow]]]:
    parts = [MixPart(f"part{number}", is_recipe=False, **table) for number, (table, _) in enumerate(case)]
    rows = [
        [row_of(drawn, f"part{number}/{at}") for at, drawn in enumerate(each)] for number, (_, each) in enumerate(case)
    ]
    return parts, rows


def reading_of(parts: Sequence[MixPart], rows: Sequence[Rows], seed: int = 0) -> MixReading:
    lines = [[msgspec.json.encode(row) + b"\n" for row in each] for each in rows]
    return MixReading(Mix(tuple(parts), seed, require_checked=False), lines, lambda _: None)


def mixed(
    parts: Sequence[MixPart], rows: Sequence[Rows], seed: int = 0, dropped: dict[int, str] | None = None
) -> MixedRows:
    reading = reading_of(parts, rows, seed)
    list(reading)
    return mixed_by(reading, dropped or {})


def mixed_by(reading: MixReading, dropped: dict[int, str]) -> MixedRows:
    """What is mixed, with the rows by their parts."""
    found = reading.mixed(dropped)
    return dataclasses.replace(found, rows=[reading.placed(place) for place in found.rows])


def texts(rows: Sequence[Rows], found: MixedRows) -> list[tuple[str, ...]]:
    """What the rows of a mix say, in their order."""
    return [tuple(turn.text for turn in rows[placed.part][placed.row].turns) for placed in found.rows]


def whole(*names: str) -> list[MixPart]:
    """Parts that give all their rows."""
    return [MixPart(name, is_recipe=False) for name in names]


def naive_numbers(row: TrainingRow, seed: int) -> tuple[str, str]:
    """By what a row is drawn, and where it stands."""
    turns = [{"role": turn.role, "text": turn.text} for turn in row.turns]
    content = json.dumps([row.system, turns, row.chosen, row.rejected], ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(f"{seed}\0{content}".encode()).hexdigest()
    return digest[:16], digest[16:32]


def naive_counts(parts: Sequence[MixPart], there: Sequence[int]) -> list[int]:
    """As many rows as the parts can give by their weights: one after the other, some part is the one that ends."""
    weighted = [(part.weight, count) for part, count in zip(parts, there, strict=True) if part.weight]
    unit = min((Fraction(count) / int(weight) for weight, count in weighted), default=Fraction(0))
    found = []
    for part, count in zip(parts, there, strict=True):
        if part.weight:
            found.append(int(unit * int(part.weight)))
        elif part.limit is None or part.limit > count:
            found.append(count)
        else:
            found.append(part.limit)
    return found


def naive_problems(rows: Sequence[Rows]) -> Iterator[tuple[int, int, TrainingRow, object]]:
    """Each row that repeats no earlier one, with its part, its number, and what its problem is known by."""
    earlier = list[Any]()
    for number, each in enumerate(rows):
        for at, row in enumerate(each):
            content = row.system, row.turns, row.chosen, row.rejected
            if content not in earlier:
                of = row.lineage
                yield number, at, row, ((of.rows_sha256, of.row_id) if of.samples else (number, at))
            earlier.append(content)


def naive_mix(parts: Sequence[MixPart], rows: Sequence[Rows], seed: int, dropped: set[object]) -> list[tuple[int, int]]:
    stay = [found for found in naive_problems(rows) if found[3] not in dropped]
    counts = naive_counts(parts, [sum(found[0] == number for found in stay) for number in range(len(parts))])
    taken = []
    for number, count in enumerate(counts):
        own = [found for found in stay if found[0] == number]
        taken += sorted(own, key=lambda found: naive_numbers(found[2], seed)[0])[:count]
    ordered = sorted(taken, key=lambda found: naive_numbers(found[2], seed)[1])
    return [(number, at) for number, at, _, _ in ordered]


@given(PARTS, SEEDS, st.sets(st.integers(0, 20)))
def test_the_rules_written_again_give_the_same_rows(case: Any, seed: int, numbers: set[int]) -> None:
    parts, rows = parts_of(case)
    problems = list(dict.fromkeys(key for _, _, _, key in naive_problems(rows)))
    reading = reading_of(parts, rows, seed)
    assert len(list(reading)) == len(problems) == len(reading.names)
    dropped = {number: "near gsm8k" for number in numbers if number < len(problems)}
    found = mixed_by(reading, dropped)
    assert found.rows == naive_mix(parts, rows, seed, {problems[number] for number in dropped})


@given(PARTS, SEEDS, st.dictionaries(st.integers(0, 20), st.sampled_from(["near gsm8k", "duplicates"])))
def test_what_the_stages_count_adds_up(case: Any, seed: int, dropped: dict[int, str]) -> None:
    parts, rows = parts_of(case)
    found = mixed(parts, rows, seed, dropped)
    clean, mix = found.funnel
    assert [(one.name, one.unit) for one in found.funnel] == [("clean", "rows"), ("mix", "rows")]
    assert clean.rows_in == sum(map(len, rows))
    assert clean.rows_out == mix.rows_in
    assert mix.rows_out == len(found.rows) == sum(found.taken)
    for one in found.funnel:
        assert one.rows_in - sum(one.dropped.values()) == one.rows_out
        assert all(count > 0 for count in one.dropped.values())
    assert set(clean.dropped) <= {REPEATED, *dropped.values()}
    assert set(mix.dropped) <= {f"more of {part.name}" for part in parts}
    assert found.taken == [sum(one.part == number for one in found.rows) for number in range(len(parts))]


@given(PARTS, SEEDS)
def test_no_row_is_there_twice_and_the_same_parts_give_the_same_rows(case: Any, seed: int) -> None:
    parts, rows = parts_of(case)
    found = mixed(parts, rows, seed)
    assert len(set(found.rows)) == len(set(texts(rows, found))) == len(found.rows)
    assert mixed(parts, rows, seed) == found


@given(PARTS, SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_the_parts_changes_nothing_while_no_rows_repeat(
    case: Any, seed: int, drawn: random.Random
) -> None:
    case = [
        (table, [(of, question, f"{answer}{number}.{at}") for at, (of, question, answer) in enumerate(each)])
        for number, (table, each) in enumerate(case)
    ]
    shuffled = drawn.sample(case, len(case))
    parts, rows = parts_of(case)
    others, other_rows = parts_of(shuffled)
    assert texts(rows, mixed(parts, rows, seed)) == texts(other_rows, mixed(others, other_rows, seed))


def test_the_order_of_the_rows_of_a_part_changes_nothing_either() -> None:
    rows = [foreign(f"Q{number}", "A") for number in range(50)]
    part = [MixPart("chat", is_recipe=False, limit=20)]
    assert texts([rows], mixed(part, [rows])) == texts([rows[::-1]], mixed(part, [rows[::-1]]))


def test_another_seed_draws_other_rows_in_another_order() -> None:
    rows = [[foreign(f"Q{number}", "A") for number in range(50)]]
    all_of_it, some = whole("chat"), [MixPart("chat", is_recipe=False, limit=20)]
    first, second = (texts(rows, mixed(all_of_it, rows, seed)) for seed in (1, 2))
    assert first != second
    assert sorted(first) == sorted(second)
    assert set(texts(rows, mixed(some, rows, 1))) != set(texts(rows, mixed(some, rows, 2)))


def test_rows_of_several_parts_are_mixed_and_do_not_follow_each_other() -> None:
    rows = [[foreign(f"{name}{number}", "A") for number in range(100)] for name in "QR"]
    order = [placed.part for placed in mixed(whole("chat", "more"), rows).rows]
    assert sum(one != other for one, other in itertools.pairwise(order)) > 20


def test_samples_of_one_problem_are_compared_once_and_share_its_fate() -> None:
    rows = [
        [said("Q", "A1"), said("Q", "A2"), said("R", "A1", row_id="gsm8k_train/2")],
        [said("Q, rewritten", "A3"), foreign("Q", "A4")],
    ]
    reading = reading_of(whole("r1", "r2"), rows)
    assert list(reading) == [Problem("Q"), Problem("R"), Problem("Q")]
    assert reading.names == ["gsm8k_train/1", "gsm8k_train/2", "chat/0"]
    assert sorted(mixed_by(reading, {0: "near gsm8k"}).rows) == [(0, 2), (1, 1)]
    assert sorted(mixed_by(reading, {1: "near gsm8k", 2: "duplicates"}).rows) == [(0, 0), (0, 1), (1, 0)]
    assert mixed_by(reading, {0: "near gsm8k"}).funnel[0].dropped == {"near gsm8k": 3}


@pytest.mark.parametrize("fields", [{"rows_sha256": "b" * 64}, {"row_id": "gsm8k_train/2"}])
def test_a_row_of_another_set_or_with_another_id_is_another_problem(fields: dict[str, str]) -> None:
    rows = [[said("Q", "A1"), said("Q", "A2", **fields)]]
    assert len(list(reading_of(whole("r1"), rows))) == 2


def test_each_row_of_others_is_a_problem_of_its_own() -> None:
    rows = [[foreign("Q", "A1", "chat/0"), foreign("Q", "A2", "chat/1"), foreign("Q", "A3", "chat/1")]]
    reading = reading_of(whole("chat"), rows)
    assert list(reading) == [Problem("Q")] * 3
    assert mixed_by(reading, {1: "duplicates", 2: "duplicates"}).rows == [(0, 0)]


def test_a_row_that_says_the_same_again_is_kept_once_and_counted() -> None:
    rows = [[said("Q", "A"), said("Q", "A")], [foreign("Q", "A"), foreign("R", "A")]]
    reading = reading_of(whole("r1", "chat"), rows)
    assert list(reading) == [Problem("Q"), Problem("R")]
    found = mixed_by(reading, {})
    assert sorted(found.rows) == [(0, 0), (1, 1)]
    assert found.funnel[0].dropped == {REPEATED: 2}
    assert found.taken == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(foreign("Q", "A"), system="S"),
        foreign("Q", "A "),
        foreign("Q ", "A"),
        msgspec.structs.replace(foreign("Q", "A"), turns=(Turn("user", "Q"),)),
    ],
)
def test_a_row_that_differs_in_a_letter_is_no_repetition(other: TrainingRow) -> None:
    assert len(mixed(whole("chat"), [[foreign("Q", "A"), other]]).rows) == 2


def test_a_row_that_repeats_a_dropped_one_does_not_come_back() -> None:
    rows = [[foreign("Q", "A")], [foreign("Q", "A"), foreign("R", "A")]]
    assert mixed(whole("chat", "more"), rows, dropped={0: "near gsm8k"}).rows == [(1, 1)]


def test_weights_count_the_rows_that_stay() -> None:
    rows = [[foreign(f"Q{number}", "A") for number in range(10)], [foreign(f"R{number}", "A") for number in range(10)]]
    parts = [MixPart("chat", is_recipe=False, weight=1), MixPart("more", is_recipe=False, weight=2)]
    dropped = dict.fromkeys(range(10, 14), "near gsm8k")
    found = mixed(parts, rows, dropped=dropped)
    assert found.taken == [3, 6]
    assert found.funnel[1].dropped == {"more of chat": 7}
    assert mixed(parts, [rows[0], []]).taken == [0, 0]


@pytest.mark.parametrize("parts", [[[foreign("Q", "A")], [pair("Q")]], [[], [pair("Q")], [foreign("Q", "A")]]])
def test_rows_and_pairs_are_not_mixed(parts: list[list[TrainingRow]]) -> None:
    names = ["chat", "prefs", "more"][: len(parts)]
    with pytest.raises(PrepareError, match=r"\w+ and \w+ cannot be mixed: a file has rows or pairs"):
        mixed(whole(*names), parts)


def test_rows_and_pairs_of_one_part_are_not_mixed_either() -> None:
    with pytest.raises(PrepareError, match="cannot be mixed"):
        mixed(whole("chat"), [[foreign("Q", "A"), pair("Q")]])


def test_pairs_are_mixed_by_both_of_their_answers() -> None:
    other = msgspec.structs.replace(pair("Q"), rejected="worse")
    assert len(mixed(whole("prefs"), [[pair("Q"), other, pair("Q")]]).rows) == 2


@pytest.mark.parametrize(
    "line", [b"\n", b"{\n", b"[]\n", b'{"turns":[]}\n', b"\xff\n", msgspec.json.encode(foreign("Q", "A"))[:-9] + b"\n"]
)
@pytest.mark.parametrize(
    ("is_recipe", "says"), [(True, "run it again"), (False, "`rwkvctl data rows --replace` reads")]
)
def test_a_damaged_line_is_refused_with_the_name_of_its_part(line: bytes, is_recipe: bool, says: str) -> None:
    parts = (MixPart("chat", is_recipe=False), MixPart("torn", is_recipe=is_recipe))
    lines = [[msgspec.json.encode(foreign("Q", "A")) + b"\n"], [line]]
    with pytest.raises(PrepareError, match=f"a row of torn cannot be read: .*; {says}"):
        list(MixReading(Mix(parts, 0, require_checked=False), lines, lambda _: None))


def test_a_line_that_nests_too_deep_is_a_damaged_one() -> None:
    mix = Mix((MixPart("torn", is_recipe=False),), 0, require_checked=False)
    with pytest.raises(PrepareError, match="a row of torn"):
        list(MixReading(mix, [[b'{"more":' + b"[" * 100_000]], lambda _: None))


def test_it_is_said_after_every_thousand_rows_how_many_were_read() -> None:
    told = list[int]()
    lines = [msgspec.json.encode(foreign(f"Q{number}", "A")) for number in range(2500)]
    mix = Mix((MixPart("chat", is_recipe=False), MixPart("more", is_recipe=False)), 0, require_checked=False)
    list(MixReading(mix, [lines[:1500], lines[1500:]], told.append))
    assert told == [1000, 2000]


def test_what_is_compared_is_the_problem_else_what_the_user_says() -> None:
    row = foreign("Q", "A")
    turns = (*row.turns, Turn("user", "and then?"), Turn("assistant", "B"))
    longer = msgspec.structs.replace(row, turns=turns, system="S")
    assert compared(longer) == Problem("Q\nand then?")
    assert compared(msgspec.structs.replace(longer, problem=("P", "one", "", "two"))) == Problem("P", "one two")
    assert compared(pair("Q")) == Problem("Q")
