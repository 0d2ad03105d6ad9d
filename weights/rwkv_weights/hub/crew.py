"""Several at once: workers that fetch or ask, and one voice that tells how it goes."""

import contextlib
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from typing import Final, TypeVar

from rwkv_weights.errors import WeightsError
from rwkv_weights.hub import transfer
from rwkv_weights.hub.choice import Item, part_of
from rwkv_weights.hub.part import digest_of
from rwkv_weights.hub.remote import Hub
from rwkv_weights.local.checkpoint_files import CHUNK_BYTES, FileIdentity
from rwkv_weights.local.sha256_cache import Sums

T = TypeVar("T")
_Waiting = queue.SimpleQueue[int]
_Ended = queue.SimpleQueue[tuple[int, T | BaseException]]

LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class DownloadOutcome:
    """What became of a file: `fetched`, `here` or `failed` with the reason."""

    item: Item
    state: str
    seconds: float = 0.0
    reason: str = ""


def as_they_end(
    calls: Sequence[Callable[[], T]], workers: int, idle: Callable[[], object] = lambda: None
) -> Iterator[tuple[int, T | WeightsError]]:
    """Yield each call's number with its result, or why there is none. `idle` is called a few times a second.

    Raises what a call raises that is no WeightsError. Ctrl-C passes through at once: the workers are daemon threads, as
    one that waits for a silent hub must not keep the process alive, and a part has no gap wherever they stop.
    """
    waiting, ended = _Waiting(), _Ended[T]()
    for number in range(len(calls)):
        waiting.put(number)
    for _ in range(min(workers, len(calls))):
        Thread(target=_work, args=(calls, waiting, ended), daemon=True).start()
    for _ in calls:
        number, found = _next(ended, idle)
        if isinstance(found, BaseException) and not isinstance(found, WeightsError):
            raise found
        yield number, found


def _work(calls: Sequence[Callable[[], T]], waiting: _Waiting, ended: _Ended[T]) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            number = waiting.get_nowait()
            try:
                ended.put((number, calls[number]()))
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that listens
                ended.put((number, error))


def _next(ended: _Ended[T], idle: Callable[[], object]) -> tuple[int, T | BaseException]:
    while True:
        try:
            return ended.get(timeout=LOOK_S)
        except queue.Empty:
            idle()


class Crew:
    """`for outcome in crew.work(idle)`: each file once, as it ends."""

    def __init__(self, hub: Hub, items: Sequence[Item], sums: Sums, workers: int) -> None:
        self.hub, self.items, self.sums, self.workers = hub, items, sums, workers
        self._lock, self.done, self.kept = Lock(), 0, 0
        """`done`: bytes present so far over all files; `kept`: those of them that need no fetching."""

    def work(self, idle: Callable[[], object]) -> Iterator[DownloadOutcome]:
        """`idle` is called a few times a second."""
        for number, found in as_they_end([partial(self._outcome, item) for item in self.items], self.workers, idle):
            yield (
                DownloadOutcome(self.items[number], "failed", reason=str(found))
                if isinstance(found, WeightsError)
                else found
            )

    def _outcome(self, item: Item) -> DownloadOutcome:
        began = time.monotonic()
        if item.state == "other":
            raise _another(item)
        if item.state in {"missing", "part"}:
            transfer.fetch(self.hub, item, self.sums, self._tell)
            return DownloadOutcome(item, "fetched", time.monotonic() - began)
        try:
            self._compare(item)
            part_of(item.remote, item.target).unlink(missing_ok=True)
        except OSError as error:
            raise WeightsError(str(error)) from error
        return DownloadOutcome(item, "here")

    def _compare(self, item: Item) -> None:
        """Read a file that lies here unread once. Raises OSError, and WeightsError if it is not the hub's."""
        if item.state == "here":
            return self._tell(item.remote.size, item.remote.size)
        identity, digest = FileIdentity.of(item.target), digest_of(item.remote)
        with item.target.open("rb", buffering=0) as file:
            while piece := file.read(CHUNK_BYTES):
                digest.update(piece)
                self._tell(len(piece), 0)
        if digest.hexdigest() != item.remote.digest:
            raise _another(item)
        if item.remote.sha256 and FileIdentity.of(item.target) == identity:
            self.sums.remember(item.target, identity, item.remote.sha256)
        return None

    def _tell(self, count: int, kept: int) -> None:
        with self._lock:
            self.done += count
            self.kept += kept


def _another(item: Item) -> WeightsError:
    return WeightsError(
        f"{item.target} is another file than the hub's, and stays: move it, or fetch --to another folder."
    )
