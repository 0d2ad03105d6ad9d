"""Back in time on the Overview: GPUs (of a fake driver) from the daemon's history, what ran, what happened."""

import time
from typing import Any

import pytest


@pytest.fixture
def lively(new_node: Any, fake_nvml: Any, tools: Any) -> Any:
    """A node with two GPUs that were busy, and are idle now."""
    fake_nvml.gpus(2).gpu(0, util=97, temp=75, power=662000)
    node = new_node(CPU_ENGINES="true").start()
    (job,) = node.dispatch(limit=20)
    node.wait_for_state(job, "done")
    busy_until = time.time()

    def recorded() -> bool:
        reply = node.api.get("/v1/gpus/history", since=busy_until - 3, until=busy_until, step_s=1).value
        return 0.97 in reply["items"][0]["utilisation"]

    tools.wait_for(recorded, 40, "the busy time is recorded")
    fake_nvml.gpu(0, util=0, temp=30, power=70000)
    tools.wait_for(lambda: node.api.get("/v1/gpus").value["items"][0]["utilisation"] == 0, 40, "the GPU is idle")
    node.busy_until = busy_until
    return node


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_an_earlier_second_is_shown_as_such_and_left_again(
    lively: Any, pressing: Any, size: tuple[int, int]
) -> None:
    async with pressing(lively, size=size) as hands:
        text = await hands.see("Running 0", "Queue 0")
        assert "PAST" not in text
        await hands.press("left", "right", "end")
        assert "PAST" not in await hands.settled(), "the arrows are the table's as long as it is now"
        ago = int(time.time() - lively.busy_until) + 1
        text = await hands.press("at", *f"-{ago}s", "enter", see=(" PAST ", "UTC", "Ran then", " 97", " 662", " 75"))
        assert "Running 0" not in text
        assert all(len(line) <= size[0] for line in text.splitlines())
        await hands.press("left", see="? unknown")
        await hands.press("right", see=" 97")
        await hands.press("shift+left", see="10m")
        await hands.press("shift+right", see=" 97")
        await hands.press("end", see=("Running 0", "Queue 0"))
        await hands.gone("PAST")
        await hands.press("at", *f"-{ago}s", "enter", see=" PAST ")
        await hands.press("right", see="Running 0")
        await hands.press("at", *f"-{ago}s", "enter", see=" PAST ")
        await hands.press("escape", see="Running 0")
        await hands.press("at", *"25h", "enter", see="24 hours")
        await hands.press("escape")
        await hands.press("at", *"2031-01-01", "enter", see="yet to come")
        await hands.press("escape")


async def test_what_ran_then_is_listed_and_opened(lively: Any, pressing: Any) -> None:
    job = lively.job("j1")
    (line,) = list(lively.cli("job-log", "--at", job["started"], "-o", "tsv").stdout.splitlines()[1:])
    assert line.startswith("j1\t")
    assert lively.cli("job-log", "--at", "2020-01-01", "-o", "tsv").stdout.count("\n") == 1
    async with pressing(lively) as hands:
        await hands.see("Running 0")
        started = job["started"][11:19]
        await hands.press("at", *started, "enter", see=(" PAST ", "Ran then"))
        if "Ran then 0" in hands.text:  # it began within that second, after its beginning
            hands.app.frame.view._look_at(hands.app.frame.view.asked_at + 1)
        await hands.see("Ran then 1", "demo_arith")
        await hands.press("enter", see="demo_arith")
        assert hands.app.places.here[:2] == ("job", "j1")
        await hands.press("left_square_bracket", see=" PAST ")
