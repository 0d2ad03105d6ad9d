"""GPUs of the node, read from the NVML sampler process with a deadline; without any, the CPU as the lease `cpu:0`.

NVML calls can hang for ever inside the driver, so they are made in a process of their own (`nvml_sampler`). When it is
silent for too long every GPU becomes `unknown` (no new lease; running work goes on), and the sampler is started again.
"""

import asyncio
import contextlib
import json
import sys

import msgspec

from rwkv_daemon import events, views
from rwkv_daemon.node import Node, log
from rwkv_daemon.nvml_sampler import NO_NVML
from rwkvctl import config
from rwkvctl.protocol.messages import LeaseView

RESTART_S = 5.0
CPU = LeaseView(id="cpu:0", name="CPU")


def takes_engines(lease: LeaseView) -> bool:
    """Whether an engine can be placed there now. The engine of this version computes on the CPU: GPUs are watched and
    shown, and an engine on one would only block it."""
    return lease.id.startswith("cpu") and lease.use == "free" and lease.condition == "ok"


async def watch(node: Node) -> None:
    """Keep `node.leases` true. No NVML on this machine: one CPU lease, and nothing more to watch."""
    while True:
        code = await sample(node)
        if code == NO_NVML:
            node.leases = [CPU]
            node.wake.set()
            return
        log.warning("the GPU sampler ended (code %s); its GPUs are unknown until it answers again", code)
        forget(node)
        await asyncio.sleep(RESTART_S)


async def sample(node: Node) -> int | None:
    """Run one sampler until it ends or is silent for too long; returns its exit code, None if it was abandoned."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rwkv_daemon.nvml_sampler",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=config.base_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        while True:
            async with asyncio.timeout(node.config.settings.sampler_deadline_s):
                line = await process.stdout.readline()
            if not line:
                return await process.wait()
            found = [msgspec.convert(gpu, LeaseView) for gpu in json.loads(line)]
            first = node.leases is None
            before, node.leases = node.leases or [], [*found, CPU]
            changed = [lease for lease in views.lease_views(node) if lease not in before]
            node.bus.publish(events.passing("lease", data=msgspec.to_builtins(lease)) for lease in changed)
            if first:
                node.wake.set()
    except TimeoutError:
        return None
    except ValueError as error:  # not JSON, or not of this version's shape
        log.warning("the GPU sampler said something that cannot be read: %s", error)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):  # one that is stuck in the driver cannot be killed, and is left
            async with asyncio.timeout(1.0):
                await process.wait()


def forget(node: Node) -> None:
    """What is not measured is not known: no new lease on these GPUs."""
    if node.leases is None:
        node.leases = [CPU]
    node.leases = [
        lease if lease.id == CPU.id else LeaseView(id=lease.id, name=lease.name, use="unknown") for lease in node.leases
    ]
