"""Answers about processes on GPUs: the list, every rule of one, and its end."""

import asyncio
import time
from typing import Final, Literal

import msgspec

from rwkv_daemon.changes import caller
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import presenter
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.zombies import gpu_holders, policy, reaper, reaper_task
from rwkv_daemon.gpus.zombies.classify import REAPABLE, rules
from rwkv_daemon.gpus.zombies.evidence import Evidence
from rwkv_daemon.gpus.zombies.kill_act import NotTouchedError, permit
from rwkv_daemon.gpus.zombies.process_tracker import TrackedProcess
from rwkv_daemon.rules.gpu_facts import Gpu, Holder
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store.interface import StoreRow
from rwkv_daemon.store.queries.zombie_acts import history, outcome_of
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.zombies import (
    ReapedView,
    ReapReply,
    ReapRequest,
    RuleView,
    ZombiesReply,
    ZombiesRequest,
    ZombieView,
)

HISTORY: Final = 20
ANSWER_S: Final = 100.0
"""How long `reap` waits for an outcome: with the default settings all steps together take 80 s at most."""


async def zombies(work: NodeWork, gpus: Gpus, request: ZombiesRequest) -> ZombiesReply:
    """Answer `GET /v1/zombies`: the processes that hold GPUs, and the outcomes of the last reaps. With a pid only that
    process, with every rule applied to it; raises RefusedError if it holds no GPU."""
    all_tracked = {one.process.pid: one for one in gpus.tracker.all()}
    found = [
        view(work.records, gpus, gpu, holder, all_tracked.get(holder.pid))
        for gpu in sorted(gpus.by_id.values(), key=presenter.place)
        for holder in gpu.holders
        if request.pid in {0, holder.pid}
    ]
    if request.pid:
        found = [await explained(work, gpus, one, all_tracked.get(one.pid)) for one in found]
        if not found:
            raise no_holder(gpus, request.pid)
    standing = await reaper_task.standing_of(work.records, work.waiting, gpus, ())
    why = next((finding.value for finding in policy.always(standing) if not finding.holds), "")
    reaped = tuple(map(reaped_view, await history(work.records.store, HISTORY)))
    return ZombiesReply(items=tuple(found), policy=work.records.config.settings.reap, observing=why, reaped=reaped)


def no_holder(gpus: Gpus, pid: int) -> RefusedError:
    """Return the error for a pid that is not known to hold a GPU."""
    dark = [presenter.label(gpu) for gpu in gpus.by_id.values() if gpu.reading.trouble]
    if dark:
        why = f"Who holds {' and '.join(dark)} is not known just now; process {pid} holds no other GPU."
        return RefusedError("no-holder", why, "See `rwkvctl gpus`.", Exit.NOT_FOUND)
    why, hint = f"Process {pid} holds no GPU of this node.", "See `rwkvctl zombies` for those that do."
    return RefusedError("no-holder", why, hint, Exit.NOT_FOUND)


def view(records: Records, gpus: Gpus, gpu: Gpu, holder: Holder, tracked: TrackedProcess | None) -> ZombieView:
    """Return a process that holds a GPU as clients see it; `tracked` is the latest look at it, if any."""
    same = tracked if tracked is not None and tracked.process.stat.start_ticks == holder.start_ticks else None
    return ZombieView(
        gpu=gpu.id,
        index=presenter.label(gpu).removeprefix("GPU "),
        pid=holder.pid,
        cls=holder.cls,
        start_ticks=holder.start_ticks,
        user=holder.user,
        uid=holder.uid,
        age_s=holder.age_s,
        memory_bytes=holder.bytes,
        state=holder.state,
        parent=holder.parent,
        command=holder.command,
        attempt=holder.attempt,
        container=holder.container,
        still_s=round(time.monotonic() - same.alive_at, 1) if same else None,
        verdict=verdict(records, gpus, holder, same),
        command_line=reaper_task.command(same)
        if same and holder.cls in REAPABLE and not gpus.tracker.contained
        else "",
    )


def verdict(records: Records, gpus: Gpus, holder: Holder, tracked: TrackedProcess | None) -> str:
    """Return the sentence about a process, and what will become of it."""
    if tracked is None or holder.cls not in REAPABLE or gpus.tracker.contained:
        return holder.why
    if reaper_task.key(tracked) in gpus.tracker.reaper_state.acting:
        return f"{holder.why}; it is being ended"
    if holder.cls == "orphan" and records.config.settings.reap == "auto":
        missing = next((finding for finding in reaper_task.gathered(records, gpus, tracked) if not finding.holds), None)
        later = f" when all evidence is there ({missing.value})" if missing else " as soon as the node's rules allow it"
        return f"{holder.why}; it is ended by itself{later}"
    return f"{holder.why}; `{reaper_task.command(tracked)}` ends it"


async def explained(work: NodeWork, gpus: Gpus, item: ZombieView, tracked: TrackedProcess | None) -> ZombieView:
    """Return the view with every rule and its measured value, in the order in which they are checked."""
    if tracked is None or tracked.process.stat.start_ticks != item.start_ticks:
        return item
    with gpus.tracker.lock:
        situation = gpu_holders.situation_of(work, gpus)
    found: list[RuleView] = []
    for rule in rules(tracked.process, situation):
        found.append(RuleView(part="class", name=rule.name, holds=rule.matches, value=rule.value))
        if rule.matches:
            break
    if item.cls == "orphan":
        found += [rule_view("evidence", finding) for finding in reaper_task.gathered(work.records, gpus, tracked)]
    if item.cls in REAPABLE:
        conditions = await reaper_task.preconditions(
            work.records, work.waiting, gpus, tracked, by_itself=item.cls == "orphan"
        )
        found += [rule_view("node", finding) for finding in conditions]
    return msgspec.structs.replace(item, rules=tuple(found))


def rule_view(part: Literal["evidence", "node"], finding: Evidence) -> RuleView:
    return RuleView(part=part, name=finding.name, holds=finding.holds, value=finding.value)


def reaped_view(row: StoreRow) -> ReapedView:
    """Return one stored reap as clients see it."""
    return ReapedView(
        at=row["at"],
        pid=row["pid"],
        outcome=row["outcome"],
        text=row["text"],
        by="the daemon" if row["automatic"] else row["asker"],
        memory_before_bytes=row["before_bytes"],
        memory_after_bytes=row["memory_bytes"],
    )


async def reap(work: NodeWork, gpus: Gpus, request: ReapRequest) -> ReapReply:
    """Answer `POST /v1/reap`: what would be done, or the outcome of doing it. A repeated request gets the outcome of
    the first. Raises RefusedError."""
    reaper_state = gpus.tracker.reaper_state
    if request.request_id and (row := await outcome_of(work.records.store, request.request_id)) is not None:
        return ReapReply(items=(), outcome=row["outcome"], text=row["text"])
    act = next(
        (act for act in reaper_state.acting.values() if request.request_id and act.id == request.request_id), None
    )
    if act is None:
        tracked = await meant(work, gpus, request)
        if not request.yes:
            reply = await zombies(work, gpus, ZombiesRequest(pid=request.pid))
            text = f"Nothing was done; `{reaper_task.command(tracked)}` does it."
            return ReapReply(items=reply.items, outcome="dry-run", text=text, plan=planned(work.records, gpus, tracked))
        conditions = await reaper_task.preconditions(work.records, work.waiting, gpus, tracked, by_itself=False)
        wanted = reaper_task.act_of(tracked, caller.caller(), conditions, automatic=False, name=request.request_id)
        act = reaper_task.order(gpus, wanted)
        if act.id != wanted.id:
            raise refused("under-way", f"Process {request.pid} is being ended already.", "See `rwkvctl zombies`.")
    try:
        async with asyncio.timeout(ANSWER_S):
            outcome = await asyncio.shield(act.done)
    except TimeoutError:
        text = f"The end of process {request.pid} goes on; see `rwkvctl zombies`."
        return ReapReply(items=(), outcome="under-way", text=text)
    return ReapReply(items=(), outcome=outcome.word, text=outcome.text)


async def meant(work: NodeWork, gpus: Gpus, request: ReapRequest) -> TrackedProcess:
    """Return the process that is meant, if it may be ended now. Raises RefusedError with the reason if not."""
    holder = next((h for gpu in gpus.by_id.values() for h in gpu.holders if h.pid == request.pid), None)
    if holder is None:
        raise no_holder(gpus, request.pid)
    tracked = next((one for one in gpus.tracker.all() if one.process.pid == request.pid), None)
    if tracked is None:
        raise refused("not-reapable", f"Not ended: {holder.why}.")
    start = tracked.process.stat.start_ticks
    if request.start_ticks not in ({start} if request.yes else {0, start}):
        what = f"did not start at {request.start_ticks}" if request.start_ticks else "was not named by its start"
        hint = f"It started at {start}; see what it is now: `rwkvctl zombies {request.pid}`."
        raise refused("other-process", f"Process {request.pid} {what}; nothing was done.", hint)
    permitted(work, gpus, tracked)
    for finding in await reaper_task.preconditions(work.records, work.waiting, gpus, tracked, by_itself=False):
        if not finding.holds:
            hint = "See `rwkvctl gpus` and `rwkvctl doctor`."
            raise refused("observing", f"Nothing is ended now: {finding.value}.", hint)
    return tracked


def permitted(work: NodeWork, gpus: Gpus, tracked: TrackedProcess) -> None:
    """Raise RefusedError unless it may be ended by whoever asks: a process that this daemon did not start only by
    somebody who could signal it without this daemon."""
    with gpus.tracker.lock:
        situation = gpu_holders.situation_of(work, gpus, with_neighbours=True)
    try:
        permit(tracked.process, tracked.rule.name, situation)
    except NotTouchedError as error:
        raise refused("not-reapable", f"Not ended: {error}.") from error
    who = caller.caller()
    if tracked.rule.name == "foreign" and who.uid not in {0, situation.uid}:
        owner = tracked.process.user
        why = f"Not ended: this daemon did not start pid {tracked.process.pid}, so only {owner} or root may end it."
        raise refused("not-yours", why, f"You are {who.name}.")


def refused(code: str, detail: str, hint: str = "") -> RefusedError:
    return RefusedError(code, detail, hint, Exit.REFUSED)


def planned(records: Records, gpus: Gpus, tracked: TrackedProcess) -> tuple[str, ...]:
    """Return the steps that would be taken."""
    term_s = records.config.settings.stop_term_s
    where = " and ".join(reaper.label(gpus, gpu) for gpu in tracked.holders)
    return (
        "write the intent down",
        f"look again whether pid {tracked.process.pid} is the same process and holds {where}",
        f"SIGTERM, then up to {term_s:.0f} s of patience",
        f"look again, SIGKILL once, then up to {reaper.KILL_S:.0f} s",
        f"ask NVML whether the memory of {where} is free again, and write the outcome down",
    )


def notes(gpus: Gpus) -> list[str]:
    """Return notes for `status`: orphans that wait for the operator."""
    asked = gpus.tracker.reaper_state.asked
    return (
        [reaper_task.request(gpus, one) for one in gpus.tracker.all() if reaper_task.key(one) in asked] if asked else []
    )
