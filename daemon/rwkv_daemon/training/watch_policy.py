"""Which checkpoints of a training run are measured, and in which order. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from rwkvctl.protocol.states import LeftOut, WatchPolicy
from rwkvctl.protocol.training.watches import FINAL_STEP

Stage = Literal["waits", "measured"]
"""`waits`: none of its jobs has begun, so another may take its place; `measured`: one has, or all are over."""


class StepOrder(NamedTuple):
    """Where in a training run a checkpoint belongs: by its step; those whose names say none come first, in the order in
    which they were written."""

    step: int
    modified_ns: int
    name: str


class WatchedCheckpoint(NamedTuple):
    """A checkpoint as the policy sees it. `is_wanted`: an operator wants it measured, whatever the policy says."""

    id: int
    order: StepOrder
    stage: Stage
    is_wanted: bool = False


class Reasoned(NamedTuple):
    """Why a checkpoint is left out."""

    left_out: LeftOut
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the checkpoints that wait: those that are measured, in their order, and why others are not."""

    measure: Sequence[int]
    superseded: Mapping[int, Reasoned]


def order_of(name: str, step: int | None, modified_ns: int) -> StepOrder:
    """Return where a checkpoint belongs in its run."""
    return StepOrder(-1 if step is None else step, modified_ns, name)


def decide(policy: WatchPolicy, every: int, found: Iterable[WatchedCheckpoint]) -> Decision:
    """Return what is to become of the checkpoints of one folder. `every`: only steps that are multiples of it (0:
    any)."""
    waiting, measured, superseded = list[WatchedCheckpoint](), list[WatchedCheckpoint](), dict[int, Reasoned]()
    for one in found:
        if one.stage == "measured":
            measured.append(one)
        elif one.is_wanted or not (reason := _not_due(one.order.step, every)):
            waiting.append(one)
        else:
            superseded[one.id] = Reasoned("not-due", reason)
    waiting.sort(key=lambda one: one.order)
    measured.sort(key=lambda one: one.order)
    chosen = _chosen(policy, waiting, measured)
    kept = {one.id for one in chosen} | {one.id for one in waiting if one.is_wanted}
    newest = next(iter([*chosen, *measured[-1:]]), None)
    for one in waiting:
        if newest is not None and one.id not in kept:
            superseded[one.id] = Reasoned("newer", _newer(newest.order, one.order))
    return Decision([one.id for one in waiting if one.id in kept], superseded)


def _not_due(step: int, every: int) -> str:
    """Return why a step is left out by `every`; empty if it is not."""
    if not every or step == FINAL_STEP:
        return ""
    if step < 0:
        return "its name says no step"
    return f"its step {step:,} is no multiple of {every:,}" if step % every else ""


def _chosen(
    policy: WatchPolicy, waiting: Sequence[WatchedCheckpoint], measured: Sequence[WatchedCheckpoint]
) -> Sequence[WatchedCheckpoint]:
    """Return those that the policy measures, the newest first; `waiting` and `measured` are in their order."""
    if policy == "all" or not waiting:
        return waiting
    chosen = _not_old(waiting, measured)[-1:]
    if policy == "first-and-last" and (not measured or waiting[0].order < measured[0].order):
        chosen.append(waiting[0])
    return chosen


def _not_old(waiting: Sequence[WatchedCheckpoint], measured: Sequence[WatchedCheckpoint]) -> list[WatchedCheckpoint]:
    """Return those than which nothing newer was measured: with a higher step, and not written before them, as in a run
    that begins anew in the same folder. What says no step is older than what says one."""
    orders = [one.order for one in measured]
    last_ns = list(accumulate((order.modified_ns for order in reversed(orders)), max))[::-1]
    found = []
    for one in waiting:
        later = bisect_right(orders, one.order)
        if later == len(orders) or (one.order.step >= 0 and last_ns[later] < one.order.modified_ns):
            found.append(one)
    return found


def _newer(newest: StepOrder, than: StepOrder) -> str:
    why = " (its name says a step)" if than.step < 0 <= newest.step else ""
    return f"{newest.name} is newer{why}"


def copies_without_original(copies: Mapping[int, str], held: Collection[str]) -> list[int]:
    """Return the copies that are to be measured themselves: `copies` has the sha256 of each, and what `held` has, by
    another name, is queued or measured. Of several with one content, the first is."""
    found: dict[str, int] = {}
    for number, sha256 in copies.items():
        if sha256 not in held:
            found.setdefault(sha256, number)
    return list(found.values())
