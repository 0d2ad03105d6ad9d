"""How far the look at held jobs has come (see `planning.held_jobs`)."""

from dataclasses import dataclass, field

from rwkv_daemon.rules.plan import KindFact, ModelFact


@dataclass(slots=True)
class HeldScan:
    """One look at all held jobs, a page a round: what is asked of the disk is asked once, however many there are."""

    begun: float
    models: dict[str, ModelFact]
    disk_low: bool
    after: int = 0
    kinds: dict[tuple[str, str, str], KindFact | str] = field(default_factory=dict)


@dataclass(slots=True)
class HeldScanState:
    """What was there at the last look, when it began and ended, held jobs' checkpoints that lie elsewhere, whether
    any waits for another job of the same work (`twins`), and the look that is under way."""

    begun: float = float("-inf")
    ended: float = float("-inf")
    surroundings: tuple[object, ...] = ()
    elsewhere: tuple[str, ...] = ()
    twins: bool = False
    now: HeldScan | None = None
