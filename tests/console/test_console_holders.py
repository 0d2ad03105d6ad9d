"""Procs, Data, Weights and Judge against a daemon that plays: hostile text, its loss, and a console that only reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.http import server
from rwkvctl.protocol.gpus import GpuView
from rwkvctl.protocol.replies import BenchmarksReply, ModelsReply
from rwkvctl.protocol.views import BenchmarkView, JudgeEndpointView, JudgeJobView, JudgeView, ModelView
from rwkvctl.protocol.zombies import RuleView, ZombieView
from rwkvctl.tui.options import Options
from rwkvctl.tui.widgets.table import VTable

SIZES = [(120, 36), (80, 24)]
GIB = 2**30


def holder(pid: int, cls: str, gpu: int, **more: Any) -> ZombieView:
    """A process on a GPU."""
    given = {"start_ticks": 7, "user": "rwkv", "age_s": 60.0, "memory_bytes": GIB, "attempt": "e3"} | more
    return ZombieView(gpu=f"GPU-{gpu}", index=str(gpu), pid=pid, cls=cls, **given)


@pytest.fixture
def gpu_node(fake_daemon: Any, socket_path: Path) -> Iterator[Any]:
    """A node with two orphans, a foreign process, and hostile words wherever words may stand."""
    evil, node = fake_daemon.EVIL, fake_daemon.Node()
    node.holders = [
        holder(11, "foreign", 1, command=evil, user=evil, verdict=evil),
        holder(12, "orphan", 2, verdict=f"left {evil}",
               rules=(RuleView(part="class", name="orphan", holds=True, value=evil),)),
        holder(13, "orphan", 3), holder(13, "orphan", 4),
    ]  # fmt: skip
    node.gpus = [GpuView(id=f"GPU-{n}", index=str(n), use="free", name=evil, why=evil) for n in range(4)]
    node.judges = [
        JudgeView(role="judge", model=evil, parked=evil, jobs=(JudgeJobView(job="j1", waiting=2, parked=evil),),
                    endpoints=(JudgeEndpointView(name=evil, keys=({"name": evil, "state": evil},)),))
    ]  # fmt: skip
    node.scores = [fake_daemon.score(9, unjudged=3, why_null=evil)]
    sets = BenchmarkView(name="evil", title=evil, domain=evil, kinds=(evil,), usual=(evil,), version=1, split=evil,
                           source=evil, problem=evil, licence=evil)  # fmt: skip
    models = ModelView(name=evil, path=f"/w/{evil}", size_bytes=9, broken=evil)
    for route, reply in (("benchmarks", BenchmarksReply(items=(sets,))), ("models", ModelsReply(items=(models,)))):
        content = msgspec.json.encode(reply)
        node.answers[f"/v1/{route}"] = lambda _, content=content: server.Response(200, content)
    with fake_daemon.serving(socket_path, node):
        yield node


@pytest.mark.parametrize("size", SIZES)
async def test_no_word_of_anybody_s_drives_the_terminal(
    gpu_node: Any, socket_path: Path, driving: Any, size: tuple[int, int]
) -> None:
    async with driving.console(socket_path, size) as (app, pilot):
        await driving.until(app, "●")
        for key, words in (("6", "pid 12 is classed as orphan"), ("v", "free"), ("7", "evil"), ("8", "damaged"),
                           ("9", "! waiting")):  # fmt: skip
            await pilot.press(key)
            text = await driving.until(app, words, "␛]52")
            assert not {char for char in text if char != "\n" and not char.isprintable()}
            assert all(len(line) <= size[0] for line in text.splitlines())


async def test_marked_orphans_are_reaped_each_by_its_start(gpu_node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("6")
        await driving.until(app, "pid 12 is classed as orphan")  # the cursor stands on the first that needs somebody
        await pilot.press("space", "space", "K")
        await driving.until(app, "Reap 2 processes?", "3.0 GiB on GPU 2 and GPU 3 and GPU 4", "SIGTERM")
        await pilot.press("y")
        await driving.until(app, "pid 13 ended after SIGTERM")
        await driving.gone(app, "! orphan")
        asked = [body for _, path, _, body in gpu_node.asked if path == "/v1/reap" and body.get("yes")]
        assert [(body["pid"], body["start_ticks"]) for body in asked] == [(12, 7), (13, 7)]
        assert all(body["request_id"] for body in asked)
        await pilot.press("K")
        await driving.until(app, "was not started by this daemon")


async def test_nothing_is_changed_by_a_console_that_only_reads(gpu_node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, options=Options(read_only=True)) as (app, pilot):
        await driving.until(app, "●")
        for screen, words, keys in (("6", "pid 12 is classed as", "Kc"), ("7", "evil", "fD"), ("8", "damaged", "fD"),
                                    ("9", "! waiting", "R")):  # fmt: skip
            await pilot.press(screen)
            await driving.until(app, words)
            for key in keys:
                app.frame.hush()
                await pilot.press(key)
                await driving.until(app, "read-only")
                assert app.screen is app.frame
        assert {method for method, *_ in gpu_node.asked} == {"GET"}


async def test_while_the_daemon_is_gone_what_is_known_stays_and_nothing_acts(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node = fake_daemon.Node(holders=[holder(12, "orphan", 2)])
    async with driving.console(socket_path) as (app, pilot):
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "●")
            await pilot.press("6")
            await driving.until(app, "pid 12 is classed as orphan")
        await driving.until(app, "daemon gone", "! orphan")
        assert app.query_one("#processes", VTable).stale
        await pilot.press("K")
        await driving.until(app, "does not answer")
        node.holders.append(holder(14, "ours", 5))
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "● daemon up", "▸ ours")
            assert not app.query_one("#processes", VTable).stale


async def test_gpus_are_decided_about_by_what_they_are(gpu_node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("6")
        await driving.until(app, "! orphan")
        await pilot.press("v", "space", "space", "c")
        await driving.until(app, "GPU 0, 1", "quarantine")
        await pilot.press("down", "enter")
        await driving.until(app, "drain GPU 0, 1: why?")
        await pilot.press(*"hot", "enter")
        await driving.until(app, "GPU 0 draining; GPU 1 draining", "! draining")
        assert app.commands[-1] == "rwkvctl gpus drain 0 1 --reason hot"
        (body,) = [body for method, path, _, body in gpu_node.asked if (method, path) == ("POST", "/v1/gpus")]
        assert body == {"action": "drain", "gpus": ["GPU-0", "GPU-1"], "reason": "hot"}
