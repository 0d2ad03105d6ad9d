"""Several files at once: workers that fetch, and one voice that tells how it goes."""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Final, TypeVar

from rwkv_weights.errors import WeightsError
from rwkv_weights.hub.choice import Item
from rwkv_weights.hub.remote import Hub
from rwkv_weights.hub.transfer import StoppedError, Transfer, same_bytes
from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.sha256_cache import Sums

T = TypeVar("T")

LOOK_S: Final = 0.2
LEAVE_S: Final = 3.0
"""How long a worker may take to stop. One that waits for a silent hub is left behind; its part is whole as it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file: `fetched`, `here` or `failed` with the reason."""

    item: Item
    state: str
    seconds: float = 0.0
    reason: str = ""


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | WeightsError]:
    """The results of all, or why there is none, in their order. Ctrl-C does not wait for a silent hub.

    Raises what a call raises that is no WeightsError.
    """
    found: dict[int, T | WeightsError] = {}
    broken: list[Exception] = []

    def one(number: int, call: Callable[[], T]) -> None:
        try:
            found[number] = call()
        except WeightsError as error:
            found[number] = error
        except Exception as error:  # noqa: BLE001 - raised again by the thread that asked
            broken.append(error)

    threads = [Thread(target=one, args=item, daemon=True) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(LOOK_S)
    if broken:
        raise broken[0]
    return [found[number] for number in range(len(calls))]


class Crew:
    """`for outcome in crew.work()`: each file once, as it ends. Leaving the loop early stops the workers."""

    def __init__(self, hub: Hub, items: Sequence[Item], sums: Sums, workers: int) -> None:
        self.hub, self.sums = hub, sums
        self._waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
        for item in items:
            self._waiting.put(item)
        self._count, self._outcomes = len(items), queue.SimpleQueue[Outcome | Exception]()
        self._stop, self._lock, self._done, self._kept = Event(), Lock(), 0, 0
        # daemon threads: one that is stuck in the network must not keep the process alive after Ctrl-C
        self._threads = [Thread(target=self._worker, daemon=True) for _ in range(min(workers, len(items)))]

    @property
    def done(self) -> int:
        """Bytes present so far over all files, including those that need no fetching."""
        return self._done

    @property
    def kept(self) -> int:
        """Those of them that need no fetching."""
        return self._kept

    def work(self, idle: Callable[[], object]) -> Iterator[Outcome]:
        """`idle` is called a few times a second. KeyboardInterrupt passes through when the workers have stopped."""
        for thread in self._threads:
            thread.start()
        try:
            for _ in range(self._count):
                yield self._next(idle)
        finally:
            self._stop.set()
            end = time.monotonic() + LEAVE_S
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()))

    def _next(self, idle: Callable[[], object]) -> Outcome:
        while True:
            try:
                outcome = self._outcomes.get(timeout=LOOK_S)
            except queue.Empty:
                assert any(thread.is_alive() for thread in self._threads) or not self._outcomes.empty(), "workers died"
                idle()
                continue
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    def _worker(self) -> None:
        while not self._stop.is_set():
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            try:
                state, reason = self._one(item), ""
            except StoppedError:
                return
            except (WeightsError, OSError) as error:
                state, reason = "failed", str(error)
            except Exception as error:  # noqa: BLE001 - raised again by the thread that listens
                self._outcomes.put(error)
                return
            self._outcomes.put(Outcome(item, state, time.monotonic() - began, reason))

    def _one(self, item: Item) -> str:
        if item.state == "here":
            self._tell(item.remote.size, item.remote.size)
            return "here"
        if item.state == "unhashed":
            return self._compare(item)
        if item.state == "other":
            raise _another(item)
        Transfer(self.hub, item, self.sums, self._tell, self._stop).run()
        return "fetched"

    def _compare(self, item: Item) -> str:
        identity = FileIdentity.of(item.target)
        if not same_bytes(item.remote, item.target, self._tell, self._stop):
            raise _another(item)
        if item.remote.sha256 and FileIdentity.of(item.target) == identity:
            self.sums.remember(item.target, identity, item.remote.sha256)
        return "here"

    def _tell(self, count: int, kept: int) -> None:
        with self._lock:
            self._done += count
            self._kept += kept


def _another(item: Item) -> WeightsError:
    return WeightsError(
        f"{item.target} is another file than the hub's, and stays: move it, or fetch --to another folder."
    )
