"""Reading run directories as `rwkv_daemon.jobs.run_archive` and the runners left them. Invalid ones are reported."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rwkv_daemon.store.queries.verdicts import JudgedSample

Kept = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KeptAttempt:
    """One attempt: its row, and its grade key."""

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
        """Return the verdict for the sample's present number."""
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
        """Return the grade key of its last attempt."""
        return self.attempts[max(self.attempts)].grade_key


def kept_jobs(runs: Path) -> tuple[list[KeptJob], list[str]]:
    """Return every job in order of its number, and the problems of directories that hold none."""
    found, problems = [], []
    for folder in numbered(runs.glob("j*")):
        try:
            found.append(kept_job(folder))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{folder}: {error}")
    return found, problems


def kept_engines(runs: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of engines that were ready once, and the problems."""
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
    """Read one run directory. Raises OSError, ValueError or KeyError."""
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
    """Return grade key -> verdicts, of each sample the last one last. A torn line is skipped."""
    path, found = folder / "verdicts.jsonl", dict[str, list[KeptVerdict]]()
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            one = msgspec.json.decode(line, type=KeptVerdict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        found.setdefault(one.grade_key, []).append(one)
    return found


def read(path: Path) -> Kept:
    """Read a file of rows. Raises OSError or ValueError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not as it was written: {error}") from error


def numbered(folders: Iterator[Path]) -> list[Path]:
    """Return the folders that are named by a letter and a number, in the order of the number."""
    return sorted((f for f in folders if f.name[1:].isdecimal() and f.is_dir()), key=lambda f: int(f.name[1:]))
