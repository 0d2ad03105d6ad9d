"""What every screen looks like at three sizes, as text: a change of layout shows in the difference of a file.

`pytest tests/console/test_console_snapshots.py --snapshot-update` writes them anew; look at them before you keep them.
"""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from rwkvctl.protocol.recipes import RecipePaymentView, RecipeSourceView
from rwkvctl.protocol.views import LeaseView
from rwkvctl.tui.shell import status_line

SIZES = [(80, 24), (120, 36), (200, 60)]
PLACES = {
    "overview": "", "queue": "", "jobs": "", "job": "j1", "scores": "", "compare": "j1 j25", "samples": "j1",
    "sample": "j1:1", "logs": "j1", "procs": "", "benchmarks": "", "weights": "", "judge": "", "events": "",
    "daemon": "", "help": "overview", "recipes": "", "watch": "",
}  # fmt: skip
KEPT = Path(__file__).parent / "__snapshots__" / Path(__file__).stem
STILL = 20
"""So many looks, a tenth of a second apart, that show the same: then a screen is written anew."""


class TextFiles(SingleFileSnapshotExtension):
    """A text file for each snapshot."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def look(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """What a screen is compared with."""
    return snapshot.use_extension(TextFiles)


@pytest.fixture
def night(fake_daemon: Any, console_module: Any) -> Any:
    """A node with eight GPUs, one of which holds a zombie, six jobs that run, and a queue."""
    node = console_module("score_node").ScoreNode(models=8, benchmarks=6)
    node.lease_views = [
        LeaseView(id=f"GPU-{n}", index=str(n), name="NVIDIA H200", use="zombie" if n == 6 else "leased",
                    why="pid 31877 holds 40.9 GiB" if n == 6 else "", memory_used_bytes=(90 + 4 * n) * 2**30,
                    memory_total_bytes=141 * 2**30, utilisation=0.02 if n == 6 else 0.97, power_w=662, temperature_c=75)
        for n in range(8)
    ]  # fmt: skip
    node.engines = [fake_daemon.engine(id=f"e{n}", lease=f"GPU-{n}") for n in range(8) if n != 6]
    names = [("mmlu", "plain"), ("gsm8k", "cot"), ("ifeval", "if"), ("human_eval", "code"), ("math_500", "cot")]
    node.jobs = [
        fake_daemon.job(n, engine=f"e{n - 1}", benchmark=names[n % 5][0], kind=names[n % 5][1], done=9 * n,
                        eta_s=60.0 * n, samples_per_s=3.0, running_score=fake_daemon.METRIC)
        for n in range(1, 7)
    ]  # fmt: skip
    waits = ["waits-for-engine", "data-missing", "held"]
    node.jobs += [
        fake_daemon.job(
            n, "queued" if n == 10 else "held", reason=waits[n % 10], detail="wait for the new prompt", done=0
        )
        for n in range(10, 13)
    ]
    node.endpoints, node.recipes = [fake_daemon.writer()], recipes_of_the_night(fake_daemon)
    watch_a_run(node, fake_daemon)
    night = {"started": "2026-11-21T02:50:00.000Z", "finished": "2026-11-21T03:00:00.000Z", "done": 100}
    node.jobs += [fake_daemon.job(n, "done", score=fake_daemon.score(n), **night) for n in (1001, 1002)]
    return node


def recipes_of_the_night(fake_daemon: Any) -> list[Any]:
    """A recipe that is done, one that failed, and one that waits."""
    shown = {"benchmark": "numina_math", "kind": "free_response.chat", "model": "writer", "state": "done"}
    source = RecipeSourceView(job="j90", samples=23_345, done=23_345, right=22_841.0, rewrites="j81", **shown)
    paid = (RecipePaymentView(to="writer", tokens=1_900_000, cost=58.4, budget_left=38.8, keys=3),)
    return [
        fake_daemon.recipe(1, "failed", name="old.toml", detail="j12 was deleted before it was done"),
        fake_daemon.recipe(2, "waiting", name="night.toml", detail="j95 is held: wait for the new rows"),
        fake_daemon.recipe(3, sources=(source,), paid=paid),
    ]


def watch_a_run(node: Any, fake_daemon: Any) -> None:
    """Let a node watch two folders, one of which cannot be read; the models of its scores are the checkpoints."""
    models = list(dict.fromkeys(score.model for score in node.scores))
    done = [fake_daemon.checkpoint(500 * n, model=model) for n, model in enumerate(models, 1)]
    broken = fake_daemon.checkpoint(9_000, "parked", model="", reason="it is not complete, and does not change")
    running = fake_daemon.checkpoint(9_500, "dispatched", model="", reason="0 of 2 jobs done")
    node.checkpoints["w1"] = [running, broken, *reversed(done)]
    detail = "/runs/old cannot be read: No such file or directory"
    node.watches = [
        fake_daemon.watch(1, {"done": len(done), "parked": 1, "dispatched": 1}),
        fake_daemon.watch(2, {"done": 3}, name="old", root="/runs/old", detail=detail),
    ]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_screen_looks_as_it_did(
    night: Any, size: tuple[int, int], socket_path: Path, fake_daemon: Any, driving: Any, look: SnapshotAssertion,
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    monkeypatch.setattr(time, "time", lambda: 1_795_238_014.0)
    monkeypatch.setattr(status_line, "SLOW_S", 3600.0)  # what the fake says is older than that clock
    anew = request.config.getoption("--snapshot-update")
    with fake_daemon.serving(socket_path, night):
        async with driving.console(socket_path, size) as (app, _):
            await driving.until(app, "● ")
            for name, about in PLACES.items():
                app.go(name, about)
                kept = KEPT / f"{request.node.name}[{name}].txt"
                text = await (still(app, driving) if anew else the_same(app, driving, kept))
                assert all(len(line) <= size[0] for line in text.splitlines())
                assert text == look(name=name)


async def the_same(app: Any, driving: Any, kept: Path) -> str:
    """The screen once it shows what is kept, or the last that it showed: all that was asked for comes in time."""
    wanted = kept.read_text(encoding="utf-8") if kept.exists() else ""
    with contextlib.suppress(pytest.fail.Exception):  # the comparison that follows says what differs
        await driving.looking(app, lambda text: text == wanted, f"{kept.name} is seen")
    await driving.settled(app)
    return str(driving.screen_text(app))


async def still(app: Any, driving: Any) -> str:
    """The screen once it no longer changes."""
    await driving.settled(app)
    seen = [""]
    while seen[-STILL:] != [seen[-1]] * STILL or not seen[-1]:
        await asyncio.sleep(0.1)
        seen.append(driving.screen_text(app))
        assert len(seen) < 300, "it never comes to rest"
    return str(seen[-1])
