"""The health line at the top: whether the daemon answers, anything is wrong, or a device is idle. Pure."""

from collections.abc import Sequence
from typing import Final

from rwkvctl.cli.render import clock
from rwkvctl.protocol.views import EngineView, LeaseView
from rwkvctl.text.quantities import all_done, duration, size
from rwkvctl.text.sanitize import fit, safe_line
from rwkvctl.tui.daemon.job_reason import reason
from rwkvctl.tui.daemon.state import ConsoleState, seconds, stamp
from rwkvctl.tui.widgets.strips import Pieces

WIDE: Final = 100
SLOW_S: Final = 3.0
"""An event that is older than this when it comes is late."""

DAY_S: Final = 86400.0
"""For so long a failure is news."""

ALERT, WHOLE = 58, 400
"""Cells of an alert: of several each has its part of the line."""


def health(state: ConsoleState, now: float, width: int, path: Sequence[str] = ()) -> Pieces:
    """Who, since when, devices, jobs, and where we are if the line below does not say it; or why nothing is heard."""
    name = [(" rwkvctl ", "badge"), (f" {state.node or '?'} ", "bold")]
    if state.problem:
        return [*name, *gone(state, now)]
    up = duration(now - state.started) if state.started else "?"
    found = [*name, ("● ", "ok"), (f"daemon up {up} " if width >= WIDE else f"up {up} ", ""), *devices(state)]
    found += jobs(state, words=width >= WIDE)
    found += [(" ‖ paused", "warn")] if state.pauses else []
    found += [(" ✗ store", "bad")] if state.trouble else []
    if width >= WIDE:
        found += speed(state)
        found += [("  disk ", "dim"), (size(state.disk_free_bytes), ""), (" free", "dim")]
        found += lag(state)
    return [*found, *[(f" › {step}", "title") for step in path]]


def gone(state: ConsoleState, now: float) -> Pieces:
    """Return since when the daemon has not answered, when the next try is, and how old the state is."""
    if not state.heard_at:
        return [("○ ", "warn"), (f"reconnecting: {state.problem}", "warn")]
    since, left = duration(now - state.lost_at), duration(max(0.0, state.retry_at - now))
    said = [("○ ", "bad"), (f"daemon gone {since}, reconnecting in {left} (^r now)", "bad")]
    at = clock(stamp(state.heard_at))
    return [*said, (f" · as of {at}", "dim"), (f" · {state.problem}", "dim")]


def devices(state: ConsoleState) -> Pieces:
    """Return how many devices there are, how many are busy, and how many need attention."""
    leases = list(state.leases.values())
    kind = "CPU" if all(lease.id.startswith("cpu") for lease in leases) else "GPU"
    busy = sum(
        lease.use == "busy" or (lease.use == "leased" and not is_warm(engines_on(lease, state))) for lease in leases
    )
    wrong = sum(needs_somebody(lease) for lease in leases)
    idle = len(leases) - busy - wrong
    found = [(f" {len(leases)} {kind} ", "dim"), (f"{busy}▸", "ok" if busy else "dim")]
    found += [(f" {idle}○", "info")] if idle else []
    return found + ([(f" {wrong}!", "bad")] if wrong else [])


def engines_on(lease: LeaseView, state: ConsoleState) -> tuple[EngineView, ...]:
    return tuple(engine for engine in state.engines.values() if engine.lease == lease.id)


def is_warm(engines: Sequence[EngineView]) -> bool:
    """Return whether the engines are ready and without work: they wait for a job, or to be unloaded."""
    idle = (one.state == "ready" and not (one.jobs or one.running or one.waiting) for one in engines)
    return bool(engines) and all(idle)


def needs_somebody(lease: LeaseView) -> bool:
    """Return whether a device is unusable until an operator attends to it."""
    return lease.use in {"zombie", "unknown"} or lease.condition in {"suspect", "quarantined"}


def jobs(state: ConsoleState, *, words: bool) -> Pieces:
    """Return how many jobs run, wait, need attention, and failed."""
    groups = (("▸", "ok", ("starting", "generating", "grading", "judging", "stopping")), ("◌", "info", ("queued",)),
              ("!", "warn", ("held",)), ("‖", "dim", ("paused",)), ("✗", "bad", ("failed",)))  # fmt: skip
    sums = [(sum(state.counts.get(name, 0) for name in names), mark, role) for mark, role, names in groups]
    found = [(f" {count:,}{mark}", role) for count, mark, role in sums if count]
    return [("  jobs" if words else "  j", "dim"), *found] if found else [("  no jobs waiting or running", "dim")]


def alerts(state: ConsoleState) -> Pieces:
    """Return the alerts, the worst first; if there are none, that and when all jobs are done; if the daemon does not
    answer, since when they are not known."""
    if state.problem:
        return [(f" alerts: {state.unknown}", "warn")]
    lost = [lease for lease in state.leases.values() if needs_somebody(lease)]
    found = store(state)
    found += [(f"! {called(one)} {one.use} (K): {one.why or one.reason or one.condition}", "bad") for one in lost]
    failed = [job for job in state.ended if job.state == "failed" and seconds(job.finished) > state.heard_at - DAY_S]
    found += [(f"✗ {len(failed)} failed, last {failed[0].id}: {failed[0].detail}", "bad")] if failed else []
    words = {"queue": "the queue is paused", "node": "the node is draining", "judge": "the judge is paused"}
    for one in state.pauses:
        what = words.get(one.scope, f"{one.scope} {one.name} is paused")
        found.append((f"‖ {what} by {one.who}" + (f": {one.why}" if one.why else ""), "warn"))
    held = [job for job in state.waiting if job.state == "held"]
    if held:
        found.append((f"! {state.counts.get('held', 0):,} held, first {held[0].id}: {reason(held[0])}", "warn"))
    away = [job for job in state.running if job.reason == "endpoint-away"]
    found += [(f"! {len(away)} wait at their endpoint, first {away[0].id}: {away[0].detail}", "warn")] if away else []
    found += idle(state)
    if not found:
        return [(" no alerts", "dim"), (f" · {end}" if (end := drained(state)) else "", "")]
    room = ALERT if len(found) > 1 else WHOLE
    return [(f" {fit(safe_line(text), room)} ", role) for text, role in found]


def store(state: ConsoleState) -> list[tuple[str, str]]:
    """Return why the store cannot be used, and how old the shown jobs are."""
    if not state.trouble:
        return []
    of = f" · jobs as of {state.stale}" if state.stale else ""
    return [(f"! {state.trouble}{of}", "bad")]


def called(lease: LeaseView) -> str:
    """Return a device's short name: `gpu INDEX`, or its id if it has no index."""
    return f"gpu {lease.index}" if lease.index else lease.id


def idle(state: ConsoleState) -> list[tuple[str, str]]:
    """Return a notice that names the free devices while jobs are queued; empty if there are none."""
    queued = [job for job in state.waiting if job.state == "queued"]
    free = [called(lease) for lease in state.leases.values() if lease.use == "free" and not needs_somebody(lease)]
    if not queued or not free:
        return []
    return [(f"○ {', '.join(free)} idle while {len(queued)} wait: {reason(queued[0])}", "info")]


def drained(state: ConsoleState) -> str:
    """Return when all queued jobs are expected to be done, or why there is no ETA; empty if nothing waits."""
    said = all_done(state.eta_s, state.not_estimated) if state.waiting or state.running else ""
    if state.not_estimated or not said:
        return said
    return f"{said}, {clock(stamp(state.heard_at + (state.eta_s or 0.0)))[:5]}"


def speed(state: ConsoleState) -> Pieces:
    """Return decode and prefill speed of all engines together in tokens/s."""
    total = sum(engine.decode_tokens_per_s + engine.prefill_tokens_per_s for engine in state.engines.values())
    return [("  tok/s ", "dim"), (thousands(total), "")]


def thousands(value: float) -> str:
    """A rate in few cells: `480`, `480k`, `4,010k`."""
    return f"{value / 1000:,.0f}k" if value >= 10_000 else f"{value:,.0f}"


def lag(state: ConsoleState) -> Pieces:
    """Return how late events arrive, if they do."""
    return [(f"  events {duration(state.lag_s)} late", "warn")] if SLOW_S < state.lag_s < 3600 else []
