"""A simulated node with eight GPUs, six running jobs and a queue, updated once a second, for `bench/console.py`.

`python bench/console_node.py SOCKET [still]`: `still` sends everything once and then only heartbeats.
"""

import asyncio
import importlib.util
import math
import sys
import time
from pathlib import Path
from typing import Any

from rwkvctl.protocol.views import EngineView, LeaseView

MODELS = ["rwkv7-g1a-0.1b", "rwkv7-g1-0.4b", "rwkv7-g1-1.5b", "rwkv7-g1-2.9b", "rwkv7-g1b-2.9b", "rwkv7-g0-7.2b"]
TASKS = [("mmlu", 14042), ("mmlu_pro", 12032), ("gsm8k", 1319), ("math_500", 500), ("ifeval", 541), ("human_eval", 164)]


def fake() -> Any:
    """Return `tests/console/fake_daemon.py` as a module; it lies in no package."""
    path = Path(__file__).resolve().parents[1] / "tests" / "console" / "fake_daemon.py"
    spec = importlib.util.spec_from_file_location("fake_daemon", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_daemon"] = module
    spec.loader.exec_module(module)
    return module


def gpu(number: int, at: float) -> LeaseView:
    """Return a GPU at work."""
    wave = 0.5 + 0.5 * math.sin(at / 3 + number)
    return LeaseView(
        id=f"GPU-{number}", index=str(number), name="NVIDIA H200", use="zombie" if number == 6 else "leased",
        engine=f"e{number}", memory_used_bytes=int((90 + 4 * number + wave) * 2**30), memory_total_bytes=141 * 2**30,
        utilisation=0.88 + 0.12 * wave, power_w=640 + 40 * wave, temperature_c=72 + 4 * wave,
    )  # fmt: skip


def main() -> None:
    module = fake()
    node = module.Node(jobs=[], engines=[])
    node.lease_views = [gpu(number, 0.0) for number in range(8)]
    node.jobs = [
        module.job(412 + number, "generating", model=MODELS[number], benchmark=TASKS[number][0], total=TASKS[number][1],
                   done=50, engine=f"e{number}", running_score=module.METRIC, eta_s=300.0 + number, samples_per_s=31.0)
        for number in range(6)
    ]  # fmt: skip
    node.jobs += [
        module.job(430 + number, "queued" if number else "held", reason="waits-for-engine", done=0, total=500,
                   model=MODELS[number % 6], benchmark=TASKS[number % 6][0])
        for number in range(6)
    ]  # fmt: skip
    node.engines = [
        module.engine(id=f"e{number}", model=MODELS[number % 6], lease=f"GPU-{number}", cache_hits=90, cache_misses=10)
        for number in range(8) if number != 6
    ]  # fmt: skip
    asyncio.run(play(module, node, Path(sys.argv[1]), still="still" in sys.argv))


async def play(module: Any, node: Any, path: Path, *, still: bool) -> None:
    """Serve the node on the socket at `path`; unless `still`, change its jobs and telemetry for ever."""
    import threading

    ready, stop = threading.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(module.serve(path, node, ready, stop))
        while True:
            await asyncio.sleep(1.0)
            if still:
                continue
            at = time.time()
            for number in range(8):
                node.tell("lease", gpu(number, at), stored=False)
            for engine in node.engines:
                speed = 480_000 + 90_000 * math.sin(at / 5 + int(engine.id[1:]))
                node.tell("engine.stats", EngineView(**{
                    name: getattr(engine, name) for name in engine.__struct_fields__
                } | {"decode_tokens_per_s": speed}), stored=False)  # fmt: skip
            for number in range(412, 418):
                known = next(job for job in node.jobs if job.id == f"j{number}")
                node.change(number, done=(known.done + 31) % known.total, eta_s=max(1.0, (known.eta_s or 300) - 1))


if __name__ == "__main__" and len(sys.argv) > 1:
    main()
