"""Scores by subject as rwkv-skills writes them: a number for each, or its accuracy with the number of rows."""

from typing import TypedDict

from rwkv_daemon.import_rwkv_skills import checked_files


class SubjectScore(TypedDict):
    """One subject in the shape that our scores have; 0 rows where nobody said how many."""

    value: float
    rows: int


def subjects_of(given: object) -> dict[str, SubjectScore]:
    """Subjects by name; none where there is no such thing. Numbers beyond one are points of a hundred."""
    if not isinstance(given, dict):
        return {}
    found: dict[str, SubjectScore] = {}
    for name, one in given.items():
        known = checked_files.numbers(one if isinstance(one, dict) else {"accuracy": one})
        if "accuracy" in known:
            found[checked_files.name(name)] = SubjectScore(value=known["accuracy"], rows=int(known.get("total", 0)))
    if any(subject["value"] > 1 for subject in found.values()):
        return {name: SubjectScore(value=one["value"] / 100, rows=one["rows"]) for name, one in found.items()}
    return found
