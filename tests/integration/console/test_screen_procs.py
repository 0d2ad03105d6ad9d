"""The screen Procs against a real daemon, real processes, and the GPUs of a fake NVML."""

import asyncio
import importlib.util
import sqlite3
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.store import open_store

OVER = "2026-01-01T00:00:00.000Z"
PLANTS = Path(__file__).resolve().parents[1] / "daemon" / "conftest.py"


def plants() -> Any:
    """The helpers of the daemon's tests, which hold fake GPUs."""
    if "plants_of_daemon_tests" not in sys.modules:
        spec = importlib.util.spec_from_file_location("plants_of_daemon_tests", PLANTS)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return sys.modules["plants_of_daemon_tests"]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Any]:
    """Starts processes that hold a fake GPU, and ends them all."""
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in plants().DEVICES:
        (dev / name).touch()
    made = plants().Plant(dev)
    yield made
    made.close()


def left_behind(home: Path) -> str:
    """The marker of an engine that ended long ago, written into a store that no daemon has open."""
    marker = str(uuid.uuid4())
    with sqlite3.connect(home / "store.sqlite") as db:
        db.execute(
            "INSERT INTO engine (uuid, model, weights_path, weights_sha256, numerics, lease, state, socket, "
            "started, ended) VALUES (?, 'm', '/w', 'w', 'fp32', 'GPU-x', 'gone', '', ?, ?)",
            (marker, OVER, OVER),
        )
    db.close()
    return marker


async def made(path: Path) -> None:
    await (await open_store(path)).close()


@pytest.fixture
def site(new_node: Callable[..., Any], fake_nvml: Any, plant: Any) -> tuple[Any, dict[str, int]]:
    """A node with two GPUs: an orphan of ours on the first, somebody's training on the second."""
    fake_nvml.gpus(2)
    quick = {"reap_grace_s": "1", "reap_idle_s": "2", "stop_term_s": "1", "reap": "ask"}
    node = new_node(test_dev=str(plant.dev), test_namespace="own", **quick)
    asyncio.run(made(node.home / "store.sqlite"))
    pids = {"orphan": plant.start(marker=left_behind(node.home)), "foreign": plant.start(minor=1)}
    fake_nvml.process(0, pids["orphan"], mem=8 * 2**30)
    fake_nvml.process(1, pids["foreign"], mem=4 * 2**30)
    return node.start(), pids


def release_when_gone(nvml: Any, plant: Any, pid: int, tools: Any) -> None:
    """What a driver does: the memory of a process is free when it has ended."""
    tools.wait_for(lambda: not plant.lives(pid), f"pid {pid} has ended")
    nvml.end(pid)


async def test_an_orphan_is_explained_and_reaped_and_nobody_else_can_be(
    site: Any, pressing: Any, plant: Any, fake_nvml: Any, tools: Any
) -> None:
    node, pids = site
    async with pressing(node) as hands:
        await hands.press(
            "6", see=("! orphan", "foreign", f"Why pid {pids['orphan']} is classed as orphan", "reap = ask")
        )
        text = await hands.see("✓ watched", "✓ idle", "8.0 GiB", "class", "this node")
        assert f"`rwkvctl reap {pids['orphan']} --start " in " ".join(text.split())
        await hands.press("j", see=f"Why pid {pids['foreign']} is classed as foreign")
        await hands.press("K", see=("was not started by this daemon", "ask its owner"))
        await hands.press("k", "enter", see="classed as orphan")
        assert hands.app.focused is not None
        assert hands.app.focused.id == "why"
        await hands.press("escape", see="Running")  # nothing was narrowed: back
        await hands.press("6", "shift+tab")
        await hands.press("K", see=("Reap process", "SIGTERM", "8.0 GiB on GPU 0", "loses    nothing", "--yes"))
        await hands.press("escape")
        await hands.gone("Reap process")
        assert plant.lives(pids["orphan"])
        await hands.press("K", see="Reap process")
        releasing = threading.Thread(target=release_when_gone, args=(fake_nvml, plant, pids["orphan"], tools))
        releasing.start()
        await hands.press("y", see=("is free again", "freed"))
        releasing.join()
        assert not plant.lives(pids["orphan"])
        assert plant.lives(pids["foreign"])
        assert hands.app.commands[-1].startswith(f"rwkvctl reap {pids['orphan']} --start ")
        await hands.gone("! orphan")


async def test_gpus_are_reserved_and_released_from_the_screen(site: Any, pressing: Any, plant: Any) -> None:
    node, pids = site
    async with pressing(node, size=(80, 24)) as hands:
        await hands.press("6", see="! orphan")
        await hands.press("t", see="as a tree")
        await hands.press("t")
        await hands.gone("as a tree")
        await hands.press("v", see=("GPUs: their use and condition", "zombie", "busy"))
        await hands.press("j", "enter", see=f"pid {pids['foreign']}")
        await hands.press("shift+tab", "c", see=("reserve", "keep it free for other work", "quarantine"))
        await hands.press("enter", see="what for?")
        await hands.press("enter", see="A reason is needed (what for)")
        await hands.type("run 12")
        await hands.press("enter", see="! reserved")
        assert hands.app.commands[-1] == "rwkvctl gpus reserve 1 --for 'run 12'"
        await hands.press("c", see="end the reservation")
        await hands.press("enter", see="GPU 1 ok")
        await hands.press("r", "v", see="! orphan")
        await hands.press("c", see="GPU 0")  # that of the process under the cursor
        await hands.press("escape")
        assert plant.lives(pids["foreign"])
