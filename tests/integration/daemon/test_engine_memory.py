"""Engines that run out of memory, or end by themselves: what the daemon learns from processes that end like them."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import LIMIT_S, LOOK_S, soon

from rwkv_daemon.catalogue.contents import IdentityKey, NodeBenchmarks, identity_of
from rwkv_daemon.engines import engine_launch, engine_processes
from rwkv_daemon.engines.engine_launch import launch_of, reserve
from rwkv_daemon.gpus import condition_store
from rwkv_daemon.gpus.condition_rules import shown
from rwkv_daemon.gpus.known_gpus import Gpus
from rwkv_daemon.judge.judges import Judges
from rwkv_daemon.node import Node
from rwkv_daemon.rules.gpu_facts import Gpu, GpuReading
from rwkv_daemon.rules.memory_fit import GIB, SLOTS
from rwkv_daemon.rules.placement import EngineKind, StartEngine
from rwkv_daemon.scheduling import measured_rates, placement_facts
from rwkv_daemon.scheduling.live_engines import EngineHandle
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import open_store
from rwkv_daemon.store.queries.engines import get_engine
from rwkv_daemon.store.queries.jobs import remember_sha256, sha256_of
from rwkv_daemon.store.queries.leases import FitRow, held_leases
from rwkv_daemon.workers import worker_process
from rwkvctl.protocol.engine import EngineStats
from rwkvctl.protocol.views import LeaseView
from rwkvctl.settings import config

KIND = EngineKind("aaa", "fast")
LEASE = "GPU-1"
INODES = "1:2"  # the files of its weights, which no engine of these tests reads


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node with one GPU of 24 GiB, without a sampler: no look at it is waited for."""
    settings = config.load(environ={"RWKVCTL_HOME": str(tmp_path), "RWKVCTL_LEASE_DIR": str(tmp_path)})
    for folder in (settings.runs_dir, settings.socket.parent, settings.weights_dir, settings.data_dir):
        folder.mkdir(parents=True, exist_ok=True)
    store = await open_store(settings.store)
    made = Node.of(settings, store, NodeBenchmarks.open(settings))
    made.engines.leases = [LeaseView(id=LEASE, index="0", name="H100", memory_total_bytes=24 * GIB)]
    made.gpus.by_id[LEASE] = Gpu(reading=GpuReading(id=LEASE, index=0, name="H100"), use="free")
    condition_store.remember(made.gpus, made.gpus.by_id[LEASE].reading)
    made.gpus.watch_state.seen_at = float("inf")
    made.waiting.queue.sizes["aaa"] = 4 * GIB
    yield made
    await store.close()


async def start(node: Node, program: str, weights: str = "/weights/m.pth") -> EngineHandle:
    """An engine that is a shell's few words instead: a real process with a real exit."""
    await reserve(node.records, node.engines, StartEngine(KIND, LEASE, 0, tuple(range(SLOTS))), "m", weights)
    [(number, engine_launch)] = node.engines.leasing.launching.items()
    wanted = launch_of(node.records, node.engines, engine_launch, INODES)
    wanted.log.parent.mkdir(parents=True, exist_ok=True)
    worker = worker_process.start(
        worker_process.Launch(
            uuid=wanted.uuid,
            argv=("sh", "-c", program),
            record=wanted.record,
            log=wanted.log,
            environment={"PATH": "/bin:/usr/bin"},
            locks=wanted.locks,
            share=wanted.share,
        )
    )
    del node.engines.leasing.launching[number]
    handle = node.engines.live[number] = EngineHandle(engine_launch.row, worker)
    return handle


async def ended(node: Node, handle: EngineHandle) -> None:
    """Until the daemon has acted on its end."""
    deadline = time.monotonic() + LIMIT_S
    while handle.row.id in node.engines.live:
        assert time.monotonic() < deadline
        await engine_processes.watch_engines(node.work, node.gpus, node.judges)
        await asyncio.sleep(LOOK_S)


def flags(node: Node) -> list[str]:
    [engine_launch] = node.engines.leasing.launching.values()
    return list(launch_of(node.records, node.engines, engine_launch, INODES).argv)


async def test_an_engine_that_does_not_fit_is_started_smaller_until_the_smallest(node: Node) -> None:
    tried = []
    for _ in range(5):
        handle = await start(node, "echo too large; exit 4")
        await ended(node, handle)
        tried.append(node.engines.leasing.fit(*KIND, "H100").slots)
        assert await held_leases(node.records.store) == {}
    assert tried == [64, 16, 4, 1, 1]
    assert not node.engines.back_off, "memory is no failure of the engine"
    assert shown(node.gpus.watch_state.records[LEASE])[0] == "ok", "nor of the GPU"
    why = placement_facts.misfit(node.records, node.waiting, node.engines, "aaa", "fast")
    assert why == "needs at least 24.0 GiB, and the largest GPU here has 24.0 GiB"
    again = Node.of(node.records.config, node.records.store, node.catalogue.benchmarks)
    await measured_rates.recall(again.records, again.waiting, again.engines)
    assert again.engines.leasing.fits == node.engines.leasing.fits, "the next daemon knows it, too"


async def test_what_fitted_is_what_the_next_engine_is_told(node: Node) -> None:
    handle = await start(node, "sleep 60")
    stats = EngineStats(
        slots=48, running=0, waiting=0, room=1, steps=1, prefill_tokens=0, decode_tokens=0, prefill_tokens_per_s=0.0,
        decode_tokens_per_s=0.0, occupancy=0.0, cache_hits=0, cache_misses=0, kept=0, finished=0, uptime_s=1.0,
        rss_bytes=1, shrunk=1,
    )  # fmt: skip
    handle.stats = stats
    await engine_processes.remember_shrinking(node.records, node.engines, handle)
    await engine_processes.unload(node.records, node.engines, node.gpus, handle, "its place is needed")
    await ended(node, handle)
    await reserve(node.records, node.engines, StartEngine(KIND, LEASE, 0, tuple(range(SLOTS))), "m", "/weights/m.pth")
    argv = flags(node)
    assert argv[argv.index("--slots") + 1] == "48"


async def test_a_share_of_a_gpu_is_a_share_of_its_memory(node: Node) -> None:
    await reserve(node.records, node.engines, StartEngine(KIND, LEASE, 0, (0, 1)), "m", "/weights/m.pth")
    argv = flags(node)
    assert argv[argv.index("--memory-bytes") + 1] == str(int(24 * GIB * 2 / 8 * 0.95))
    [engine_launch] = node.engines.leasing.launching.values()
    wanted = launch_of(node.records, node.engines, engine_launch, INODES)
    assert wanted.environment["CUDA_VISIBLE_DEVICES"] == LEASE
    assert wanted.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert [path.name for path in wanted.locks] == ["rwkvctl-GPU-1.0.lock", "rwkvctl-GPU-1.1.lock"]
    assert wanted.share is not None
    assert wanted.share.name == "rwkvctl-GPU-1.lock"


@pytest.mark.parametrize(
    ("program", "state", "condition"),
    [
        ("kill -ABRT $$", "failed", "cooldown"),
        ("exit 1", "failed", "cooldown"),
        ("echo broken; exit 3", "failed", "ok"),
        ("kill -9 $$", "failed", "ok"),
        ("kill -TERM $$", "failed", "ok"),
        ("exit 5", "gone", "ok"),
    ],
)
async def test_an_end_that_is_neither_the_models_nor_anybody_elses_fault_counts_against_the_gpu(
    node: Node, program: str, state: str, condition: str
) -> None:
    handle = await start(node, program)
    await ended(node, handle)
    stored = await get_engine(node.records.store, handle.row.id)
    assert stored is not None
    assert stored.state == state
    assert shown(node.gpus.watch_state.records[LEASE])[0] == condition
    assert await held_leases(node.records.store) == {}
    assert (KIND in node.engines.back_off) == (state == "failed")


async def test_the_lease_of_an_engine_that_lost_its_shim_is_free_when_nothing_of_it_runs(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hangs in the kernel outlives its shim and every kill: here by a kill that is taken away."""
    handle = await start(node, "exec sleep 600")
    left = [f"pid {handle.worker.pid} (in the kernel, cannot be interrupted)"]
    monkeypatch.setattr(engine_processes, "remains", lambda _worker: left)
    worker_process.sweep(handle.row.uuid)
    await soon(lambda: worker_process.has_ended(handle.worker), "it has ended")
    await engine_processes.watch_engines(node.work, node.gpus, node.judges)
    assert (handle.row.id in node.engines.live, len((await held_leases(node.records.store))[LEASE])) == (True, SLOTS)
    left.clear()
    await ended(node, handle)
    assert await held_leases(node.records.store) == {}


async def test_an_engine_that_cannot_be_looked_after_keeps_nobody_from_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await start(node, "exit 3")
    real = engine_processes.watch_engine

    async def watch_engine(work: NodeWork, gpus: Gpus, judges: Judges, one: EngineHandle) -> None:
        if one.row.name == "e99":
            raise OSError("its folder cannot be read")
        await real(work, gpus, judges, one)

    monkeypatch.setattr(engine_processes, "watch_engine", watch_engine)
    broken = EngineHandle(replace(handle.row, id=99), handle.worker)
    node.engines.live = {99: broken, handle.row.id: handle}
    await ended(node, handle)
    assert broken.trouble == "its folder cannot be read"
    node.engines.live.clear()


async def hashed(node: Node) -> tuple[str, IdentityKey]:
    """A file that holds the weights of these engines as far as the store knows: its path and identity."""
    path = node.records.config.weights_dir / "m.pth"
    path.write_bytes(b"weights")
    identity = identity_of(path)
    async with node.records.store.write() as db:
        await remember_sha256(db, identity, "aaa", str(path), "m")
    return str(path), identity


async def test_a_model_too_large_for_a_device_of_unknown_size_is_not_tried_for_ever(node: Node) -> None:
    """Nothing can be learned there that would keep the next engine from trying the same: so two tries, and no more."""
    path, identity = await hashed(node)
    node.engines.leases = [LeaseView(id=LEASE, index="0", name="H100")]
    node.engines.leasing.learn([FitRow(weights_sha256="aaa", numerics="fast", device="H100", slots=1)])
    for broken in ("", "there is no memory left"):
        await ended(node, await start(node, "echo there is no memory left; exit 4", path))
        assert (await sha256_of(node.records.store, identity))[1] == broken
    assert node.engines.back_off[KIND].failures == 2


async def test_an_engine_that_finds_another_file_says_nothing_about_the_weights(node: Node) -> None:
    path, identity = await hashed(node)
    for _ in range(3):
        handle = await start(node, "echo it is not the file that was asked for; exit 3", path)
        Path(path).write_bytes(b"others")
        await ended(node, handle)
    assert (await sha256_of(node.records.store, identity))[1] == "", "they may load very well"


async def test_an_emptied_folder_of_weights_stops_only_its_own_engine(node: Node) -> None:
    folder = node.records.config.weights_dir / "layout"
    folder.mkdir()
    await reserve(node.records, node.engines, StartEngine(KIND, LEASE, 0, tuple(range(SLOTS))), "m", str(folder))
    await engine_launch.launch_reserved(node.records, node.engines, node.gpus)
    assert not node.engines.leasing.launching
    assert await held_leases(node.records.store) == {}
