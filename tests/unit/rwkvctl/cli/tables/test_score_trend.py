"""A score's trend over its runs, in one line."""

from typing import Any

from rwkvctl.cli.tables.score_table import trend


def run(job: int, value: float | None, kind: str = "cot", unit: str = "share", primary: str = "accuracy") -> Any:
    return {"job": f"j{job}", "kind": kind, "primary": primary, "metrics": {primary: {"value": value, "unit": unit}}}


def test_runs_of_the_same_kind_are_drawn_oldest_first() -> None:
    runs = [run(9, 0.749), run(8, 0.2, "plain"), run(7, None), run(5, 0.68), run(3, 0.612), run(2, 3.0, unit="bits")]
    said = trend(runs, run(9, 0.749))
    assert said.startswith("over 3 runs ")
    assert said.endswith("61.2 (j3) to 74.9 (j9), drawn from 60 to 80")


def test_one_run_is_no_trend() -> None:
    assert trend([run(9, 0.7), run(8, 0.7, "plain")], run(9, 0.7)) == ""
    assert "drawn from 70 to 80" in trend([run(9, 0.7), run(8, 0.7)], run(9, 0.7))
