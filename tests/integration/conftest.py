"""Real daemons with processes of their own, on homes that no other test sees."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import FakeNvml
from forked_daemon import ForkServer
from live_node import LiveNode, kill_worker
from waiting import wait_for


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake NVML library, built once."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "daemon" / "fake_nvml.c"
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs gcc: not installed")
    subprocess.run([compiler, *options, "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder


@pytest.fixture
def fake_nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A fake NVML for every process that is started from now on; without any GPU until the test adds some."""
    fake = FakeNvml(nvml_library, tmp_path / "nvml.txt")
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture(scope="session")
def node_kind() -> type[LiveNode]:
    """The class of nodes, for tests that cannot import this file."""
    return LiveNode


@pytest.fixture(scope="session")
def fork_server(own_temporary_folder: None) -> Iterator[ForkServer]:
    """Forks the daemons of all nodes, from a process that no test has changed."""
    server = ForkServer(Path(tempfile.gettempdir()))
    yield server
    server.close()


NewNode = Callable[..., LiveNode]


def nodes_in(folder: Path, forks: ForkServer, *, real_engine: bool) -> Iterator[NewNode]:
    """Makes nodes; ends them all afterwards."""
    made: list[LiveNode] = []

    def make(**settings: str) -> LiveNode:
        home = folder / f"n{len(made)}" / "h"
        home.mkdir(parents=True)
        named = {f"RWKVCTL_{name.upper()}": value for name, value in settings.items()}
        made.append(LiveNode(home, named, real_engine, forks))
        return made[-1]

    yield make
    for node in made:
        node.close()


def wants_real_engine(request: pytest.FixtureRequest) -> bool:
    """Whether a test, its module or its folder is marked so."""
    return request.node.get_closest_marker("real_engine") is not None


@pytest.fixture
def new_node(fork_server: ForkServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewNode]:
    """Makes nodes of a test's own. Their engines are stubs unless the test is marked `real_engine`."""
    yield from nodes_in(tmp_path, fork_server, real_engine=wants_real_engine(request))


@pytest.fixture(scope="module")
def module_node(
    fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[NewNode]:
    """Makes nodes that the tests of a module share; none of them may change what another reads."""
    yield from nodes_in(tmp_path_factory.mktemp("m"), fork_server, real_engine=wants_real_engine(request))


@pytest.fixture
def node(new_node: NewNode) -> LiveNode:
    """A running node."""
    return new_node().start()


@pytest.fixture
def tools() -> Any:
    """wait_for and kill_worker, for tests that cannot import this file."""

    class Tools:
        wait_for = staticmethod(wait_for)
        kill_worker = staticmethod(kill_worker)

    return Tools
