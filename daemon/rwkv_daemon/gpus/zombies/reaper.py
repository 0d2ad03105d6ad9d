"""Carrying out a reap: intent stored, SIGTERM, a while, another check, SIGKILL once, and then: is the memory free?

Every row is stored before what it says is done, except the outcome, which is retried until it is stored: the store may
not know yet that a process has ended, but no signal is ever sent that the store does not know of.
"""

import asyncio
import os
import signal
import time
from typing import Final

from rwkv_daemon.changes import audit
from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store, presenter
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.zombies import wording
from rwkv_daemon.gpus.zombies.act_record import ReapAct, ReapOutcome
from rwkv_daemon.gpus.zombies.kill_act import GoneError, NotTouchedError, check, seize
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.zombie_acts import add_step
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_daemon.workers.worker_process import send

KILL_S: Final = 30.0
"""How long a process may take to end after SIGKILL; one that takes longer is stuck in the kernel."""

RELEASE_S: Final = 30.0
"""How long NVML may take to count the memory of an ended process as free."""

SETTLE_S: Final = 1.5
"""A sample that began before the process ended may arrive after it: only later ones are used."""

RETRY_S: Final = 2.0
GIB: Final = 2**30


async def carry_out(work: NodeWork, gpus: Gpus, act: ReapAct, *, resumed: bool = False) -> ReapOutcome:
    """End one process, and return what came of it. Raises StoreError before anything was done."""
    before = act.before if resumed else memory(gpus, act)
    if not resumed:
        await begin(work.records, act, before)
    outcome = await attempt(work, gpus, act, before, resumed=resumed)
    await conclude(work.records, work.engines, gpus, act, outcome)
    return outcome


async def begin(records: Records, act: ReapAct, before: int | None) -> None:
    """Store the intent, before the first signal."""
    crash_point("reap-before-intent")
    who = wording.name(act.process)
    async with records.change() as change:
        await add_step(change.db, act.columns(), "intent", memory_bytes=before)
        await audit.record(change.db, act.actor, "reap", f"pid {act.process.pid}", "intent", detail(act))
        by = "the daemon" if act.automatic else act.actor.name
        await change.note("zombie", text=f"{who} is being ended by {by}", data=detail(act))
    crash_point("reap-after-intent")


async def attempt(work: NodeWork, gpus: Gpus, act: ReapAct, before: int | None, *, resumed: bool) -> ReapOutcome:
    """Send the signals. If the process of a resumed reap is gone, the signal of the earlier daemon ended it."""
    started = time.monotonic()
    try:
        pidfd = await asyncio.to_thread(seize, work, gpus, act)
    except NotTouchedError as error:
        if resumed and isinstance(error, GoneError):
            return await released(gpus, act, before, f"{wording.name(act.process)} ended while the daemon was away")
        return ReapOutcome("not-touched", f"Nothing was done: {error}.")
    try:
        sent = await signals(work, gpus, act, pidfd)
    except NotTouchedError as error:
        return ReapOutcome("not-touched", f"SIGTERM was sent, and then nothing more: {error}.")
    except StoreError as error:
        return ReapOutcome("not-touched", f"No further signal was sent: the store cannot be written ({error}).")
    except PermissionError:
        return ReapOutcome("not-touched", f"The kernel does not let this daemon signal pid {act.process.pid}.")
    finally:
        os.close(pidfd)
    if not sent:
        return ReapOutcome("still-there", f"{wording.name(act.process)} is still there {KILL_S:.0f} s after SIGKILL.")
    took = time.monotonic() - started
    return await released(gpus, act, before, f"{wording.name(act.process)} ended after {sent} in {took:.1f} s")


async def signals(work: NodeWork, gpus: Gpus, act: ReapAct, pidfd: int) -> str:
    """Send SIGTERM, and SIGKILL once if that was not enough; returns the last one sent, or nothing if the process still
    exists. Raises NotTouchedError if it may not be killed any more."""
    for number, patience_s in ((signal.SIGTERM, work.records.config.settings.stop_term_s), (signal.SIGKILL, KILL_S)):
        if number is signal.SIGKILL:
            try:
                await asyncio.to_thread(check, work, gpus, act)
            except NotTouchedError:
                if await ended(pidfd, 0):
                    return "SIGTERM"
                raise
        async with work.records.change() as change:
            await add_step(change.db, act.columns(), number.name, memory_bytes=memory(gpus, act))
        crash_point(f"reap-before-{number.name}")
        send(pidfd, number)
        crash_point(f"reap-after-{number.name}")
        if await ended(pidfd, patience_s):
            return number.name
    return ""


async def ended(pidfd: int, patience_s: float) -> bool:
    """Whether the process ends within that time: its pidfd becomes readable."""
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, gone.set)
    try:
        async with asyncio.timeout(patience_s + 0.05):
            await gone.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True


async def released(gpus: Gpus, act: ReapAct, before: int | None, what: str) -> ReapOutcome:
    """Return whether NVML confirms that the memory is free: nothing is called freed before that."""
    gone_at = time.monotonic()
    where = " and ".join(label(gpus, gpu) for gpu in act.gpus)
    while time.monotonic() - gone_at < RELEASE_S:
        if gpus.watch_state.seen_at > gone_at + SETTLE_S and is_released(gpus, act, before):
            after = memory(gpus, act)
            freed = "its memory"
            if before is not None and after is not None:
                freed = f"{max(0, before - after) / GIB:.1f} GiB"
            return ReapOutcome("freed", f"{what}; {freed} on {where} is free again.")
        await asyncio.sleep(0.1)
    return ReapOutcome("not-freed", f"{what}; NVML still counts its memory on {where} after {RELEASE_S:.0f} s.")


def is_released(gpus: Gpus, act: ReapAct, before: int | None) -> bool:
    """Whether NVML lists the process nowhere, and at least half of its memory is free again (others may have come
    meanwhile)."""
    for gpu in act.gpus:
        reading = gpus.by_id[gpu].reading if gpu in gpus.by_id else None
        if reading is None or reading.trouble or reading.processes is None:
            return False
        if any(process.pid == act.process.pid for process in reading.processes):
            return False
    held, after = sum(size or 0 for size in act.gpus.values()), memory(gpus, act)
    return before is None or after is None or after <= before - held // 2


async def conclude(records: Records, engines: Engines, gpus: Gpus, act: ReapAct, outcome: ReapOutcome) -> None:
    """Store the outcome, however long that takes: no reap is left without one."""
    crash_point("reap-before-outcome")
    while True:
        try:
            async with records.change() as change:
                await write_outcome(records, engines, gpus, change, act, outcome)
        except StoreError as error:
            log.error("what came of pid %d cannot be stored yet (%s): %s", act.process.pid, outcome.text, error)
            await asyncio.sleep(RETRY_S)
        else:
            crash_point("reap-after-outcome")
            return


async def write_outcome(
    records: Records, engines: Engines, gpus: Gpus, change: Change, act: ReapAct, outcome: ReapOutcome
) -> None:
    """Store the outcome's row, the audit entry and the event; quarantine the GPU if a process cannot be ended."""
    memory_bytes = memory(gpus, act)
    await add_step(
        change.db, act.columns(), "outcome", outcome=outcome.word, text=outcome.text, memory_bytes=memory_bytes
    )
    target = f"pid {act.process.pid}"
    await audit.record(change.db, act.actor, "reap", target, outcome.word, {"text": outcome.text} | detail(act))
    await change.note("zombie", text=outcome.text, data=detail(act) | {"outcome": outcome.word})
    if outcome.word in {"still-there", "not-freed"}:
        for gpu in act.gpus:
            await condition_store.quarantine(records, engines, gpus, change, gpu, outcome.text)


def detail(act: ReapAct) -> dict[str, object]:
    """Return what identifies a reap in an event."""
    process = act.process
    return {
        "act": act.id,
        "pid": process.pid,
        "start_ticks": process.stat.start_ticks,
        "class": act.cls,
        "user": process.user,
        "command": process.command,
        "gpus": list(act.gpus),
    }


def memory(gpus: Gpus, act: ReapAct) -> int | None:
    """Return the bytes in use on the GPUs of a reap together; None if one is not known."""
    known = [gpus.by_id[gpu].reading.memory_used_bytes for gpu in act.gpus if gpu in gpus.by_id]
    if not known or None in known or len(known) < len(act.gpus):
        return None
    return sum(size for size in known if size is not None)


def label(gpus: Gpus, gpu: str) -> str:
    """Return the name that people use for a GPU; its UUID if it does not exist any more."""
    return presenter.label(gpus.by_id[gpu]) if gpu in gpus.by_id else gpu
