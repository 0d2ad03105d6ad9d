"""What the daemon holds in memory about leases: those of engines that are not started yet, and what it learned."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from rwkv_daemon.rules.gpu_facts import Gpu
from rwkv_daemon.store import EngineRow
from rwkv_daemon.store.queries.leases import FitRow

FRESH_S: Final = 0.25
"""A sample counts as made after a moment only if it arrived so long after it, as it takes a while to make."""
LOCKED_OUT_S: Final = 10.0
"""A lease whose lock another process holds is not tried again for so long."""


@dataclass(frozen=True, slots=True)
class Launching:
    """An engine whose lease is stored; it starts once a sample made after `since` (monotonic) shows its GPU free."""

    row: EngineRow
    slots: tuple[int, ...]
    since: float


@dataclass(slots=True)
class Leasing:
    """What is known of leases. `locked_out`: leases whose lock another process holds, with until when they are not
    tried (monotonic), and who holds it; `fits`: how many sequences fit, by weights, numerics and device."""

    launching: dict[int, Launching] = field(default_factory=dict)
    locked_out: dict[str, tuple[float, str]] = field(default_factory=dict)
    fits: dict[tuple[str, str, str], FitRow] = field(default_factory=dict)

    def fit(self, weights: str, numerics: str, device: str) -> FitRow:
        """Return what is known of engines of these weights on this kind of device."""
        known = self.fits.get((weights, numerics, device))
        return known or FitRow(weights_sha256=weights, numerics=numerics, device=device)

    def learn(self, fits: Iterable[FitRow]) -> None:
        for fit in fits:
            self.fits[fit.key] = fit

    def forget(self, weights: str) -> None:
        """Forget how many sequences fitted for these weights; how long they take to load stays known."""
        self.learn([replace(fit, slots=0, bytes=0) for fit in self.fits.values() if fit.weights_sha256 == weights])

    def lock_out(self, lease: str, who: str) -> None:
        """Leave a lease alone for `LOCKED_OUT_S` seconds, because `who` holds its lock."""
        self.locked_out[lease] = (time.monotonic() + LOCKED_OUT_S, who)

    def is_locked_out(self, lease: str) -> bool:
        return self.locked_out.get(lease, (0.0, ""))[0] > time.monotonic()


def last_look(gpu: Gpu | None, *, shared: bool) -> str:
    """Return why an engine is not to be started after all, by a sample made after its lease was stored; empty if it is.

    Another process may have come to the GPU meanwhile: an engine beside it would run out of memory, or disturb its
    timing.
    """
    if gpu is None:
        return "it is not there any more"
    if gpu.condition != "ok":
        return f"it is {gpu.condition}" + (f": {gpu.reason}" if gpu.reason else "")
    if gpu.use == "free" or (shared and gpu.use == "leased" and not gpu.contended):
        return ""
    return f"it is {gpu.use}" + (f": {gpu.why}" if gpu.why else "")
