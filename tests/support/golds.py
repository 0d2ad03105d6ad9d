"""The references of the real maths sets, read from the public files as they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rwkv_data.graders.maths import hendrycks

SETS: dict[str, Callable[[dict[str, Any]], str]] = {
    "math": lambda row: hendrycks.last_boxed(row["solution"]),
    "math_500": lambda row: row["answer"],
    "gaokao2023en": lambda row: row["answer"],
    "minerva_math": lambda row: hendrycks.last_boxed(row["solution"]),
    "amc23": lambda row: str(row["answer"]),
    "aime24": lambda row: str(row["answer"]),
    "aime25": lambda row: row["expected_answer"],
    "asdiv": lambda row: row["answer"],
    "cmath": lambda row: row["answer"],
    "comp_math_24_25": lambda row: row["expected_answer"],
    "olympiadbench": lambda row: row["final_answer"][0],
}


def references(real_rows: Path, name: str) -> list[str]:
    """The references of a set, in its order."""
    lines = (real_rows / name / "test.jsonl").read_text().splitlines()
    return [SETS[name](json.loads(line)) for line in lines]
