"""The reaper's task: look up the markers, weigh the evidence, and act on it if the operator allows it.

The processes are sampled by the watch of the GPUs. Reaps run side by side, but never two for one process.
"""

import asyncio
import time
import uuid as uuids
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rwkv_daemon.changes.caller import the_daemon
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.zombies import evidence, policy, reaper, wording
from rwkv_daemon.gpus.zombies.act_record import ReapAct, ReapOutcome
from rwkv_daemon.gpus.zombies.evidence import Evidence, GraceWindow
from rwkv_daemon.gpus.zombies.process_tracker import StoredAttempt, TrackedProcess
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.gpu_facts import Gpu
from rwkv_daemon.rules.roles import Actor
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.zombie_acts import attempts_of, by_itself_since, unfinished
from rwkv_daemon.store.wall_time import now

PERIOD_S: Final = 1.0
ORDER_S: Final = 600.0
"""An operator's order that is older is not carried out by a daemon that was restarted."""
LOOK_S: Final = 60.0
BLIND: Final = "the next one did not see the GPUs in time, and sent no signal"
GHOST_S: Final = 300.0
"""Drivers are slow to forget, so a pid that NVML lists and no process has must last so long before the GPU is
quarantined."""


async def watch(work: NodeWork, gpus: Gpus) -> None:
    """Run until cancelled; first finish what an earlier daemon began."""
    async with asyncio.TaskGroup() as tasks:
        await finish(work, gpus, tasks)
        while True:
            try:
                await round_of(work, gpus)
            except StoreError as error:
                log.error("zombies: the store cannot be used (%s); nothing is ended meanwhile", error)
            except Exception:  # noqa: BLE001 - logged; a daemon that ends here would recur at every start
                log.exception("a round of the reaper failed; it goes on with the next")
            try:
                async with asyncio.timeout(PERIOD_S):
                    start(work, gpus, tasks, await gpus.tracker.reaper_state.orders.get())
            except TimeoutError:
                continue


def start(work: NodeWork, gpus: Gpus, tasks: asyncio.TaskGroup, act: ReapAct, *, resumed: bool = False) -> None:
    """Start the task that carries out a reap."""
    tasks.create_task(run(work, gpus, act, resumed=resumed), name=f"reap {act.process.pid}")


async def run(work: NodeWork, gpus: Gpus, act: ReapAct, *, resumed: bool) -> None:
    """Carry out one reap; its `done` is set in any case."""
    try:
        if resumed:
            await looked_again(work.records, work.waiting, gpus, act)
        outcome = await reaper.carry_out(work, gpus, act, resumed=resumed)
    except TimeoutError:
        outcome = ReapOutcome(
            "interrupted", f"The daemon died while it was ending {wording.name(act.process)}: {BLIND}."
        )
        await reaper.conclude(work.records, work.engines, gpus, act, outcome)
    except StoreError as error:
        outcome = ReapOutcome("not-touched", f"Nothing was done: the store cannot be written ({error}).")
    except Exception as error:  # noqa: BLE001 - one act fails with it instead of the daemon
        log.exception("the end of pid %d failed", act.process.pid)
        outcome = ReapOutcome("interrupted", f"Internal error of the daemon ({type(error).__name__}); see its log.")
    finally:
        gpus.tracker.reaper_state.acting.pop(act.key, None)
    if not act.done.done():
        act.done.set_result(outcome)


async def looked_again(records: Records, waiting: WaitingJobs, gpus: Gpus, act: ReapAct) -> None:
    """Wait until this daemon has sampled the GPUs itself and knows whose the process is: nothing is ended because of an
    earlier daemon's samples. Raises TimeoutError."""
    async with asyncio.timeout(LOOK_S):
        while True:
            held_gpus = [gpus.by_id[gpu] for gpu in act.gpus if gpu in gpus.by_id]
            standing = await standing_of(records, waiting, gpus, held_gpus)
            held = any(key(one) == act.key for one in gpus.tracker.all())
            known = not held or act.process.marker in {"", *gpus.tracker.attempts}
            if known and evidence.complete(policy.always(standing)):
                return
            await asyncio.sleep(0.1)


def order(gpus: Gpus, act: ReapAct) -> ReapAct:
    """Queue a reap; returns the one in progress for this process, which may be an earlier one."""
    reaper_state = gpus.tracker.reaper_state
    if act.key not in reaper_state.acting:
        reaper_state.acting[act.key] = act
        reaper_state.orders.put_nowait(act)
    return reaper_state.acting[act.key]


async def finish(work: NodeWork, gpus: Gpus, tasks: asyncio.TaskGroup) -> None:
    """Handle intents without an outcome. What an operator ordered goes on, on the same process only; an automatic reap
    is closed and begins again with its evidence; so is an order that is too old."""
    try:
        rows = await unfinished(work.records.store)
    except StoreError as error:
        log.error("what an earlier daemon was ending cannot be read: %s", error)
        return
    for row in rows:
        act = ReapAct.of(row)
        fresh = abs(ago_s(row["at"], datetime.fromisoformat(now()))) < ORDER_S
        if act.automatic or not fresh or act.process.boot_id != gpus.tracker.machine.boot_id():
            who = wording.name(act.process)
            outcome = ReapOutcome("interrupted", f"The daemon died while it was ending {who}.")
            await reaper.conclude(work.records, work.engines, gpus, act, outcome)
        else:
            gpus.tracker.reaper_state.acting[act.key] = act
            start(work, gpus, tasks, act, resumed=True)


async def round_of(work: NodeWork, gpus: Gpus) -> None:
    """Check every orphan once: end those that the policy and their evidence allow, ask about the others."""
    await learn(work, gpus)
    await close_gpus(work.records, work.engines, gpus)
    all_tracked = gpus.tracker.all()
    gpus.tracker.reaper_state.asked &= {key(one) for one in all_tracked}
    for tracked in all_tracked:
        if tracked.rule.name == "orphan":
            await judge(work.records, work.waiting, gpus, tracked)


async def learn(work: NodeWork, gpus: Gpus) -> None:
    """Ask the store about markers: unknown ones, and those that ran when it was asked last."""
    ours = {handle.row.uuid for handle in work.engines.live.values()}
    ours |= {handle.worker.uuid for handle in work.running.runners.values()}
    wanted = gpus.tracker.wanted() - ours
    if not wanted:
        return
    rows = await attempts_of(work.records.store, wanted)
    found: dict[str, StoredAttempt] = {marker: StoredAttempt("", "not ours") for marker in wanted - set(rows)}
    for marker, row in rows.items():
        ended = datetime.fromisoformat(row["ended"]) if row["ended"] else None
        if row["engine"]:
            name, log_file = f"e{row['engine']}", work.records.engine_folder(row["engine"]) / "log.txt"
        else:
            name, log_file = f"j{row['job']}", work.records.folder(row["job"]).log(row["number"])
        found[marker] = StoredAttempt(name, "ended" if ended else "runs", ended, str(log_file))
    gpus.tracker.learn(found)


async def close_gpus(records: Records, engines: Engines, gpus: Gpus) -> None:
    """Quarantine GPUs that a process holds and that nothing can free."""
    clock = time.monotonic()
    hopeless = {
        gpu: holder.why for one in gpus.tracker.all() if one.rule.name == "stuck" for gpu, holder in one.holders.items()
    }
    for gpu, pid, lasts_s in gpus.tracker.ghosts(clock):
        if lasts_s >= GHOST_S:
            hopeless[gpu] = wording.absent(pid, "ghost", lasts_s)
    fresh = {gpu: why for gpu, why in hopeless.items() if gpu not in gpus.tracker.reaper_state.closed}
    gpus.tracker.reaper_state.closed &= set(hopeless)
    if not fresh:
        return
    async with records.change() as change:
        for gpu, why in fresh.items():
            await condition_store.quarantine(records, engines, gpus, change, gpu, why)
    gpus.tracker.reaper_state.closed |= set(fresh)


async def judge(records: Records, waiting: WaitingJobs, gpus: Gpus, tracked: TrackedProcess) -> None:
    """Handle an orphan: end it, tell the operator that it may be ended, or wait for more evidence."""
    found = gathered(records, gpus, tracked)
    mode = records.config.settings.reap
    if mode == "off" or not evidence.complete(found):
        return
    if mode == "ask":
        await ask(records, gpus, tracked)
        return
    conditions = await preconditions(records, waiting, gpus, tracked, by_itself=True)
    if evidence.complete(conditions):
        order(gpus, act_of(tracked, the_daemon(), (*found, *conditions), automatic=True))


def gathered(records: Records, gpus: Gpus, tracked: TrackedProcess) -> tuple[Evidence, ...]:
    """Return the evidence about an orphan: it must hold on each of its GPUs."""
    settings = records.config.settings
    window = GraceWindow(settings.reap_grace_s, settings.reap_idle_s)
    attempt = gpus.tracker.attempts[tracked.process.marker].now()
    clock = time.monotonic()
    each = [
        evidence.gather(tuple(observations), ended_s=attempt.ended_s, clock=clock, window=window)
        for observations in tracked.observations.values()
    ]
    every = [next((one for one in same if not one.holds), same[0]) for same in zip(*each, strict=True)]
    return tuple(every) or evidence.gather((), ended_s=attempt.ended_s, clock=clock, window=window)


async def ask(records: Records, gpus: Gpus, tracked: TrackedProcess) -> None:
    """Tell the operator once that an orphan may be ended."""
    if key(tracked) in gpus.tracker.reaper_state.asked:
        return
    async with records.change() as change:
        await change.note("zombie", text=request(gpus, tracked), data={"pid": tracked.process.pid})
    gpus.tracker.reaper_state.asked.add(key(tracked))


def request(gpus: Gpus, tracked: TrackedProcess) -> str:
    """Return the sentence for the operator, with the command that ends the orphan."""
    where = " and ".join(reaper.label(gpus, gpu) for gpu in tracked.holders)
    held = sum(holder.bytes or 0 for holder in tracked.holders.values())
    size = f"{held / reaper.GIB:.1f} GiB of " if held else ""
    why = next(iter(tracked.holders.values())).why
    return f"{size}{where}: {why}; `{command(tracked)}` ends it"


def command(tracked: TrackedProcess) -> str:
    """Return the `rwkvctl reap` command line with which an operator ends the process."""
    return f"rwkvctl reap {tracked.process.pid} --start {tracked.process.stat.start_ticks} --yes"


def key(tracked: TrackedProcess) -> tuple[int, int]:
    return tracked.process.pid, tracked.process.stat.start_ticks


def act_of(
    tracked: TrackedProcess, actor: Actor, findings: tuple[Evidence, ...], *, automatic: bool, name: str = ""
) -> ReapAct:
    """Return the reap of a process; `name` is the id of the request that asked for it."""
    held = {gpu: holder.bytes for gpu, holder in tracked.holders.items()}
    return ReapAct(name or str(uuids.uuid4()), tracked.process, tracked.rule.name, held, automatic, actor, findings)


async def preconditions(
    records: Records, waiting: WaitingJobs, gpus: Gpus, tracked: TrackedProcess, *, by_itself: bool
) -> tuple[Evidence, ...]:
    """Return the conditions under which anything may be ended on this node now."""
    standing = await standing_of(
        records, waiting, gpus, [gpus.by_id[gpu] for gpu in tracked.holders if gpu in gpus.by_id]
    )
    return policy.always(standing) + (policy.by_itself(standing, tuple(tracked.holders)) if by_itself else ())


async def standing_of(records: Records, waiting: WaitingJobs, gpus: Gpus, held: Sequence[Gpu]) -> policy.NodeStatus:
    """Return the node, and these GPUs, as the policy sees them."""
    settings, tracker = records.config.settings, gpus.tracker
    since = (datetime.now(UTC) - timedelta(seconds=policy.PER_NODE_S)).isoformat(timespec="milliseconds")
    recent = await by_itself_since(records.store, since.replace("+00:00", "Z"))
    moment = datetime.fromisoformat(now())
    begun = {act.id: tuple(act.gpus) for act in tracker.reaper_state.acting.values() if act.automatic}
    stored = [(ago_s(at, moment), held) for act, at, held in recent if act not in begun]
    draining = waiting.pauses.draining
    return policy.NodeStatus(
        mode=settings.reap,
        age_s=time.monotonic() - gpus.watch_state.seen_at if gpus.watch_state.seen_at else None,
        freshest_s=settings.sampler_deadline_s,
        fault=next((gpu.reading.trouble for gpu in held if gpu.reading.trouble), "") or gpus.watch_state.self_test,
        contained=tracker.contained,
        draining=draining.sentence if draining else "",
        recent=[*stored, *((0.0, held) for held in begun.values())],
    )


def ago_s(at: str, moment: datetime) -> float:
    """Return the seconds between a time of the store and `moment`."""
    return (moment - datetime.fromisoformat(at)).total_seconds()
