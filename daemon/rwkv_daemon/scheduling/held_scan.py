"""The progress of checking held jobs (see `planning.held_jobs`)."""

from dataclasses import dataclass, field

from rwkv_daemon.rules.plan import KindFact, ModelFact


@dataclass(slots=True)
class HeldScan:
    """One check of all held jobs, a page per round: what is read from the disk is read once, however many there are."""

    begun: float
    models: dict[str, ModelFact]
    disk_low: bool
    after: int = 0
    kinds: dict[tuple[str, str, str], KindFact | str] = field(default_factory=dict)


@dataclass(slots=True)
class HeldScanState:
    """The surroundings at the last check, when it began and ended, held jobs' checkpoints outside the weights folder,
    whether any job waits for another one of the same work (`twins`), and the check in progress (`now`)."""

    begun: float = float("-inf")
    ended: float = float("-inf")
    surroundings: tuple[object, ...] = ()
    elsewhere: tuple[str, ...] = ()
    twins: bool = False
    now: HeldScan | None = None
