"""Saved states: of prefixes of prompts, and of finished samples that a later item continues. Torch-free.

A prefix is found by a running hash over ids and then compared id by id, so a hash collision gives no wrong state.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rwkv_engine.scheduling.snapshots import Snapshot
from rwkv_engine.scheduling.state_tiers import Tiers
from rwkv_engine.scheduling.tasks import common_prefix

ID_BYTES = 8
SHARED_MIN_TOKENS = 32  # a shared beginning shorter than this is not worth a chunk of its own


@dataclass(slots=True)
class PrefixCache:
    """Snapshots by the ids that lead to them. `saved_tokens`: prompt tokens that needed no prefill."""

    tiers: Tiers
    hits: int = 0
    misses: int = 0
    saved_tokens: int = 0
    _entries: dict[int, tuple[tuple[int, ...], Snapshot]] = field(default_factory=dict)
    _recent: OrderedDict[str, tuple[int, ...]] = field(default_factory=OrderedDict)

    def find(self, ids: Sequence[int], limit: int, fits: Callable[[Snapshot], bool]) -> Snapshot | None:
        """Return the snapshot of the longest known prefix of at most `limit` ids that fits; counts a hit or a miss."""
        found: Snapshot | None = None
        for length, key in enumerate(prefix_keys(ids[:limit]), 1):
            entry = self._entries.get(key)
            if entry is not None and entry[1].length == length and entry[0] == tuple(ids[:length]) and fits(entry[1]):
                found = entry[1]
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self.saved_tokens += found.length
        self.tiers.touch(found)
        return found

    def put(self, ids: tuple[int, ...], snapshot: Snapshot) -> None:
        """Save the state after `ids`. A saved state with scores is not replaced by one without."""
        key = last_key(ids)
        if key in self._entries:
            old = self._entries[key][1]
            if old.scores is not None and snapshot.scores is None:
                self.tiers.touch(old)
                return
            self.tiers.release(old)
        self._entries[key] = ids, snapshot
        snapshot.size_bytes += ID_BYTES * len(ids)
        if not self.tiers.hold(snapshot, lambda: self._forget(key)):
            self._forget(key)

    def _forget(self, key: int) -> None:
        del self._entries[key]

    def shared_with_last(self, group: str, ids: tuple[int, ...]) -> int:
        """Return how many ids this prompt shares with the beginning of the last one of its group; 0 if too few to be
        worth saving."""
        last = self._recent.pop(group, ())
        self._recent[group] = ids
        if len(self._recent) > 64:
            self._recent.popitem(last=False)
        shared = common_prefix(last, ids)
        return shared if shared >= SHARED_MIN_TOKENS else 0


def prefix_keys(ids: Sequence[int]) -> Iterator[int]:
    """Yield the running hash of the sequence after each id."""
    key = 0
    for token in ids:
        key = hash((key, token))
        yield key


def last_key(ids: Sequence[int]) -> int:
    """Return the hash of the whole sequence, the last of `prefix_keys`; 0 for an empty one."""
    key = 0
    for key in prefix_keys(ids):  # noqa: B007 - only the last one counts
        pass
    return key


@dataclass(frozen=True, slots=True)
class KeptSample:
    """A finished sample: its prompt and answer as ids, and the state after some of them. Where no state could be saved,
    `state` has no payload; it counts towards the budget all the same."""

    ids: tuple[int, ...]
    state: Snapshot
    expires_s: float

    @property
    def snapshot(self) -> Snapshot | None:
        return self.state if self.state.payload is not None else None


@dataclass(slots=True)
class KeptSamples:
    """Finished samples by (id, index), for `ttl_s`. A sample whose state is evicted is forgotten."""

    tiers: Tiers
    ttl_s: float
    _entries: OrderedDict[tuple[str, int], KeptSample] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: tuple[str, int], ids: tuple[int, ...], snapshot: Snapshot | None, now_s: float) -> float:
        """Keep a finished sample; return for how many seconds, if it is not evicted before."""
        self.expire(now_s)
        self._drop(key)
        state = snapshot or Snapshot(len(ids), None, 0)
        state.size_bytes += ID_BYTES * len(ids)
        self._entries[key] = KeptSample(ids, state, now_s + self.ttl_s)
        if not self.tiers.hold(state, lambda: self._forget(key)):
            self._forget(key)
        return self.ttl_s if key in self._entries else 0.0

    def get(self, key: tuple[str, int], now_s: float) -> KeptSample | None:
        """Return the kept sample and renew its time to live; None if it expired or was evicted."""
        self.expire(now_s)
        kept = self._entries.pop(key, None)
        if kept is not None:
            kept = KeptSample(kept.ids, kept.state, now_s + self.ttl_s)
            self._entries[key] = kept
            self.tiers.touch(kept.state)
        return kept

    def expire(self, now_s: float) -> None:
        """Drop the entries that have expired; they are in the order of expiry."""
        while self._entries and next(iter(self._entries.values())).expires_s <= now_s:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: tuple[str, int]) -> None:
        kept = self._entries.pop(key, None)
        if kept is not None:
            self.tiers.release(kept.state)

    def _forget(self, key: tuple[str, int]) -> None:
        del self._entries[key]
