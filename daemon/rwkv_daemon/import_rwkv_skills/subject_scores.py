"""Scores by subject as rwkv-skills writes them: a number for each, or its accuracy with the number of rows."""

from typing import TypedDict

from rwkv_daemon.import_rwkv_skills import checked_files


class SubjectScore(TypedDict):
    """One subject in the form of our own scores; `rows` is 0 if their number is not known."""

    value: float
    rows: int


def subjects_of(given: object) -> dict[str, SubjectScore]:
    """Return subjects by name; empty if there are none. Numbers above 1 are taken for percent."""
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
