"""Exit codes of the runner, which decide what the daemon does next. Any other code is a crash, and is retried."""

from typing import Final

STOPPED: Final = 10
"""It was asked to stop, and did."""
BAD_ROWS: Final = 11
"""The rows are missing or damaged: the job is held until they are prepared again."""
DISK_FULL: Final = 12
"""No room for samples: the job is held until there is."""
CANNOT_RUN: Final = 13
"""The run directory is from another version: the job fails."""
OUT_OF_TIME: Final = 14
"""It has run for as long as the kind allows: the job fails, and goes on when it is resumed."""
NO_SANDBOX: Final = 15
"""The sandbox does not work here, so what models write is not run: the job fails with the reason and the remedy."""
PAUSED: Final = 16
"""It was asked to pause, and ended between two batches: all answers that were requested are written."""
REFUSED: Final = 17
"""The engine refuses a request of this benchmark: the job fails with its message."""
BROKEN: Final = 18
"""A bug, in the benchmark or in rwkvctl: it would happen again, so the job fails with it."""
TROUBLE: Final = 19
"""The machine lacked something (memory, files, sockets): the job is retried."""
HARNESS_FAILED: Final = 20
"""An outside harness has ended without the results that it was asked for: the job fails with what it said."""
