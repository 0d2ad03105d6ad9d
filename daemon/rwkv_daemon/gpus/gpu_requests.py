"""Answers to requests about GPUs, and the operator's decisions about them."""

from collections.abc import Callable
from typing import Final

from rwkv_daemon.changes.change import Change
from rwkv_daemon.changes.records import Records
from rwkv_daemon.gpus import condition_store, history, presenter
from rwkv_daemon.gpus.condition_rules import (
    AwaitedProcess,
    ConditionRecord,
    Drain,
    GpuEvent,
    Probe,
    Quarantine,
    Reserve,
    Undrain,
    Unquarantine,
    Unreserve,
)
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.gpus.reservation_end import identify
from rwkv_daemon.gpus.selectors import ids_of
from rwkv_daemon.rules.gpu_facts import Gpu, Holder
from rwkv_daemon.scheduling.live_engines import Engines
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.gpus import (
    ChangedGpu,
    GpuChange,
    GpuHistoryReply,
    GpuHistoryRequest,
    GpuHolderView,
    GpuProbe,
    GpusChangedReply,
    GpusReply,
    GpuView,
)

LONGEST: Final = 200
DECISIONS: Final[dict[str, Callable[[str], GpuEvent]]] = {
    "release": lambda _: Unreserve(),
    "drain": Drain,
    "undrain": lambda _: Undrain(),
    "quarantine": lambda reason: Quarantine(reason, "operator"),
    "unquarantine": lambda _: Unquarantine(),
}
NEED_REASON: Final = {"reserve": "what for: --for training", "drain": "why: --reason", "quarantine": "why: --reason"}


def gpus(engines: Engines, gpus: Gpus) -> GpusReply:
    """Answer `GET /v1/gpus`: every GPU with its use, condition and holders."""
    ordered = sorted(gpus.by_id.values(), key=presenter.place)
    watch_state = gpus.watch_state
    return GpusReply(
        items=tuple(view(engines, gpus, gpu) for gpu in ordered),
        driver=watch_state.driver,
        trouble=watch_state.trouble,
        self_test="" if not gpus.by_id else watch_state.self_test,
    )


async def history_reply(records: Records, gpus: Gpus, request: GpuHistoryRequest) -> GpuHistoryReply:
    """Answer `GET /v1/gpus/history`: recorded figures of the named GPU, or of every GPU, in steps of some seconds."""
    only = ids_of([request.gpu], gpus.by_id) if request.gpu else [""]
    return await history.answer(records, gpus, request, only[0])


async def change(records: Records, engines: Engines, gpus: Gpus, request: GpuChange) -> GpusChangedReply:
    """Answer `POST /v1/gpus`. Repeating it changes nothing, so it needs no request id."""
    reason = " ".join(request.reason.split())[:LONGEST]
    if request.action in NEED_REASON and not reason:
        raise RefusedError(
            "reason-missing", f"Say {NEED_REASON[request.action]}.", "It is shown wherever the GPU is.", Exit.USAGE
        )
    ids = ids_of(request.gpus, gpus.by_id)
    until = awaited(request)
    async with records.owner, records.change() as transaction:
        if request.action == "forget":
            items = [await forget(records, engines, gpus, transaction, gpu_id) for gpu_id in ids]
        else:
            event = Reserve(reason, until) if request.action == "reserve" else DECISIONS[request.action](reason)
            items = [await decide(records, engines, gpus, transaction, gpu_id, event) for gpu_id in ids]
    return GpusChangedReply(items=tuple(items))


def awaited(request: GpuChange) -> AwaitedProcess | None:
    """Return the process with which a reservation is to end; None if it ends with none. Raises RefusedError if there is
    no such process."""
    if not request.until_pid:
        return None
    if request.action != "reserve":
        raise RefusedError("bad-request", "Only a reservation ends with a process.", "", Exit.USAGE)
    if (found := identify(request.until_pid)) is None:
        text = f"There is no process {request.until_pid}, or the daemon may not see it. Nothing was reserved."
        raise RefusedError("no-such-process", text, "", Exit.NOT_FOUND)
    return found


async def probe(records: Records, engines: Engines, gpus: Gpus, request: GpuProbe) -> GpusChangedReply:
    """Answer `POST /v1/gpus/probe`: set the command that explains what a reserved GPU is doing; an empty one removes
    it."""
    ids = ids_of(request.gpus, gpus.by_id)
    async with records.owner, records.change() as transaction:
        items = [await set_probe(records, engines, gpus, transaction, gpu_id, request.command) for gpu_id in ids]
    gpus.watch_state.probe_now.set()
    return GpusChangedReply(items=tuple(items))


async def set_probe(
    records: Records, engines: Engines, gpus: Gpus, transaction: Change, gpu_id: str, command: tuple[str, ...]
) -> ChangedGpu:
    """Set the probe of a reserved GPU; others have none, as it explains what somebody else does there."""
    record = gpus.watch_state.records.get(gpu_id, ConditionRecord())
    if command and not record.reserved_for:
        return changed(gpus, gpu_id, error="it is not reserved: `rwkvctl gpus reserve` first")
    await condition_store.happen(records, engines, gpus, transaction, gpu_id, Probe(command))
    return changed(gpus, gpu_id, did=record.probe != command)


async def decide(
    records: Records, engines: Engines, gpus: Gpus, transaction: Change, gpu_id: str, event: GpuEvent
) -> ChangedGpu:
    """Apply one decision to one GPU. It must have reported its UUID at least once."""
    before = gpus.watch_state.records.get(gpu_id)
    if before is None:
        return changed(gpus, gpu_id, error="it has never answered, so it is not known which GPU this is")
    await condition_store.happen(records, engines, gpus, transaction, gpu_id, event)
    return changed(gpus, gpu_id, did=gpus.watch_state.records[gpu_id] != before)


async def forget(records: Records, engines: Engines, gpus: Gpus, transaction: Change, gpu_id: str) -> ChangedGpu:
    """Remove a GPU from the inventory; one that is still there would be found again, so it is refused."""
    gpu = gpus.by_id[gpu_id]
    if not gpu.reading.trouble:
        return changed(gpus, gpu_id, error="it is here and answers")
    before = changed(gpus, gpu_id, did=True)
    await condition_store.strike_off(records, engines, gpus, transaction, gpu_id)
    return before


def changed(gpus: Gpus, gpu_id: str, *, did: bool = False, error: str = "") -> ChangedGpu:
    """Return the reply about one GPU: its condition now, whether it was changed (`did`), or why not (`error`)."""
    gpu = gpus.by_id[gpu_id]
    name = presenter.label(gpu).removeprefix("GPU ")
    return ChangedGpu(gpu=name, condition=gpu.condition, reason=gpu.reason, changed=did, error=error)


def view(engines: Engines, gpus: Gpus, gpu: Gpu) -> GpuView:
    """Return a GPU with everything that is known of it."""
    reading, record = gpu.reading, gpus.watch_state.records.get(gpu.id, ConditionRecord())
    said = gpus.watch_state.probes.get(gpu.id)
    return GpuView(
        id=gpu.id,
        index=presenter.label(gpu).removeprefix("GPU "),
        name=reading.name,
        parent=reading.parent,
        use=gpu.use,
        condition=gpu.condition,
        why=gpu.why,
        reason=gpu.reason,
        since=gpu.since,
        engines=tuple(handle.row.name for handle in engines.live.values() if handle.row.lease == gpu.id),
        reserved_for=record.reserved_for,
        until_pid=record.until.pid if record.until else 0,
        probe=record.probe,
        probe_says=said.text if said else "",
        contended=gpu.contended,
        holders=tuple(map(holder_view, gpu.holders)),
        memory_used_bytes=reading.memory_used_bytes,
        memory_total_bytes=reading.memory_total_bytes,
        utilisation=reading.utilisation,
        idle_s=None if gpu.idle_s is None else round(gpu.idle_s),
        power_w=reading.power_w,
        power_limit_w=reading.power_limit_w,
        temperature_c=reading.temperature_c,
        clock_mhz=reading.clock_sm_mhz,
        clock_max_mhz=reading.clock_max_sm_mhz,
        throttle=reading.throttle,
        ecc_uncorrected=reading.ecc_uncorrected,
        application_xids=record.application_xids,
        failures=record.failures,
    )


def holder_view(holder: Holder) -> GpuHolderView:
    """Return a process on a GPU as clients see it."""
    return GpuHolderView(
        pid=holder.pid, start=holder.start_ticks, cls=holder.cls, why=holder.why, user=holder.user,
        command=holder.command, memory_bytes=holder.bytes, age_s=holder.age_s,
    )  # fmt: skip
