"""kill -9 of the process that asks: the next one asks only for what the first had not received."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import reply_caches
from fake_judge import in_thread
from killed_twice import KILLED_AFTER, last_lines

SAMPLES, CONCURRENCY = 120, 8

CHILD = """
import asyncio, json, sys
from pathlib import Path
import msgspec
sys.path.append(sys.argv[4])
from reply_caches import FileCache
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.runner.ask import Batch
from rwkv_daemon.runner.engine_client import EngineClient
from rwkv_daemon.workers.run_directory import EngineEndpoint
from rwkvctl.protocol.engine import GenerateItem, Turn
from rwkvctl.settings.endpoints import parse

async def main(url, folder, count, concurrency):
    config = parse({"qwq": {"base_url": url, "model": "QwQ-32B", "concurrency": concurrency}})["qwq"]
    model = RemoteModel(config, FileCache(folder / "cache"), folder / "m.sock")
    items = [GenerateItem(id=str(n), messages=(Turn(role="user", content=f"What is {n} + 1?"),), keys=(n,), group="j1")
             for n in range(count)]
    batch = Batch("/v1/generate", [msgspec.json.encode(item) for item in items], {(item.id, 0): None for item in items})
    async with asyncio.TaskGroup() as group:
        group.create_task(model.run())
        while not model._bound:  # a stale socket lies there
            await asyncio.sleep(0.01)
        client = EngineClient(EngineEndpoint(engine="qwq", socket=str(model.socket)))
        async for answer in client.ask(batch):
            del batch.waiting[answer.id, 0]
            print(json.dumps([answer.id, answer.text, answer.error]), flush=True)
        client.close()
        model.stop()

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), 8))
"""


def test_a_killed_process_loses_only_what_was_in_flight(kit: Any, tmp_path: Path) -> None:
    fake = kit.FakeJudge(behave=lambda asked: kit.Do(f"It is {asked.prompt[8:-1]}.", delay_s=0.02))
    with in_thread(fake):
        words = [fake.url, str(tmp_path), str(SAMPLES), str(Path(reply_caches.__file__).parent)]
        command = [sys.executable, "-P", "-c", CHILD, *words]
        lines = last_lines(command)
    found = {number: (text, error) for number, text, error in map(json.loads, lines)}
    assert found == {str(number): (f"It is {number} + 1.", "") for number in range(SAMPLES)}
    asked = Counter(json.dumps(one.document["messages"]) for one in fake.asked)
    assert len(asked) == SAMPLES
    assert sum(asked.values()) <= SAMPLES + len(KILLED_AFTER) * CONCURRENCY
