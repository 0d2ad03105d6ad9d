"""The funnel of a recipe: how many came into each stage, how many went out, and why the others did not."""

from collections import Counter
from collections.abc import Mapping

import msgspec


class FunnelStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage. `unit` is what it counts: samples, problems, pairs or rows. The counts of `dropped` are by reason; what
    is not among them came in and is still being worked on."""

    name: str
    unit: str
    rows_in: int
    rows_out: int
    dropped: Mapping[str, int] = {}


def stage(name: str, unit: str, rows_in: int, dropped: Mapping[str, int]) -> FunnelStage:
    """Return a finished stage: what was not dropped went out. The commonest reason is the first."""
    ordered = {why: count for why, count in Counter(dropped).most_common() if count}
    return FunnelStage(name=name, unit=unit, rows_in=rows_in, rows_out=rows_in - sum(ordered.values()), dropped=ordered)
