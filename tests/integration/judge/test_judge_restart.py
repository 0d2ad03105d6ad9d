"""kill -9 during judging: the next process asks only for what the first had not received."""

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
import asyncio, sys
from pathlib import Path
sys.path.append(sys.argv[5])
from reply_caches import FileCache
from rwkv_daemon.judge.judge_service import JudgeService, JudgeTask
from rwkv_data.definition.answer import Answer
from rwkv_data.judges import RULES
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig, checked

async def main(url, cache, samples, concurrency):
    endpoint = EndpointConfig(base_url=url, concurrency=concurrency)
    service = JudgeService(checked(JudgeConfig(model="fake", endpoints=(endpoint,)), "test"), FileCache(Path(cache)))
    async def deliver(task, outcome):
        print(task.label, outcome.status, outcome.value, flush=True)
    tasks = [JudgeTask(job="j1", row={"question": f"Q{n}", "answer": str(n)}, rule=RULES["rwkv-skills-v1"],
                       extracted=str(n), answer=Answer(str(n)), label=str(n)) for n in range(samples)]
    async with asyncio.TaskGroup() as group:
        group.create_task(service.run())
        await service.judge_all(tasks, deliver)
        service.stop()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


def test_a_killed_process_loses_only_what_was_in_flight(kit: Any, tmp_path: Path) -> None:
    fake = kit.FakeJudge(behave=lambda asked: kit.Do("False" if "Q7\\n" in asked.prompt else "True", delay_s=0.02))
    with in_thread(fake):
        words = [
            fake.url,
            str(tmp_path / "cache"),
            str(SAMPLES),
            str(CONCURRENCY),
            str(Path(reply_caches.__file__).parent),
        ]
        command = [sys.executable, "-c", CHILD, *words]
        lines = last_lines(command)
    outcomes = [line.split() for line in lines]
    assert len(outcomes) == SAMPLES
    assert {status for _, status, _ in outcomes} == {"judged"}
    assert [label for label, _, value in outcomes if value == "0.0"] == ["7"]
    asked = Counter(json.dumps(one.document["messages"]) for one in fake.asked)
    assert len(asked) == SAMPLES
    assert sum(asked.values()) <= SAMPLES + len(KILLED_AFTER) * CONCURRENCY
