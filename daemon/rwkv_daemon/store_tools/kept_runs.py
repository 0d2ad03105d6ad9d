"""Run directories as `rwkv_daemon.jobs.run_archive` and the runners left them. Read only; one that makes no sense
is said."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rwkv_daemon.store.queries.verdicts import JudgedSample

Kept = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """One attempt: its row, and the key under which it graded."""

    number: int
    row: dict[str, Any]
    grade_key: str
    samples: Path


class KeptVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a run directory's verdicts.jsonl: what the judge said of one sample."""

    grade_key: str
    row: int
    repeat: int
    value: float | None
    detail: str
    extracted: str
    parts: dict[str, float]
    judge: dict[str, object]

    @property
    def place(self) -> tuple[int, int]:
        return self.row, self.repeat

    def judged(self, sample: int) -> JudgedSample:
        """The verdict on the sample that has this number now."""
        return JudgedSample(sample, self.value, self.detail, self.extracted, self.parts, self.judge)


@dataclass(frozen=True, slots=True)
class KeptJob:
    """Everything about one job. `job` is its row when it was last written."""

    job: dict[str, Any]
    session: dict[str, Any]
    attempts: dict[int, KeptAttempt]
    scores: list[dict[str, Any]]
    verdicts: dict[str, list[KeptVerdict]]

    @property
    def last_key(self) -> str:
        """The grade key of its last attempt."""
        return self.attempts[max(self.attempts)].grade_key


def kept_jobs(runs: Path) -> tuple[list[KeptJob], list[str]]:
    """Every job in the order of their numbers, and what is wrong with the directories that hold none."""
    found, problems = [], []
    for folder in numbered(runs.glob("j*")):
        try:
            found.append(kept_job(folder))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{folder}: {error}")
    return found, problems


def kept_engines(runs: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of engines that were ready once."""
    found, problems = [], []
    for folder in numbered((runs / "engines").glob("e*")):
        path = folder / "row.json"
        try:
            if path.exists():
                found.append(read(path)["engine"])
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{path}: {error}")
    return found, problems


def kept_job(folder: Path) -> KeptJob:
    """One run directory. Raises OSError, ValueError or KeyError with what is wrong."""
    rows = {int(path.stem.removeprefix("row-")): read(path) for path in folder.glob("row-*.json")}
    scored = [read(path) for path in folder.glob("score-*.json")]
    if not rows:
        raise ValueError("no row of the store was kept in it")
    attempts = {
        number: KeptAttempt(number, row["attempt"], row["job"]["grade_key"], folder / f"samples-{number}.jsonl")
        for number, row in sorted(rows.items())
    }
    states = [(number, False, "", row["job"]) for number, row in rows.items()]
    states += [(one["job"]["attempt"], True, one["score"]["finished"], one["job"]) for one in scored]
    latest = max(states, key=lambda state: state[:3])[3]
    session = rows[max(rows)]["session"]
    return KeptJob(latest, session, attempts, [one["score"] for one in scored], verdicts_of(folder))


def verdicts_of(folder: Path) -> dict[str, list[KeptVerdict]]:
    """Grade key -> the verdicts, the last one of each sample last. A torn line is passed over."""
    path, found = folder / "verdicts.jsonl", dict[str, list[KeptVerdict]]()
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            one = msgspec.json.decode(line, type=KeptVerdict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        found.setdefault(one.grade_key, []).append(one)
    return found


def read(path: Path) -> Kept:
    """A file of rows. Raises OSError or ValueError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not as it was written: {error}") from error


def numbered(folders: Iterator[Path]) -> list[Path]:
    """Those that are named by a letter and a number, in the order of it."""
    return sorted((f for f in folders if f.name[1:].isdecimal() and f.is_dir()), key=lambda f: int(f.name[1:]))
