"""How long work will take, from what the same or similar work took. Pure. Without such a measurement it stays unknown.

A rate is what one sample costs in seconds of one engine that does nothing else, so that it holds whether a job shared
its engine or had several. It is looked up for the same (weights, benchmark, kind) first, then for a model of the same
size, then for any size in proportion to it: always in the same numerics on the same kind of device.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Basis = Literal["same", "size", "scaled"]
"""What an estimate is based on: this very work, a model of its size, or a model of another size."""
SAME_SIZE: Final = 0.1
"""Files whose sizes differ by less than a tenth are models of one size."""
SETTLED: Final = 32
"""Samples after which a job's own pace is a better estimate than earlier measurements."""


class RateKey(NamedTuple):
    """What a rate depends on beside the model."""

    benchmark: str
    kind: str
    numerics: str
    device: str


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A measured rate. `size`: bytes of the checkpoint file, 0 if it is not known any more."""

    weights: str
    place: RateKey
    sample_s: float
    samples: int
    size: int = 0


@dataclass(slots=True)
class MeasuredRates:
    """Every rate, by the keys of the look-up. `changes` counts what was added."""

    changes: int = 0
    by_weights: dict[tuple[str, RateKey], MeasuredRate] = field(default_factory=dict)
    by_place: dict[RateKey, dict[str, MeasuredRate]] = field(default_factory=dict)

    @classmethod
    def of(cls, rates: Iterable[MeasuredRate]) -> "MeasuredRates":
        found = cls()
        for rate in rates:
            found.put(rate)
        return found

    def put(self, rate: MeasuredRate) -> None:
        """Add a rate, in place of an older one of the same work."""
        self.changes += 1
        self.by_weights[rate.weights, rate.place] = rate
        self.by_place.setdefault(rate.place, {})[rate.weights] = rate

    def sample_s(self, weights: str, size: int, place: RateKey) -> tuple[float, Basis] | None:
        """Return the seconds of an engine for one sample, and what that is based on; None if there is no history."""
        if (same := self.by_weights.get((weights, place))) is not None:
            return same.sample_s, "same"
        others = [rate for rate in self.by_place.get(place, {}).values() if rate.size]
        if not others or not size:
            return None
        near = min(others, key=lambda rate: abs(rate.size - size))
        if abs(near.size - size) <= SAME_SIZE * size:
            return near.sample_s, "size"
        return near.sample_s * size / near.size, "scaled"


def blended(old: MeasuredRate | None, sample_s: float, samples: int) -> tuple[float, int]:
    """Return (rate, samples) with a new measurement included: the mean over samples, but no more old ones than new, so
    that it follows a machine that has changed."""
    if old is None:
        return sample_s, samples
    weight = min(old.samples, samples)
    return (old.sample_s * weight + sample_s * samples) / (weight + samples), old.samples + samples


@dataclass(slots=True)
class EngineTimeMeter:
    """Engine time that a running job has used since it is watched, and the samples it made in it."""

    first_done: int = 0
    engine_s: float = 0.0
    samples: int = 0

    def note(self, engine_s: float, done: int | None = None) -> None:
        """Add engine time; `done` is the number of samples by now, if that is known."""
        self.engine_s += engine_s
        if done is not None:
            self.samples = done - self.first_done

    @property
    def sample_s(self) -> float | None:
        """Return the seconds of an engine per sample; None until there are enough samples."""
        return self.engine_s / self.samples if self.samples >= SETTLED and self.engine_s > 0 else None

    def disproves(self, expected_s: float) -> bool:
        """Whether it has worked longer than all of it should take and still has no pace of its own: then the estimate
        from other runs does not hold."""
        return self.sample_s is None and self.engine_s > expected_s
