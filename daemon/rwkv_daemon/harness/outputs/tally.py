"""Counting the samples that a harness wrote, while they are read."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rwkv_daemon.harness.outputs.result import TaskResult

GENERATED: Final = "stop_suffix"
"""How the reply of a sample ended as far as its harness says, which does not; the relay knows which were cut off."""
OF_ALL_ROWS: Final = "of-all-rows"
"""Reason of a sample without a verdict of its own: its metric (mcc, bleu) is one of all rows together."""


@dataclass(slots=True)
class Tally:
    """The samples of a task so far: `n_error` of them should have a verdict and have none; `judged` have one."""

    count: int = 0
    n_error: int = 0
    judged: int = 0
    sum: float = 0.0
    binary: bool = True
    rows: Any = field(default_factory=hashlib.sha256)

    def add(self, value: float | None, identity: str, *, of_all_rows: bool = False) -> None:
        """Count a sample with its verdict. `identity` stands for its row, the question and the reference answer."""
        self.count += 1
        self.n_error += value is None and not of_all_rows
        self.rows.update(f"{identity}\n".encode(errors="replace"))
        if value is not None:
            self.sum, self.judged, self.binary = self.sum + value, self.judged + 1, self.binary and value in {0, 1}

    def counted(self, result: TaskResult) -> TaskResult:
        """Return the result of the task with what all its samples say."""
        return msgspec.structs.replace(
            result,
            n_error=self.n_error,
            rows_sha256=self.rows.hexdigest() if self.count else "",
            mean=self.sum / self.count if self.count and self.judged == self.count else None,
            binary=self.binary and self.judged > 0,
        )
