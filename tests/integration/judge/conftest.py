"""The fake judge, and a judge service that runs against it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import fake_judge
import pytest
from reply_caches import MemoryCache
from waiting import soon

from rwkv_daemon.judge.judge_service import JudgeOutcome, JudgeService, JudgeTask
from rwkv_daemon.remote.dispatcher import ExchangeEvent
from rwkv_daemon.remote.reply_cache import ReplyCache
from rwkv_daemon.remote.scaled_clock import ScaledClock
from rwkv_data.definition.answer import Answer
from rwkv_data.judges import RULES
from rwkv_data.judges.judge_rule import JudgeVerdict
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig, checked

Do, FakeJudge, serving = fake_judge.Do, fake_judge.FakeJudge, fake_judge.serving


@pytest.fixture
def kit() -> ModuleType:
    """This module: its helpers for tests."""
    return sys.modules[__name__]


@pytest.fixture
async def judge() -> AsyncIterator[Any]:
    """A judge that answers True to everything until a test changes that."""
    async with serving(FakeJudge()) as fake:
        yield fake


@dataclass
class Judging:
    """A running service, and its messages to the operator."""

    service: JudgeService
    events: list[ExchangeEvent]
    running: asyncio.Task[None]

    def task(self, number: int, *, job: str = "j1", rule: str = "rwkv-skills-v1", fresh: bool = False) -> Any:
        row = {"question": f"What is {number} + 1?", "answer": str(number + 1)}
        given = Answer(f"{number + 1} of {job}")
        return JudgeTask[JudgeVerdict](
            job=job, row=row, rule=RULES[rule], extracted=given.text, answer=given, label=f"r{number}", fresh=fresh
        )

    async def judge(
        self, count: int, *, job: str = "j1", rule: str = "rwkv-skills-v1"
    ) -> list[JudgeOutcome[JudgeVerdict]]:
        """Judge `count` samples at once; return their outcomes in order."""
        found: dict[int, JudgeOutcome[JudgeVerdict]] = {}
        tasks = {self.task(number, job=job, rule=rule): number for number in range(count)}

        async def deliver(task: Any, outcome: JudgeOutcome[JudgeVerdict]) -> None:
            found[tasks[task]] = outcome

        await self.service.judge_all(tasks, deliver)
        return [found[number] for number in range(count)]


@contextlib.asynccontextmanager
async def judging(
    *endpoints: EndpointConfig,
    cache: ReplyCache | None = None,
    speed: float = 20.0,
    grace_s: float = 5.0,
    **settings: Any,
) -> AsyncIterator[Judging]:
    """A service over endpoints, running; back-off and minutes pass `speed` times as fast as real ones."""
    config = checked(JudgeConfig(**({"model": "fake", "timeout_s": 60.0} | settings), endpoints=endpoints), "test")
    events: list[ExchangeEvent] = []
    service = JudgeService(config, cache or MemoryCache(), ScaledClock(speed), tell=events.append)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(service.run(grace_s))
        try:
            yield Judging(service, events, running)
        finally:
            if not running.cancelling():
                running.cancel()
            await asyncio.wait([running])


def endpoint(fake: Any, **settings: Any) -> EndpointConfig:
    return EndpointConfig(base_url=fake.url, **settings)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    await soon(condition, "the judge and its service are there")
