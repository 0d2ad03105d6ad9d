"""A watched folder on a real node: its checkpoints as they are measured, their feedback, and what the keys change."""

from pathlib import Path
from typing import Any

import pytest
from measured_run import states, until_states, write_suite
from training_run import TrainingRun

SUITE = '[suites.nightly]\nbenchmarks = ["demo_arith"]\nobjective = ["demo_arith"]\n'


@pytest.fixture
def watching(new_node: Any, tmp_path: Path) -> Any:
    """A node that has measured two checkpoints of a run; a third is not whole."""
    node = new_node()
    write_suite(node, tmp_path / "config", SUITE)
    node.start()
    run = TrainingRun(tmp_path / "runs" / "g1x")
    node.cli("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite", "nightly")
    run.write("rwkv-100.pth", right=60)
    run.write("rwkv-200.pth", right=200)
    run.begin("rwkv-300.pth")
    until_states(node, {"rwkv-100.pth": "done", "rwkv-200.pth": "done", "rwkv-300.pth": "parked"})
    node.run = run
    return node


async def test_checkpoints_with_their_scores_and_feedback(watching: Any, pressing: Any) -> None:
    async with pressing(watching, size=(140, 45), flags={"home": str(watching.home)}) as hands:
        await hands.press("W", see=("1 folder, 1 parked", "w1 g1x: 3 checkpoints", "✗ parked"))
        await hands.see("demo_arith free_response accuracy by checkpoint", "it is not complete, and does not change")
        await hands.press("enter", "j", see="rwkv-200.pth: 1 of 1 job done")
        assert hands.app.frame.view.command() == "rwkvctl feedback w1 g1x-rwkv-200"
        await hands.press("enter", see=("# rwkv-200.pth, step 200, of w1 (g1x)", "Best so far: this checkpoint"))


async def test_the_keys_change_what_the_node_does(watching: Any, pressing: Any) -> None:
    async with pressing(watching, size=(140, 45)) as hands:
        await hands.press("W", see="✗ parked")
        await hands.press("enter", "j", "j", "b", see="Compare the checkpoints of w1 with rwkv-100.pth?")
        await hands.press("y", see=("g1x-*: compared with g1x-rwkv-100", "baseline g1x-rwkv-100"))
        await hands.press("k", "k", "s", see="Skip rwkv-300.pth of w1?")
        await hands.press("y", see=("rwkv-300.pth is left out", "– superseded"))
        watching.run.finish(watching.run.folder / "rwkv-300.pth")
        await hands.press("R", see="Retry rwkv-300.pth of w1?")
        await hands.press("y", see="rwkv-300.pth is tried again")
        until_states(watching, {f"rwkv-{step}.pth": "done" for step in (100, 200, 300)})
        await hands.press("escape", "p", see="w1 g1x: paused")
    (pin,) = watching.api.get("/v1/baselines").value["pins"]
    assert (pin["pattern"], pin["model"]) == ("g1x-*", "g1x-rwkv-100")
    assert states(watching)["rwkv-300.pth"] == "done"
