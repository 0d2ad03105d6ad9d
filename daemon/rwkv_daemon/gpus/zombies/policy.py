"""Whether processes may be ended on this node now: preconditions and rate limits. Pure; one false condition forbids
it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rwkv_daemon.gpus.zombies.evidence import Evidence

PER_GPU_S: Final = 600.0
PER_NODE_S: Final = 3600.0
MOST_PER_NODE: Final = 3
"""At most one reap per GPU in ten minutes and three per node in an hour, so that wrong rules cannot do harm for
long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The node at this moment. `age_s` is that of the newest sample of the GPUs, None if there was none; `fault` is why
    the process list cannot be trusted; `recent` are (seconds ago, GPUs) of automatic reaps."""

    mode: str
    age_s: float | None
    freshest_s: float
    fault: str
    contained: bool
    draining: str = ""
    recent: Sequence[tuple[float, tuple[str, ...]]] = ()


def always(standing: NodeStatus) -> tuple[Evidence, ...]:
    """Return the conditions of every reap, whoever asks for it."""
    age = "no sample yet" if standing.age_s is None else f"the last sample is {standing.age_s:.1f} s old"
    fresh = standing.age_s is not None and standing.age_s <= standing.freshest_s
    where = "in a PID namespace of its own: NVML's pids mean nothing here" if standing.contained else "in the machine's"
    return (
        Evidence("fresh", fresh, f"{age} (at most {standing.freshest_s:.0f})"),
        Evidence("self-test", not standing.fault, standing.fault or "NVML's process list is true of our own engines"),
        Evidence("namespace", not standing.contained, f"this daemon is {where}"),
    )


def by_itself(standing: NodeStatus, gpus: Sequence[str]) -> tuple[Evidence, ...]:
    """Return the further conditions of an automatic reap."""
    on_gpu = [ago for ago, where in standing.recent if ago < PER_GPU_S and set(where) & set(gpus)]
    on_node = [ago for ago, _ in standing.recent if ago < PER_NODE_S]
    return (
        Evidence("mode", standing.mode == "auto", f"reap = {standing.mode}"),
        Evidence("draining", not standing.draining, standing.draining or "the node is not drained"),
        Evidence("rate of the GPU", not on_gpu, f"{len(on_gpu)} in the last {PER_GPU_S / 60:.0f} min (at most 1)"),
        Evidence(
            "rate of the node",
            len(on_node) < MOST_PER_NODE,
            f"{len(on_node)} in the last {PER_NODE_S / 60:.0f} min (at most {MOST_PER_NODE})",
        ),
    )
