"""The Overview against a real daemon: what runs, what waits and why, what is wrong, when all is done. Every key."""

from pathlib import Path
from typing import Any

import pytest
from waiting import soon

from rwkvctl.protocol.views import LeaseView
from rwkvctl.tui.widgets.table import VTable

LONG = {"limit": 300, "settings": {"temperature": "1.0", "k": "60"}}
"""With `slow_s` more than is done while a test looks."""


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60)])
async def test_an_idle_node_says_so_and_why_a_job_is_held(measured: Any, pressing: Any, size: tuple[int, int]) -> None:
    async with pressing(measured, size=size) as hands:
        text = await hands.see("1 CPU 0▸ 1○", "Running 0", "Queue 1 · 1 held", "wait for the new rows", "○ free")
        assert "! 1 held, first j7: wait for the new rows" in text
        assert all(len(line) <= size[0] for line in text.splitlines())


async def test_a_running_job_shows_its_engine_rate_score_and_when_all_is_done(fresh: Any, pressing: Any) -> None:
    fresh.engines_do(slow_s=0.05)
    fresh.dispatch(**LONG)
    fresh.dispatch(limit=200, settings={"temperature": "1.0"}, seed=9)
    async with pressing(fresh, "▸ generating", "builtin", "▸ run") as hands:
        await hands.see("Running", "/18,000", "±", "all done in")
        devices = hands.app.query_one("#devices", VTable).listing
        await soon(lambda: devices.row(0).engines[0].slots > 0, "the engine's numbers are known")
        await hands.press("shift+tab", "enter", see="Jobs › j8")  # the job of the device
        await hands.press("escape", see="Running")


async def test_keys_lead_on_and_change_what_waits(fresh: Any, pressing: Any) -> None:
    fresh.cli("pause", "--queue", "--reason", "maintenance")
    fresh.dispatch(limit=3)
    async with pressing(fresh, "the queue is paused by", "maintenance") as hands:
        await hands.press("tab")
        assert hands.app.focused.id == "queue"
        await hands.press("home", "plus", see="U undoes this: rwkvctl priority j8 0")
        assert fresh.job("j8")["priority"] == 1
        await hands.press("U", "minus", see="j8 has priority -1 (was 0)")
        await hands.press("U")
        await hands.press("p", "end", "up", see="resume the queue")
        await hands.press("enter", see="nothing is paused")
        await hands.gone("‖ paused")
        fresh.wait_for_state("j8", "done")
        await hands.see("Running 0", "Queue 1 · 1 held")
        await hands.press("home")
        await hands.press("H", *"other", "enter", see="other")
        await hands.press("u", see="U undoes this: rwkvctl hold j7")
        for key, place in (("K", "procs"), ("l", "logs")):
            hands.app.go("overview")
            await hands.settled()
            await hands.press(key)
            await hands.settled()
            assert hands.app.places.here.name in {place, "overview"}
        hands.app.go("overview")
        await hands.press("D", see="New dispatch")
        await hands.press("escape")
        await hands.press("i")
        await hands.press("e", see="is selected")  # nothing, or nothing to retry: j7 may be over


async def test_what_is_wrong_stands_on_top_the_worst_first(tmp_path: Path, pressing: Any, fake_daemon: Any) -> None:
    node = fake_daemon.Node()
    node.lease_views = [
        LeaseView(id="GPU-0", index="0", use="leased", engine="e1"),
        LeaseView(id="GPU-1", index="1", use="zombie", why="pid 31877 holds 40.9 GiB"),
        LeaseView(id="GPU-2", index="2", use="free"),
    ]
    node.jobs += [fake_daemon.job(4, "failed", detail="out of memory", finished=fake_daemon.now())]
    node.jobs += [fake_daemon.job(5, "held", reason="data-missing", detail="no rows")]
    node.socket = tmp_path / "d.sock"
    with fake_daemon.serving(node.socket, node):
        async with pressing(node, size=(200, 60)) as hands:
            line = (await hands.see("! gpu 1 zombie (K)")).splitlines()[2]
            told = [
                "gpu 1 zombie (K): pid 31877", "✗ 1 failed, last j4: out of memory",
                "! 1 held, first j5: data-missing", "○ gpu 2 idle while 1 wait",
            ]  # fmt: skip
            assert [line.index(words) for words in told] == sorted(line.index(words) for words in told)
            node.jobs, node.lease_views = [], node.lease_views[:1]
            hands.app.state.load(node.on_status(), 0.0)
            await hands.see("no alerts")
