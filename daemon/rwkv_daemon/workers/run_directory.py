"""The run directory: everything a runner and the daemon say to each other, as files. No socket, so either may die.

    runs/j12/job.json             what to do (daemon; replaced atomically)
    runs/j12/engines.json         which engines to use (daemon; replaced atomically)
    runs/j12/endpoint.json        which model behind an endpoint it asks, and what its server does (daemon; replaced)
    runs/j12/desired              run | pause | stop (daemon; replaced atomically)
    runs/j12/samples-3.jsonl      what attempt 3 finished (runner; appended, one record a line; of a harness at once)
    runs/j12/result-3.json        what a harness found in attempt 3 (runner; replaced atomically)
    runs/j12/record-3.json        who attempt 3 is and how it ended (shim)
    runs/j12/alive-3              touched while attempt 3 turns (runner; of a harness, what it was answered)
    runs/j12/log-3.txt            what attempt 3 said (its own outputs); log-3.times: when it was how long (shim)

One samples file an attempt: a torn last line is never glued to a new one, and a line of an attempt the store does not
know is never read.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

FORMAT: Final = 1
"""Version of these files. A worker reads its own version and the one before."""

DOOMED: Final = "doomed"
"""A file in an engine's run directory: the daemon killed the engine, as it hung or its device failed."""

Desired = Literal["run", "pause", "stop"]


class FormatHeader(Struct, frozen=True):
    """The one field that every version of job.json has."""

    format: int = 0


class RewritingSource(Struct, frozen=True, kw_only=True):
    """What a job rewrites: the `right` samples, each a (row, repeat), of the job `name`, whose attempts have their
    samples files in `folder`; and by which rule (`thought-solution/1`). By one that splits completions into thoughts
    they are the shortest right ones, one a row."""

    rule: str
    name: str
    folder: str
    attempts: tuple[int, ...]
    right: tuple[tuple[int, int], ...]


class HarnessSpec(Struct, frozen=True, kw_only=True):
    """The part of an outside harness in a job: its name and manifest (as TOML), where it is installed and where the
    operator's own tasks lie, with their hash; the model, the task, and the settings that the dispatch gave. `hidden`
    are the paths of the node that it must not see."""

    name: str
    manifest: str
    folder: str
    own: str
    own_sha256: str
    weights_path: str
    weights_sha256: str
    task: str
    settings: dict[str, str]
    hidden: tuple[str, ...]


class JobSpec(Struct, frozen=True, kw_only=True):
    """What a runner is to do. `earlier` are the attempts whose samples count as done. `regrade`: grade their
    completions again, and generate nothing. `api`: that of the endpoint which it asks, empty if it asks engines.
    `rewriting`: it has a writer rewrite samples of another job, instead of asking the rows. `labelling`: the rule
    (`difficulty/1`) by which it has a writer label the rows; empty for any other job. `harness`: an outside harness
    does the job.
    `catalogue_dir` holds benchmarks of the operator's own; `slots_dir` and `slots` are the node-wide limit of programs
    that graders run."""

    format: int = FORMAT
    job: int
    attempt: int
    earlier: tuple[int, ...]
    model: str
    benchmark: str
    kind: str
    settings: dict[str, str]
    seed: int
    limit: int | None
    repeats: int
    data_dir: str
    rows_sha256: str
    generation_key: str
    grade_key: str
    regrade: bool = False
    api: str = ""
    rewriting: RewritingSource | None = None
    labelling: str = ""
    harness: HarnessSpec | None = None
    catalogue_dir: str = ""
    file_sha256: str = ""
    slots_dir: str = ""
    slots: int = 0
    unsandboxed: bool = False


class EngineEndpoint(Struct, frozen=True, kw_only=True):
    """An engine that a runner may use: a Unix socket, and the engine's run directory, if it has one. A `relay` is the
    daemon, which asks a model behind an endpoint: it may be away for a while, and no sample is to blame for that."""

    engine: str
    socket: str
    folder: str = ""
    relay: bool = False


class EngineList(Struct, frozen=True, kw_only=True):
    """The engines of a job now. `epoch` grows with every change."""

    epoch: int
    endpoints: tuple[EngineEndpoint, ...]


class StageRecord(Struct, frozen=True, kw_only=True, tag="stage", omit_defaults=True):
    """A finished stage of one sample. `prompt` and `prompt_ids` are written once for each (row, stage).

    A `choose` stage has `logprobs` and the index of the best choice; a `generate` stage has ids and text.
    """

    row: int
    repeat: int
    stage: int
    ids: tuple[int, ...] = ()
    text: str = ""
    stop: str = ""
    choice: int | None = None
    logprobs: tuple[float, ...] = ()
    greedy: tuple[bool, ...] = ()
    prompt: str | None = None
    prompt_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    cached: int = 0
    generated: int = 0
    engine: str = ""
    seconds: float = 0.0


LABELLED: Final = "labelled"
"""Reason of a sample without a verdict: the writer has given a label of the row, which was extracted."""
UNREADABLE: Final = "form"
"""... no reply of the writer has a usable form."""
UNFAITHFUL: Final = "unfaithful"
"""... a rewriting does not say what the original says."""
UNUSABLE: Final = frozenset({UNREADABLE, UNFAITHFUL})
FINAL: Final = frozenset({"unjudged", "dropped", LABELLED, *UNUSABLE})
"""Reasons of samples that are not graded once more when errors are."""


class SampleRecord(Struct, frozen=True, kw_only=True, tag="sample", omit_defaults=True):
    """The grade of one sample; without a verdict `value` is None, with a reason such as `error` or `unjudged`. `route`
    names the rule that found the answer; of a variant that is missing, why (see `preference_pair.NoPair`)."""

    row: int
    repeat: int
    value: float | None
    reason: str
    expected: str = ""
    extracted: str | None = None
    detail: str = ""
    route: str = ""
    parts: dict[str, float] = {}


Record = StageRecord | SampleRecord
record_decoder: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths and atomic writes of one job's run directory."""

    path: Path

    def samples(self, attempt: int) -> Path:
        return self.path / f"samples-{attempt}.jsonl"

    def record(self, attempt: int) -> Path:
        return self.path / f"record-{attempt}.json"

    def log(self, attempt: int) -> Path:
        return self.path / f"log-{attempt}.txt"

    def alive(self, attempt: int) -> Path:
        return self.path / f"alive-{attempt}"

    def write_spec(self, spec: JobSpec) -> None:
        replace(self.path / "job.json", msgspec.json.encode(spec))

    def write_engines(self, engines: EngineList) -> None:
        replace(self.path / "engines.json", msgspec.json.encode(engines))

    def write_endpoint(self, facts: dict[str, object]) -> None:
        replace(self.path / "endpoint.json", msgspec.json.encode(facts))

    def write_desired(self, desired: Desired) -> None:
        replace(self.path / "desired", desired.encode())

    def tidy(self) -> None:
        """Remove temporary files of a process that was killed while replacing a file."""
        for path in self.path.glob("*.tmp"):
            path.unlink(missing_ok=True)

    def read_spec(self) -> JobSpec:
        """Return the specification. Raises UnknownFormatError if it is from another version."""
        content = (self.path / "job.json").read_bytes()
        found = msgspec.json.decode(content, type=FormatHeader).format
        if found not in {FORMAT, FORMAT - 1}:
            raise UnknownFormatError(f"{self.path} has format {found}; this runner reads {FORMAT}")
        return msgspec.json.decode(content, type=JobSpec)

    def read_engines(self) -> EngineList:
        return msgspec.json.decode((self.path / "engines.json").read_bytes(), type=EngineList)

    def read_endpoint(self) -> dict[str, object]:
        """Return what the score says of the endpoint that the job asked; empty if it asked none."""
        try:
            return msgspec.json.decode((self.path / "endpoint.json").read_bytes(), type=dict[str, object])
        except FileNotFoundError:
            return {}

    def read_desired(self) -> str:
        return (self.path / "desired").read_text(encoding="ascii").strip()


class UnknownFormatError(Exception):
    """A run directory was written by a version that this one cannot read."""


def replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a mixture."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def whole_lines(data: bytes) -> tuple[list[bytes], int]:
    """Return the complete lines in `data` and how many bytes they take; a torn last line is left."""
    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1], end


def read_records(path: Path) -> Iterator[Record]:
    """Yield every complete record of one attempt's file. An invalid line (disk full in the middle) is skipped: its
    sample was never acknowledged, so it is done again."""
    if not path.exists():
        return
    for line in whole_lines(path.read_bytes())[0]:
        if (record := decode_record(line)) is not None:
            yield record


def decode_record(line: bytes) -> Record | None:
    """Return a line as a record, or None if it is torn (or not UTF-8, which msgspec reports by an error of its own)."""
    try:
        return record_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
