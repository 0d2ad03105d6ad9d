"""The summary for people and for programs."""

from types import SimpleNamespace
from typing import Any

from rwkv_data.recipes.cleaning.checked_benchmarks import CheckedBenchmarks
from rwkv_data.recipes.cleaning.report import Summary, json_line

INDEXES: Any = (SimpleNamespace(name="math_500", words=range(500)), SimpleNamespace(name="aime24", words=range(30)))
CHECKED = CheckedBenchmarks(INDEXES, {"mmlu": "not prepared", "mine": "it is broken"}, {"aime24": (29, 30)})


def near(line: int, benchmark: str, gram: str | None, *also: str) -> dict[str, Any]:
    others = [{"benchmark": name, "row": f"{name}/1", "index": 1, "rule": "8-grams"} for name in also]
    return {"line": line, "reason": "benchmark", "rule": "13-gram", "benchmark": benchmark, "row": f"{benchmark}/0",
            "index": 0, "gram": gram, "word": 0, "rows_with_it": 2, "also": others}  # fmt: skip


def filled() -> Summary:
    summary = Summary("t.jsonl", 9120, 1, 3, CHECKED)
    for line in range(1, 13):
        summary.add(near(line, "math_500", "a b", "aime24") if line > 2 else near(line, "aime24", None))
    summary.add({"line": 20, "reason": "duplicate", "rule": "near", "of_line": 3, "similarity": 0.8432})
    return summary


def test_what_people_read() -> None:
    lines = filled().lines()
    assert lines[:9] == [
        "9,107 of 9,120 rows stay: 12 near benchmarks (aime24 12, math_500 10), 1 duplicate",
        "",
        "benchmark  equal  same-words  13-gram  8-grams",
        "aime24                              2       10",
        "math_500                           10",
        "10 rows by the words 'a b' (2 rows of math_500): look whether it is a common phrase",
        "3 rows without a word that could be compared: they stay",
        "1 row with more possible duplicates than were compared",
        "",
    ]
    assert lines[9:11] == ["t.jsonl:1  aime24 aime24/0  13-gram", "t.jsonl:2  aime24 aime24/0  13-gram"]
    assert lines[11] == "t.jsonl:3  math_500 math_500/0  13-gram  'a b'"
    assert lines[-6:] == [
        "and 3 more",
        "",
        "checked: math_500, aime24",
        "checked in part, because not all rows are prepared: aime24 (29 of 30 rows)",
        "not checked, because not prepared: mmlu",
        "not checked: mine: it is broken",
    ]


def test_what_programs_read() -> None:
    plain = filled().plain()
    assert (plain["rows"], plain["stay"], plain["near_benchmarks"]) == (9120, 9107, 12)
    assert plain["duplicates"] == {"equal": 0, "near": 1}
    assert plain["benchmarks"]["aime24"] == {"equal": 0, "same-words": 0, "13-gram": 2, "8-grams": 10}
    assert plain["phrases"] == [{"benchmark": "math_500", "gram": "a b", "rows_with_it": 2, "dropped": 10}]
    assert plain["checked"] == {"math_500": 500, "aime24": 30}
    assert len(plain["examples"]) == 10


def test_nothing_to_say() -> None:
    summary = Summary("t.jsonl", 1, 0, 0, CheckedBenchmarks((), {}, {}), written=["a", "b"])
    assert summary.lines() == [
        "1 of 1 row stay: 0 near benchmarks, 0 duplicates",
        "checked: no benchmark",
        "wrote a and b",
    ]


def test_a_line_can_always_be_written() -> None:
    assert json_line({"row": "中\ud800\n"}) == '{"row": "中?\\n"}\n'.encode()
