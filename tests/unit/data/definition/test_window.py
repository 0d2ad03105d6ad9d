"""Windows of days and releases: the rows of a dated set that are asked, and the errors where days are unknown."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.catalogue import contents
from rwkv_data.definition import registry
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.row_window import Extent, Release, Window
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkvctl.protocol.requests import Selection

DATES = ("2024-01-05", "2024-02-20", "2024-01-31", "2024-07-01", "2025-01-31")
WINDOW = Window({"v1": Release(3, "2024-03-31"), "v2": Release(5, "2025-01-31")})
SET = Extent(5, DATES)
LCB = registry.load("livecodebench")


def window(**settings: str) -> Window:
    found = WINDOW
    for name, text in settings.items():
        found = found.with_setting(name, text)
    return found


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"release": "v1"}, [0, 1, 2]),
        ({"release": "v2"}, [0, 1, 2, 3, 4]),
        ({"start_date": "2024-01-31"}, [1, 2, 3, 4]),
        ({"end_date": "2024-01-31"}, [0, 2]),
        ({"start_date": "2024-02-20", "end_date": "2024-07-01"}, [1, 3]),
        ({"release": "v1", "start_date": "2024-01-31"}, [1, 2]),
    ],
)
def test_both_days_belong_to_a_window_and_a_release_is_the_first_rows(
    settings: dict[str, str], rows: list[int]
) -> None:
    assert window(**settings).indices(SET) == rows
    assert window(**settings).problem(SET) == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"release": "v7"}, "release='v7' is none of v1, v2"),
        ({"start_date": "2024-1-5"}, "is no day, such as 2024-08-01"),
        ({"end_date": "20240105"}, "is no day"),
        ({"end_date": "2024-02-30"}, "is no day"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        window(**settings)


@pytest.mark.parametrize(
    ("extent", "settings", "says"),
    [
        (SET, {"start_date": "2024-02-02", "end_date": "2024-02-01"}, "2024-02-02 is after end_date=2024-02-01"),
        (Extent(5), {"release": "v1"}, "prepared without their days"),
        (Extent(2, DATES[:2]), {"release": "v1"}, "release v1 has 3 rows, and 2 are prepared"),
        (Extent(5, DATES[::-1]), {"release": "v1"}, "its first 3 rows are not those of release v1"),
        (SET, {"start_date": "2025-02-01"}, "none of its rows lies between these days"),
    ],
)
def test_a_set_whose_rows_are_not_known_to_be_those_is_not_asked(extent: Extent, settings: Any, says: str) -> None:
    assert says in window(**settings).problem(extent)
    assert WINDOW.problem(extent) == "", "all of a set is always known"


@given(st.lists(st.sampled_from(DATES)), st.sampled_from(["", *DATES]), st.sampled_from(["", *DATES]))
def test_as_many_rows_are_planned_as_are_asked(dates: list[str], start: str, end: str) -> None:
    if start and end and start > end:
        start, end = end, start
    kind = replace(LCB.default_kind, window=window(start_date=start, end_date=end), share=0.5)
    rows = [{"question": str(number), "date": day} for number, day in enumerate(dates)]
    asked = kind.asked(rows)
    assert len(asked) == kind.rows_asked(Extent.of(rows))
    assert all(start <= str(row["date"]) <= (end or "9") for row in asked)


def test_only_a_window_that_leaves_rows_out_is_part_of_the_key() -> None:
    kind = LCB.default_kind
    assert "window" not in kind.configuration()
    assert (kind.settings()["release"], kind.settings()["start_date"]) == ("", "")
    changed = kind.with_settings({"release": "v5", "start_date": "2024-08-01"})
    assert changed.configuration()["window"] == {"release": "v5", "start_date": "2024-08-01", "end_date": ""}
    assert changed.with_settings({"release": "", "start_date": ""}).configuration() == kind.configuration()
    with pytest.raises(SettingError, match="no setting 'release'"):
        registry.load("gsm8k").default_kind.with_settings({"release": "v5"})
    assert all(other.window for other in LCB.kinds.values())


def raw(day: str, name: str) -> dict[str, str]:
    tests = json.dumps([{"input": "1\n", "output": "1\n", "testtype": "stdin"}])
    return {
        "question_content": "Print the number.", "starter_code": "", "difficulty": "easy", "platform": "atcoder",
        "contest_date": f"{day}T00:00:00", "public_test_cases": tests, "private_test_cases": "[]", "metadata": "{}",
        "question_id": name,
    }  # fmt: skip


def fact(benchmarks: contents.NodeBenchmarks, **settings: str) -> Any:
    selection = Selection(only_datasets=("livecodebench",), settings=settings)
    found = contents.kind_facts(selection, benchmarks)
    return next(one for one in found if one.kind == "code_livecodebench")


def test_the_planner_counts_by_the_days_that_the_manifest_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "lcb"
    folder.mkdir()
    for number, days in enumerate((["2023-05-07", "2024-03-30"], ["2024-04-06"]), 1):
        lines = [json.dumps(raw(day, f"{number}{day}")) for day in days]
        (folder / f"test{'' if number == 1 else number}.jsonl").write_text("\n".join(lines))
    manifest = prepare("livecodebench", tmp_path / "data", source=folder)
    assert manifest.dates == ("2023-05-07", "2024-03-30", "2024-04-06")
    benchmarks = contents.NodeBenchmarks(tmp_path / "data", files={"livecodebench": LCB})
    assert [fact(benchmarks).rows, fact(benchmarks, start_date="2024-01-01").rows] == [3, 2]
    few = fact(benchmarks, release="v1")
    assert (few.rows, few.rows_problem) == (None, "release v1 has 400 rows, and 3 are prepared")
    rows = prepared_sets.load_rows(tmp_path / "data", LCB)
    kind = LCB.default_kind.with_settings({"start_date": "2024-01-01"})
    assert [row["date"] for row in kind.asked(rows)] == ["2024-03-30", "2024-04-06"]

    path = tmp_path / "data" / "livecodebench" / "manifest.json"
    before = json.loads(path.read_text())
    del before["dates"]
    path.write_text(json.dumps(before))
    earlier = contents.NodeBenchmarks(tmp_path / "data", files={"livecodebench": LCB})
    assert fact(earlier).rows == 3, "a set that was prepared before is asked whole as before"
    assert "prepared without their days" in fact(earlier, start_date="2024-01-01").rows_problem
