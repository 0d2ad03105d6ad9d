"""What the readers of all layouts return: a score, its verdicts, and its samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from rwkv_daemon.import_rwkv_skills.checked_files import Record
from rwkv_daemon.import_rwkv_skills.subject_scores import SubjectScore

MOST_STAGES: Final = 20
LARGEST_SAMPLING: Final = 20_000
"""Characters of a sampling configuration as JSON; a larger one is left out."""

Place = tuple[int, int]
"""(sample index, repeat index)."""


class StageText(NamedTuple):
    """One stage of a sample: prompt, completion, and stop reason."""

    prompt: str
    completion: str
    stop: str


class ImportedVerdict(NamedTuple):
    """Verdict of rwkv-skills on one sample."""

    passed: bool
    answer: str
    expected: str
    why: str


class ImportedSample(NamedTuple):
    """A sample as it was generated. `sampling` is by stage name (`stage1`)."""

    place: Place
    turns: tuple[StageText, ...]
    sampling: Record


Traces = Callable[[], Iterator[ImportedSample]]
"""Reads the samples; may be called repeatedly. Raises BadFileError, also if the file has changed since the first
reading."""


@dataclass(slots=True, kw_only=True)
class ImportedScore:
    """One score of rwkv-skills. `files` maps each of its files to its sha256."""

    source: Path
    layout: str
    model: str
    dataset: str
    task: str = ""
    cot: bool | None = None
    created: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    problems: int = 0
    subjects: dict[str, SubjectScore] = field(default_factory=dict)
    more: Record = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    verdicts: dict[Place, ImportedVerdict] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)
    sampling: Record = field(default_factory=dict)
    stages: int = 0
    cut_off: int = 0
    duplicates: int = 0
    traces: Traces | None = None

    def see(self, trace: ImportedSample) -> None:
        """Note what the first reading shows of one sample. A second line of the same sample does not count, as in
        rwkv-skills."""
        if trace.place in self.places:
            self.duplicates += 1
            return
        self.places.add(trace.place)
        if not self.sampling and len(repr(trace.sampling)) <= LARGEST_SAMPLING:
            self.sampling = trace.sampling
        self.stages = max(self.stages, len(trace.turns))
        self.cut_off += any(turn.stop == "length" for turn in trace.turns)

    def judge(self, place: Place, verdict: ImportedVerdict) -> None:
        """Note a sample's verdict; the first one counts."""
        if place in self.verdicts:
            self.duplicates += 1
        else:
            self.verdicts[place] = verdict


STOPS = {"stop_token": "stop_token", "stop_suffix": "stop_suffix", "max_length": "length", "length": "length",
         "logits_only": ""}  # fmt: skip


def stop_of(word: str) -> str:
    """Return our word for a stop reason of rwkv-skills; an unknown one counts as a stop."""
    return STOPS.get(word, "stop_token")
