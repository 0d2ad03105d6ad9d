"""The console against a real daemon: a node that has measured two checkpoints, and hands that press keys."""

import fcntl
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from textual.pilot import Pilot
from waiting import LIMIT_S

from rwkvctl.tui.app import Console
from rwkvctl.tui.options import Options
from rwkvctl.tui.shell import command_runner

PARTS = Path(__file__).resolve().parents[2] / "console"
OTHER = "rwkv7-g1-0.1b-20260801-ctx4096"
"""The second checkpoint: to stub engines other bytes are another model."""
LIMIT = 40
HELD_FOR = "wait for the new rows"
BAD_AT_SUMS = {"3+": "1000", "+": "no idea"}
"""What the second checkpoint says to sums: it is worse than the first on any of them, by wrong answers and by none."""


def load(name: str) -> ModuleType:
    """A module of `tests/console`, by its path: tests have no packages."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PARTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


driving = load("driving")


@dataclass
class Hands:
    """A console that runs, and hands on its keys."""

    app: Console
    pilot: Pilot[None]
    seen: str = ""
    """The screen on which was found what was waited for last."""

    async def press(self, *keys: str, see: tuple[str, ...] | str = ()) -> str:
        """Press keys and wait until these words are on the screen; returns the screen.

        Words that stood there when the last wait ended would not be waited for: they must go first.
        """
        words = [see] if isinstance(see, str) else see
        if words and all(word in self.seen for word in words):
            saying = f"{words!r} are gone, so that {keys} can bring them"
            await driving.looking(self.app, lambda text: not all(word in text for word in words), saying)
        await self.pilot.press(*keys)
        return await self.see(*words)

    async def type(self, text: str) -> None:
        """Press the key of every letter."""
        await self.pilot.press(*text)

    async def see(self, *words: str) -> str:
        """Wait until all of these words are on the screen; returns the screen."""
        self.seen = str(await driving.until(self.app, *words))
        return self.seen

    async def gone(self, word: str) -> str:
        """Wait until a word is no longer on the screen; returns the screen."""
        return str(await driving.gone(self.app, word))

    async def settled(self) -> str:
        """Wait until what was asked for has been painted; returns the screen."""
        await driving.settled(self.app)
        return self.text

    @property
    def text(self) -> str:
        """What is on the screen."""
        return str(driving.screen_text(self.app))

    async def resize(self, width: int, height: int) -> None:
        """Another size of the terminal."""
        await self.pilot.resize_terminal(width, height)
        await self.settled()


Pressing = Callable[..., Any]
"""`async with pressing(node, "words", size=(80, 24)) as hands:`."""


@pytest.fixture(scope="session")
def pressing() -> Pressing:
    """Opens the console on a node (anything with a `socket`) and waits for words, the node's health by default."""

    @asynccontextmanager
    async def press(node: Any, *words: str, size: tuple[int, int] = (120, 36), **options: Any) -> AsyncIterator[Hands]:
        async with driving.console(node.socket, size, Options(**options)) as (app, pilot):
            hands = Hands(app, pilot)
            await hands.see(*(words or ("●",)))
            yield hands

    return press


@pytest.fixture(autouse=True)
def a_verb_that_says_little_is_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(command_runner, "BRIEF_S", LIMIT_S)


@pytest.fixture(scope="session")
def fake_daemon() -> ModuleType:
    return load("fake_daemon")


@pytest.fixture(scope="session")
def browsing() -> ModuleType:
    return load("browsing")


@pytest.fixture(scope="session")
def report_nodes() -> ModuleType:
    return load("report_nodes")


def own_rows(home: Path) -> None:
    """A benchmark of three subjects: `own_quiz`, look-ups as `demo_choice` has them."""
    from rwkv_data.prepare.prepare import prepare_own  # takes a second, in the one process that builds the home

    words = ["bab", "cec", "did", "fof", "gig", "hih", "lul", "mum"]
    rows = [
        {
            "question": words[(n + n % 4) % 8],
            "choices": [words[(n + k) % 8] for k in range(4)],
            "answer": "ABCD"[n % 4],
            "subject": ("colours", "animals", "numbers")[n % 3],
        }
        for n in range(24)
    ]
    file = home.parent / "quiz.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare_own("own_quiz", file, home / "data", replace=False)


def measure(node: Any) -> None:
    """Two checkpoints on the same sets, the second on one more, the first once again with a change; and a held job."""
    both = {"only_datasets": ["demo_arith", "own_quiz"], "only_jobs": ["free_response", "multi_choice_plain"]}
    jobs = node.dispatch(limit=LIMIT, **both) + node.dispatch(
        limit=LIMIT, settings={"temperature": "1.5", "top_k": "0"}
    )
    for job in jobs:
        assert node.wait_for_state(job, "done", "failed")["state"] == "done", node.job(job)
    node.engines_do(texts=BAD_AT_SUMS)
    jobs = node.dispatch(models=[OTHER], limit=LIMIT, **both)
    jobs += node.dispatch(models=[OTHER], limit=LIMIT, only_datasets=["demo_choice"])
    for job in jobs:
        assert node.wait_for_state(job, "done", "failed")["state"] == "done", node.job(job)
    node.engines_do()
    node.wait_until_cold()
    node.api.post("/v1/pause", {"queue": True})
    (held,) = node.dispatch(limit=7, seed=5)
    node.api.post("/v1/hold", {"jobs": [held], "why": HELD_FOR})
    node.api.post("/v1/pause", {"queue": True, "off": True})


@pytest.fixture(scope="session")
def measured_home(tmp_path_factory: pytest.TempPathFactory, node_kind: type[Any]) -> Path:
    """A home with the results of `measure`, built once for all workers of a run; no process of it lives."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    home, whole = folder / "measured" / "n" / "h", folder / "measured.whole"
    with (folder / "measured.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(folder / "measured", ignore_errors=True)
            build(node_kind(home, {"RWKVCTL_IDLE_UNLOAD_S": "1"}))
            whole.touch()
    return home


def build(node: Any) -> None:
    """Make a home and let a daemon fill it."""
    (node.home / "data").mkdir(parents=True)
    node.add_model(OTHER)
    own_rows(node.home)
    try:
        measure(node.start())
        node.terminate()
    finally:
        node.close()


@pytest.fixture(scope="session")
def measured(measured_home: Path, tmp_path_factory: pytest.TempPathFactory, node_kind: type[Any]) -> Iterator[Any]:
    """A node that everybody shares: nobody may change it. Jobs j1 to j6 are done, j7 is held."""
    yield from copied(measured_home, tmp_path_factory.mktemp("shared"), node_kind)


@pytest.fixture
def fresh(measured_home: Path, tmp_path: Path, node_kind: type[Any]) -> Iterator[Any]:
    """A node of one's own that knows what `measured` knows."""
    yield from copied(measured_home, tmp_path, node_kind)


def copied(home: Path, folder: Path, node_kind: type[Any]) -> Iterator[Any]:
    """A daemon on a copy of a home, until the test is over. It is at rest: nothing happens by itself any more."""
    copy = folder / "n" / "h"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("run", "*.lock"))
    node = node_kind(copy).start()
    node.until(lambda: f"{OTHER} is sha256" in node.log(), "the copied checkpoint is hashed")
    yield node
    node.close()
