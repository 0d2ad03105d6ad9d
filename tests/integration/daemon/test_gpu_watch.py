"""The watch of the GPUs against drivers that hang, end, come and go: real sampler processes on a fake NVML, in a node
of this process so that its pauses can be short."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, soon

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.gpus import condition_store, gpu_watch, ingest, presenter, reservation_probe, sampler_process
from rwkv_daemon.gpus.condition_rules import Reserve
from rwkv_daemon.gpus.watch_state import WatchState
from rwkv_daemon.gpus.zombies import gpu_holders
from rwkv_daemon.node import Node
from rwkv_daemon.rules.gpu_facts import Gpu
from rwkv_daemon.scheduling.lease_memory import last_look
from rwkv_daemon.store import open_store
from rwkvctl.protocol.views import LeaseView
from rwkvctl.settings import config

DRIVER_NOT_LOADED, UNKNOWN = 9, 999


@pytest.fixture
async def node(fake_nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node without a daemon; samplers count as hung after a second, and everything is tried again at once."""
    monkeypatch.setattr(gpu_watch, "RESTART_S", 0.05)
    monkeypatch.setattr(gpu_watch, "LONGEST_RESTART_S", 0.05)
    monkeypatch.setattr(gpu_watch, "RETRY_S", 0.2)
    environment = {"RWKVCTL_SAMPLER_DEADLINE_S": "3", "HOME": str(tmp_path)}
    settings = config.load({"home": str(tmp_path / "home")}, environment)
    settings.home.mkdir()
    store = await open_store(settings.store)
    yield Node.of(settings, store, NodeBenchmarks(settings.data_dir))
    await store.close()


@contextlib.asynccontextmanager
async def watched(node: Node) -> AsyncIterator["asyncio.Future[None]"]:
    """The watch, running; no sampler is left behind."""
    task = asyncio.ensure_future(gpu_watch.watch(node.work, node.gpus))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await soon(lambda: not samplers(), "no sampler is left")
        assert node.gpus.watch_state.ring is None


async def seen(node: Node, *uses: str) -> None:
    """Wait until the node's GPUs are in these uses."""
    await soon(lambda: [lease.use for lease in cards(node)] == list(uses), f"{uses}, not {cards(node)}")


def cards(node: Node) -> list[LeaseView]:
    """The node's GPUs. The CPU is always a lease beside them."""
    leases = node.engines.leases or [presenter.CPU]
    assert leases[-1] == presenter.CPU
    return leases[:-1]


def samplers() -> set[int]:
    """Samplers that this process started and that still live."""
    own = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat[1]) == os.getpid() and stat[0] != b"Z" and b"rwkv_daemon.gpus.sampler_main" in command:
                own.add(int(entry.name))
    return own


async def test_one_gpu_that_hangs_is_left_out_and_found_again(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(3)
    async with watched(node):
        await seen(node, "free", "free", "free")
        assert node.records.wake.is_set()
        (first,) = samplers()
        fake_nvml.rule("hang nvmlDeviceGetUtilizationRates 1")
        await seen(node, "free", "unknown", "free")
        assert "hangs when asked about it" in node.gpus.by_id[fake_nvml.uuid(1)].why
        assert any("GPU 1 is unknown" in note for note in node.records.notes)
        fake_nvml.gpu(2, util=50)
        await seen(node, "free", "unknown", "busy")
        assert first not in samplers()
        fake_nvml.rule()
        await seen(node, "free", "free", "busy")
        assert node.gpus.watch_state.left_out == {}
        assert not any("unknown" in note for note in node.records.notes)


async def test_a_gpu_that_hangs_from_the_first_is_shown_without_a_name(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(2).rule("hang nvmlDeviceGetUUID 0")
    async with watched(node):
        await seen(node, "unknown", "free")
        assert [lease.id for lease in cards(node)] == ["gpu-index-0", fake_nvml.uuid(1)]
        assert "gpu-index-0" not in node.gpus.watch_state.inventory
        fake_nvml.rule()
        await seen(node, "free", "free")
        assert [lease.id for lease in cards(node)] == [fake_nvml.uuid(0), fake_nvml.uuid(1)]


async def test_a_driver_that_hangs_as_a_whole_makes_all_unknown_until_it_answers(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(2)
    async with watched(node) as task:
        await seen(node, "free", "free")
        fake_nvml.rule("hang nvmlDeviceGetCount_v2", "hang nvmlInitWithFlags")
        await seen(node, "unknown", "unknown")
        assert [lease.id for lease in cards(node)] == [fake_nvml.uuid(0), fake_nvml.uuid(1)]
        assert node.records.notes == ["GPUs: the NVIDIA driver hangs (no answer for 3 s)"]
        assert node.gpus.watch_state.self_test, "nothing may be reaped now"
        fake_nvml.rule()
        await seen(node, "free", "free")
        assert node.records.notes == []
        assert not node.gpus.watch_state.self_test
        assert not task.done()


async def test_events_that_hang_are_left_out_and_the_gpus_stay_watched(
    node: Node, fake_nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_watch, "EVENTS_RETRY", 10**9)
    fake_nvml.gpus(1).rule("hang nvmlEventSetWait_v2")
    async with watched(node):
        await seen(node, "free")
        assert node.records.notes == [
            "GPUs: the driver hangs when it is asked for XID events: other signs of trouble are still watched"
        ]


async def test_a_driver_that_is_unloaded_and_loaded_again(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(2)
    async with watched(node):
        await seen(node, "free", "free")
        fake_nvml.rule(f"fail * {UNKNOWN}")
        await seen(node, "unknown", "unknown")
        fake_nvml.rule(f"fail nvmlInitWithFlags {DRIVER_NOT_LOADED}")
        await soon(lambda: node.records.notes == ["GPUs: the NVIDIA driver is not loaded"], "it says so")
        fake_nvml.rule()
        await seen(node, "free", "free")


async def test_without_nvml_the_cpu_is_the_lease_and_a_driver_that_comes_later_is_found(
    node: Node, fake_nvml: Any
) -> None:
    fake_nvml.gpus(1).rule(f"fail nvmlInitWithFlags {DRIVER_NOT_LOADED}")
    async with watched(node):
        await soon(lambda: node.engines.leases == [presenter.CPU], "the CPU is the lease")
        assert node.records.wake.is_set()
        assert node.records.notes == []
        fake_nvml.rule()
        await seen(node, "free")


async def test_a_machine_whose_nvml_lists_no_gpu_uses_its_cpu(node: Node) -> None:
    async with watched(node):
        await soon(lambda: node.engines.leases == [presenter.CPU], "the CPU is the lease")
        assert node.records.wake.is_set()


async def test_a_sampler_that_is_killed_or_talks_nonsense_is_started_again(
    node: Node, fake_nvml: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_nvml.gpus(1)
    fake = tmp_path / "python"
    for nonsense in ("not JSON at all", '{"readings": [{"name": "a GPU without an id"}]}', "x" * 5_000_000):
        (tmp_path / "said").write_text(nonsense + "\n")
        fake.write_text(f"#!/bin/sh\ncat {tmp_path}/said\nexec sleep 600\n")
        fake.chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(fake))
            ended = await gpu_watch.sample(node.work, node.gpus)
        assert ended.how == "nonsense"
        assert await gpu_watch.what_follows(node.records, node.engines, node.gpus, ended)
        assert node.records.notes[0].startswith("GPUs: the GPU sampler sent invalid data")
    async with watched(node):
        await seen(node, "free")
        for number in samplers():
            os.kill(number, 9)
        await seen(node, "unknown")
        await seen(node, "free")


async def test_no_more_samplers_are_started_than_may_be_stuck(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(1)
    lying = [await asyncio.create_subprocess_exec("sleep", "600") for _ in range(sampler_process.MOST_STUCK)]
    node.gpus.watch_state.stuck = list(lying)
    async with watched(node):
        await soon(lambda: any("too many samplers are stuck" in note for note in node.records.notes), "it says so")
        assert not samplers()
        for process in lying:
            process.kill()
            await process.wait()
        await seen(node, "free")


async def test_what_is_known_of_gpus_is_shown_before_the_first_look(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(1)
    uuid = fake_nvml.uuid(0)
    async with watched(node):
        await seen(node, "free")
        async with node.records.change() as change:
            assert await condition_store.happen(
                node.records, node.engines, node.gpus, change, uuid, Reserve("training")
            )
            assert not await condition_store.happen(
                node.records, node.engines, node.gpus, change, "cpu:0", Reserve("training")
            )
            await condition_store.engine_failed(node.records, node.engines, node.gpus, change, "cpu:0", "it is no GPU")
            await condition_store.quarantine(node.records, node.engines, node.gpus, change, "cpu:0", "it is no GPU")
        assert cards(node)[0].condition == "reserved"
    node.gpus.by_id, node.gpus.watch_state, node.engines.leases = {}, WatchState(), None
    await condition_store.restore(node.records, node.gpus)
    assert (node.gpus.by_id[uuid].use, node.gpus.by_id[uuid].condition) == ("unknown", "reserved")
    assert last_look(node.gpus.by_id[uuid], shared=False)


async def test_a_record_that_cannot_be_read_is_a_quarantine(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(1)
    async with watched(node):
        await soon(lambda: node.gpus.watch_state.stored, "it is stored")
    async with node.records.store.write() as db:
        await db.execute("UPDATE gpu SET record = ?", ('{"failures": "many"}',))
    node.gpus.by_id, node.gpus.watch_state, node.engines.leases = {}, WatchState(), None
    async with watched(node):
        await seen(node, "free")
        assert cards(node)[0].condition == "quarantined"
        assert "cannot be read" in cards(node)[0].reason


async def test_three_engines_that_end_abnormally_quarantine_a_gpu(node: Node, fake_nvml: Any) -> None:
    fake_nvml.gpus(1)
    uuid = fake_nvml.uuid(0)
    async with watched(node):
        await seen(node, "free")
        found = []
        for number in range(3):
            async with node.records.change() as change:
                await condition_store.engine_failed(
                    node.records, node.engines, node.gpus, change, uuid, f"SIGSEGV {number}"
                )
            found.append(node.gpus.by_id[uuid].condition)
        assert found == ["cooldown", "suspect", "quarantined"]
        rows = await node.records.store.all("SELECT text FROM event WHERE kind = 'gpu.state' ORDER BY seq")
        assert rows[-1]["text"] == "GPU 0 is quarantined: 3 engines ended abnormally here, the last one: SIGSEGV 2"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("printf", "one\\n step 12 \\n\\n"), "step 12"),
        (("sh", "-c", "echo out of data >&2; exit 4"), "(it ended with code 4: out of data)"),
        (("true",), "(it ended with code 0)"),
        (("/no/such/program",), "(it cannot be run: "),
        (("sh", "-c", "echo $RWKVCTL_HOME$HOME"), "/"),
    ],
)
async def test_what_a_probe_says(command: tuple[str, ...], says: str) -> None:
    assert (await reservation_probe.ask(command)).startswith(says)


async def test_a_probe_that_never_ends_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation_probe, "LIMIT_S", 1.0)
    tmp_path.chmod(0o777)
    sleeps = f"sleep {10**6 + os.getpid()}"
    said = await reservation_probe.ask(("sh", "-c", f"{sleeps} & {sleeps}"))
    assert said == "(it did not answer within 1 s)"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert path.read_bytes().split(b"\0")[:2] != sleeps.encode().split()
    assert len(await reservation_probe.ask(("sh", "-c", "yes | head -c 100000"))) <= reservation_probe.LONGEST


async def test_a_look_at_processes_that_never_comes_back_costs_one_gpu(
    node: Node, fake_nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that hangs in the driver holds up whoever reads its command line in /proc."""
    fake_nvml.gpus(2).process(0, os.getpid()).process(1, os.getpid())
    stuck, whole = threading.Event(), gpu_holders.look
    stuck.set()

    def look(work: Any, gpus: Any, reading: Any) -> Any:
        if reading.index == 0:
            stuck.wait(LIMIT_S)
        return whole(work, gpus, reading)

    monkeypatch.setattr(ingest, "LOOK_S", 0.3)
    monkeypatch.setattr(gpu_holders, "look", look)
    async with watched(node):
        await soon(lambda: len(node.gpus.by_id) == 2, "both GPUs are seen")
        stuck.clear()
        await soon(lambda: by_index(node)[0].use == "unknown", "the first is unknown")
        assert "hangs in the kernel" in by_index(node)[0].why
        before = node.gpus.watch_state.seen_at
        await soon(lambda: node.gpus.watch_state.seen_at > before, "the watch goes on")
        await soon(lambda: by_index(node)[1].use != "unknown", "the second is seen")
        stuck.set()
        await soon(lambda: by_index(node)[0].use != "unknown", "it is seen again")
        assert node.gpus.watch_state.blind == {}


def by_index(node: Node) -> list[Gpu]:
    return sorted(node.gpus.by_id.values(), key=lambda gpu: gpu.reading.index)
