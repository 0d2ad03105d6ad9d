"""Back in time on the Overview: GPUs (of a fake driver) from the daemon's history, what ran, what happened."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest


@pytest.fixture
def lively(new_node: Any, fake_nvml: Any, tools: Any) -> Any:
    """A node with two GPUs that were busy, and are idle now."""
    fake_nvml.gpus(2).gpu(0, util=97, temp=75, power=662000)
    node = new_node(CPU_ENGINES="true").start()
    (job,) = node.dispatch(limit=20)
    node.wait_for_state(job, "done")

    def recorded() -> bool:
        """Whether it was seen to be busy in the last seconds: under load the first look may come late."""
        node.busy_until = time.time() - 1  # a second that is over: no later look is written over it
        span = {"since": node.busy_until - 3, "until": node.busy_until, "step_s": 1}
        return 0.97 in node.api.get("/v1/gpus/history", **span).value["items"][0]["utilisation"]

    tools.wait_for(recorded, "the busy time is recorded")
    fake_nvml.gpu(0, util=0, temp=30, power=70000)
    tools.wait_for(lambda: node.api.get("/v1/gpus").value["items"][0]["utilisation"] == 0, "the GPU is idle")
    return node


def typed(at: float) -> str:
    """A second as it is typed after `@`."""
    return f"{datetime.fromtimestamp(at, UTC):%m-%dT%H:%M:%S}"


async def moved(hands: Any, key: str, to: int) -> None:
    """Press a key, and see another second."""
    await hands.press(key, see=f"{datetime.fromtimestamp(to, UTC):%H:%M:%S} UTC")
    assert hands.app.frame.view.then.at == to


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_an_earlier_second_is_shown_as_such_and_left_again(
    lively: Any, pressing: Any, size: tuple[int, int]
) -> None:
    busy, at = typed(lively.busy_until), int(lively.busy_until)
    async with pressing(lively, size=size) as hands:
        text = await hands.see("Running 0", "Queue 0")
        assert "PAST" not in text
        await hands.press("left", "right", "end")
        assert "PAST" not in await hands.settled(), "the arrows are the table's as long as it is now"
        text = await hands.press(
            "at", *busy, "enter", see=(" PAST ", "UTC", "Jobs running at that time", " 97", " 662", " 75")
        )
        assert "Running 0" not in text
        assert all(len(line) <= size[0] for line in text.splitlines())
        await moved(hands, "left", at - 60)
        await moved(hands, "shift+left", at - 660)
        assert "? unknown" in hands.text
        await moved(hands, "shift+right", at - 60)
        await moved(hands, "right", at)
        await hands.see(" 97")
        for key in ("end", "shift+right", "escape"):
            await hands.press(key, see=("Running 0", "Queue 0"))
            await hands.gone("PAST")
            await hands.press("at", *busy, "enter", see=" PAST ")
        for wrong, said in (("25h", "24 hours"), ("2031-01-01", "in the future"), ("soon", "not a time")):
            await hands.press("at", *wrong, "enter", see=said)
            await hands.press("escape")
        await hands.press("at", *"now", "enter", see="Running 0")


async def test_what_ran_then_is_listed_and_opened(lively: Any, pressing: Any) -> None:
    job = lively.job("j1")
    (line,) = list(lively.cli("job-log", "--at", job["started"], "-o", "tsv").stdout.splitlines()[1:])
    assert line.startswith("j1\t")
    assert lively.cli("job-log", "--at", "2020-01-01", "-o", "tsv").stdout.count("\n") == 1
    async with pressing(lively) as hands:
        await hands.see("Running 0")
        await hands.press(
            "at", *job["started"][5:19], "enter", see=(" PAST ", "Jobs running at that time 1", "demo_arith")
        )
        await hands.press("enter")
        await hands.settled()
        assert hands.app.places.here[:2] == ("job", "j1")
        await hands.press("left_square_bracket", see=" PAST ")
