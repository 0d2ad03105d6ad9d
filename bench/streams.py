"""What streams over HTTP cost an engine. Its device is played, and takes as long a step as a 1.5B model on an H200;
engine thread, scheduler, server and a client that reads every stream are real.

    python bench/streams.py [--batches 128,512] [--seconds 3]

Tokens a second with answers that come whole, with streams whose readers are all woken after each step, and with streams
as the engine wakes them (rwkv_engine.serving.wakeups); and the processor time of the engine's process for a step.
"""

import argparse
import asyncio
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import torch
from speed import machine

from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler, SlotInput, SlotOutput
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.serving.process import SWITCH_S
from rwkv_engine.serving.routes import Service
from rwkv_engine.tokenizer import for_vocabulary
from rwkvctl.http.listeners import bind_unix
from rwkvctl.http.server import Server
from rwkvctl.protocol.engine import EngineHealth

STEP_MS: Final = {32: 1.6, 128: 2.9, 512: 7.2, 1024: 13.0}
VOCABULARY: Final = 65536
SETTLED_S: Final = 0.5
HOW: Final = ("whole", "all woken", "ours")
CLIENT: Final = """
import asyncio, json, sys
async def read(number):
    asked = dict(model="m", prompt="a", max_tokens=10**6, ignore_eos=True, seed=number, stream=sys.argv[3] == "stream")
    body = json.dumps(asked).encode()
    reader, writer = await asyncio.open_unix_connection(sys.argv[1])
    head = b"POST /v1/completions HTTP/1.1\\r\\nhost: e\\r\\ncontent-length: %d\\r\\n\\r\\n"
    writer.write(head % len(body) + body)
    while await reader.read(65536):
        pass
async def main():
    await asyncio.gather(*map(read, range(int(sys.argv[2]))))
asyncio.run(main())
"""


class NoStates:
    """States of a model that has none."""

    size_bytes = 1

    def clear(self, slot: int) -> None: ...
    def save(self, slot: int) -> object: ...
    def load(self, slot: int, payload: object) -> None: ...
    def spill(self, payload: object) -> object: ...


class PlayedStep(NamedTuple):
    """A step that the device has done at `done_s`."""

    inputs: Sequence[SlotInput]
    done_s: float
    draw: random.Random

    def collect(self) -> list[SlotOutput]:
        time.sleep(max(0.0, self.done_s - time.perf_counter()))
        return [SlotOutput((), self.draw.randrange(1, 60_000) if entry.draw else None) for entry in self.inputs]


@dataclass(slots=True)
class PlayedDevice:
    """A device that does one step after the other, each in the same time, and draws random tokens."""

    step_s: float
    draw: random.Random
    lag: int = 1
    free_s: float = 0.0

    def launch(self, inputs: Sequence[SlotInput]) -> PlayedStep:
        self.free_s = max(time.perf_counter(), self.free_s) + self.step_s
        return PlayedStep(inputs, self.free_s, self.draw)


class Speed(NamedTuple):
    """Tokens a second, and processor seconds of the engine's process for a step."""

    tok_s: float
    step_cpu_s: float


async def measured(compiler: Compiler, batch: int, how: str, seconds: float) -> Speed:
    scheduler = Scheduler(Limits(batch, 8192, cache_bytes=0, kept_bytes=0), NoStates(), time.monotonic)
    engine = Engine(scheduler, PlayedDevice(STEP_MS[batch] / 1000, random.Random(batch)), 1 << 16, Liveness(None))
    health = EngineHealth(
        ok=True, model="m", weights_sha256="", numerics="fast", device="played", attempt="", engine_version="",
        torch_version="", vocabulary=VOCABULARY, pid=os.getpid(),
    )  # fmt: skip
    service = Service(engine, compiler, health)
    if how == "all woken":
        service.requests.streams.clock = itertools.count().__next__  # a second passes between two steps
    with tempfile.TemporaryDirectory() as folder:
        server, path = Server(service.handle, at_once=2 * batch), Path(folder) / "s"
        listening = await server.start(bind_unix(path))
        engine.start(lambda: None)
        words = [sys.executable, "-c", CLIENT, str(path), str(batch), "whole" if how == "whole" else "stream"]
        client = await asyncio.create_subprocess_exec(*words)
        try:
            while len(scheduler.running) < batch:
                await asyncio.sleep(0.01)
            await asyncio.sleep(SETTLED_S)
            began, cpu_s, steps, tokens = now(engine)
            await asyncio.sleep(seconds)
            ended, cpu_after_s, steps_after, tokens_after = now(engine)
        finally:
            client.kill()
            await client.wait()
            listening.close()
            await server.close()
            await asyncio.to_thread(engine.stop)
    return Speed((tokens_after - tokens) / (ended - began), (cpu_after_s - cpu_s) / (steps_after - steps))


def now(engine: Engine) -> tuple[float, float, int, int]:
    """Return the time, the processor time, and how many steps and tokens there were."""
    return time.perf_counter(), time.process_time(), engine.steps, engine.scheduler.counters.decode_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="128,512", help=f"of {', '.join(map(str, STEP_MS))}")
    parser.add_argument("--seconds", type=float, default=3.0)
    flags = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)  # as in an engine's process on a GPU
    facts = machine.machine(torch.device("cpu"))
    for name in ("date", "commit", "cpu", "system", "versions"):
        print(f"{name:9} {facts[name]}")
    compiler = Compiler(for_vocabulary(VOCABULARY))
    for batch in map(int, flags.batches.split(",")):
        found = {how: asyncio.run(measured(compiler, batch, how, flags.seconds)) for how in HOW}
        print(f"batch {batch}, {STEP_MS[batch]} ms a step: at most {1000 * batch / STEP_MS[batch]:,.0f} tokens/s")
        for how, speed in found.items():
            share, cpu_ms = speed.tok_s / found["whole"].tok_s, 1000 * speed.step_cpu_s
            print(
                f"  {how:9} {speed.tok_s:8,.0f} tokens/s, {share:.2f} of whole; {cpu_ms:.2f} ms of the processor a step"
            )


if __name__ == "__main__":
    main()
