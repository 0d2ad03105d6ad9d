"""What no hostile text may make quadratic: a limit of processor time that is no measure of speed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 20.0  # what is linear takes under a fifth of one; what is not, minutes


@contextmanager
def bounded(what: str = "it") -> Iterator[None]:
    """The block takes less processor time than anything quadratic would."""
    began = time.process_time()
    yield
    assert time.process_time() - began < LIMIT_S, f"the effort of {what} grows faster than its input"
