"""Settings that a dispatch may override, and the errors for those that it may not."""

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_window import Extent

GSM8K = registry.load("gsm8k").default_kind
MATH = registry.load("math_500").default_kind
SUMS = registry.load("demo_arith").default_kind
EVERY = [kind for name in registry.names() for kind in registry.load(name).kinds.values()]


def test_settings_of_two_stages_carry_their_stage() -> None:
    settings = GSM8K.settings()
    assert list(settings)[:4] == ["k", "seed", "cot.max_tokens", "cot.temperature"]
    assert (settings["k"], settings["cot.top_k"], settings["final.max_tokens"]) == (1, 500, 64)


def test_overriding_changes_one_stage_and_the_configuration() -> None:
    changed = GSM8K.with_settings({"cot.temperature": "0.5", "cot.max_tokens": "16", "seed": "7"})
    assert changed.settings() == GSM8K.settings() | {"cot.temperature": 0.5, "cot.max_tokens": 16, "seed": 7}
    assert changed.stages[1] == GSM8K.stages[1]
    assert changed.configuration() != GSM8K.configuration()
    assert changed.grading_key() == GSM8K.grading_key() == {"grader": "number-v1", "version": "3"}


def test_no_settings_change_nothing() -> None:
    assert GSM8K.with_settings({}) == GSM8K


@pytest.mark.parametrize("name", ["max_tokens", "answer.max_tokens"])
def test_a_single_stage_needs_no_prefix(name: str) -> None:
    assert SUMS.with_settings({name: "4"}).stages[0].sampling.max_tokens == 4


@pytest.mark.parametrize(
    ("k", "metrics"), [("8", ("avg@8", "pass@1")), ("1", ("avg@1", "pass@1")), ("4", ("avg@4", "pass@1"))]
)
def test_metrics_follow_k(k: str, metrics: tuple[str, ...]) -> None:
    changed = MATH.with_settings({"k": k})
    assert (changed.repeats, changed.metrics) == (int(k), metrics)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"temperature": "1"}, "no setting 'temperature' here; did you mean cot.temperature or final.temperature?"),
        ({"zzz": "x"}, "no setting 'zzz' here; it has k, seed, cot.max_tokens"),
        ({"cot.banned": "x"}, "no setting 'cot.banned'"),
        ({"judge.k": "1"}, "no setting 'judge.k'"),
        ({"cot.k": "1"}, "no setting 'cot.k'"),
        ({"k": "0"}, "k=0 is not a whole number from 1 to 4096"),
        ({"k": "four"}, "k='four' is not a whole number"),
        ({"cot.top_p": "nan"}, "cot.top_p=nan is not a number from 0 to 1"),
        ({"cot.top_p": "1.5"}, "cot.top_p=1.5 is not a number from 0 to 1"),
        ({"cot.max_tokens": "1.5"}, "cot.max_tokens='1.5' is not a whole number"),
        ({"cot.temperature": "inf"}, "cot.temperature=inf is not a number"),
    ],
)
def test_bad_settings_are_refused_with_what_would_do(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        GSM8K.with_settings(values)
    assert complaint in str(caught.value)


def test_choosing_has_no_repeats_but_may_ask_a_share_of_the_rows() -> None:
    kind = registry.load("mmlu").default_kind
    assert "seed" not in kind.settings()
    with pytest.raises(SettingError, match="nothing is sampled"):
        kind.with_settings({"k": "4"})
    fifth = kind.with_settings({"k": "0.2"})
    assert (fifth.repeats, fifth.share, fifth.rows_asked(Extent(1000))) == (1, 0.2, 200)


def test_a_share_is_always_of_the_same_rows() -> None:
    rows = [{"question": str(number)} for number in range(100)]
    fifth = SUMS.with_settings({"k": "0.2"})
    first = fifth.asked(rows)
    assert len(first) == 20
    assert first == sorted(first, key=rows.index)
    assert fifth.asked(list(reversed(rows))) == list(reversed(first))
    assert fifth.asked(rows, limit=3) == first[:3]


def test_search_and_report_parts_share_no_row_and_leave_none_out() -> None:
    rows = [{"question": str(number)} for number in range(101)]
    search, report = (SUMS.with_settings({"part": part}) for part in ("search", "report"))
    seen = [search.asked(rows), report.asked(rows)]
    assert [len(part) for part in seen] == [40, 61] == [search.rows_asked(Extent(101)), report.rows_asked(Extent(101))]
    assert sorted([*seen[0], *seen[1]], key=rows.index) == rows
    assert search.configuration() != report.configuration() != SUMS.configuration()


@pytest.mark.parametrize(
    ("rows", "attempts", "repeats", "share"),
    [(30, 5000, 4, 1.0), (1000, 3000, 3, 1.0), (5000, 5000, 1, 1.0), (10_000, 5000, 1, 0.5), (10, 0, 4, 1.0)],
)
def test_attempts_bound_rows_times_repeats(rows: int, attempts: int, repeats: int, share: float) -> None:
    kind = MATH.with_settings({"attempts": str(attempts)}).sized(Extent(rows))
    assert (kind.repeats, kind.share) == (repeats, share)
    assert kind.metrics[0] == (f"avg@{repeats}" if share == 1 else f"avg@{share:g}")


def test_a_limit_of_time_and_the_workers_change_no_key() -> None:
    changed = SUMS.with_settings({"max_runtime_s": "60", "workers": "3"})
    assert changed.configuration() == SUMS.configuration()
    assert changed.grading_key() == SUMS.grading_key()
    assert changed.max_runtime_s == 60


def test_configuration_does_not_depend_on_the_order_of_settings() -> None:
    one = GSM8K.with_settings({"k": "2", "cot.top_k": "5"})
    other = GSM8K.with_settings({"cot.top_k": "5", "k": "2"})
    assert one.configuration() == other.configuration()


@pytest.mark.parametrize(
    ("answer", "stop"),
    [
        (Answer("3", ("stop_token", "stop_token")), "stop_token"),
        (Answer("3", ("length", "stop_token")), "length"),
        (Answer("3 and on", ("stop_token", "length")), "length"),
        (Answer("3}}\\) and on", ("stop_token", "length")), "stop_suffix"),
        (Answer("3}", ("length", "length")), "length"),
        (Answer("3", ("error", "stop_token")), "error"),
        (Answer("3", ("stop_token", "stop_suffix")), "stop_suffix"),
        (Answer(), "stop_token"),
    ],
)
def test_an_answer_whose_box_was_closed_is_not_truncated(answer: Answer, stop: str) -> None:
    assert GSM8K.stop(answer) == stop


def test_an_engine_error_is_no_verdict() -> None:
    grade = GSM8K.grade({"question": "Q", "answer": "3"}, Answer("3", ("stop_token", "error")))
    assert (grade.value, grade.reason) == (None, "error")


def test_every_kind_picks_rows_and_only_what_is_picked_enters_the_key() -> None:
    for kind in EVERY:
        settings, plain = kind.settings(), kind.configuration()
        assert (settings["rows"], settings["where"]) == ("", "")
        assert not {"rows", "where"} & plain.keys()
        assert kind.with_settings({"rows": "0:", "where": " "}).configuration() == plain
        picked = kind.with_settings({"rows": ":20", "where": "b=2.0   a=1"})
        assert picked.configuration() == plain | {"rows": "0:20", "where": "a=1 b=2"}
        assert picked.grading_key() == kind.grading_key()
        assert picked.with_settings({"rows": "", "where": ""}) == kind == picked.unpicked
        assert kind.with_settings({"rows": "0:20", "where": "a=1 b=2"}) == picked, "two spellings of one filter"


def test_rows_come_first_then_where_then_the_window_then_part_and_share() -> None:
    rows = [{"question": str(number), "level": number % 4} for number in range(40)]
    kind = SUMS.with_settings({"rows": "8:32", "where": "level>=2", "part": "report", "attempts": "6"})
    inside = [number for number in range(8, 32) if number % 4 >= 2]
    assert list(kind.inside(Extent.of(rows))) == inside
    assert kind.rows_asked(Extent.of(rows)) == len(inside) - round(0.4 * len(inside))
    sized = kind.sized(Extent.of(rows))
    asked = [int(row["question"]) for row in sized.asked(rows)]
    assert len(asked) == sized.rows_asked(Extent.of(rows)) == 6
    assert {*asked} <= {*inside}


def test_a_filter_that_rows_cannot_answer_is_an_error_when_they_are_asked() -> None:
    with pytest.raises(SettingError, match="no field 'level'"):
        SUMS.with_settings({"where": "level=1"}).asked([{"question": "1"}])
    with pytest.raises(SettingError, match="prepare them again"):
        SUMS.with_settings({"where": "level=1"}).rows_asked(Extent(3))
    assert SUMS.with_settings({"rows": "1:"}).rows_asked(Extent(3)) == 2
