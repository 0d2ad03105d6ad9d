"""Which module reads the results of a harness, by the name that its manifest gives."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from rwkv_daemon.harness.outputs import evalplus, lm_eval
from rwkv_daemon.harness.outputs.result import TaskResult
from rwkv_daemon.harness.outputs.tally import Tally
from rwkv_daemon.workers.run_directory import Record


class TaskSamples(Protocol):
    """The samples of one task. `tally` has counted those that `records` has yielded."""

    tally: Tally

    def records(self) -> Iterator[Record]: ...


class ReadResults(Protocol):
    """Returns the results that a run has written into a folder, by task. Raises ResultError, NoResultsError."""

    def __call__(self, folder: Path, task: str) -> dict[str, TaskResult]: ...


class ReadSamples(Protocol):
    """Returns the samples of a task that has a result; `engine` is who answered. Reading them raises ResultError."""

    def __call__(self, folder: Path, task: str, found: Mapping[str, TaskResult], engine: str) -> TaskSamples: ...


class Parser(NamedTuple):
    results: ReadResults
    samples: ReadSamples


PARSERS: Final[Mapping[str, Parser]] = {
    "lm-eval": Parser(lm_eval.results, lm_eval.LmEvalSamples),
    "evalplus": Parser(evalplus.results, evalplus.EvalplusSamples),
}
