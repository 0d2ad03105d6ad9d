"""Helpers of these tests, loaded by their paths: tests have no packages."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkvctl.tui.shell import command_runner

HERE = Path(__file__).resolve().parents[1] / "console"


def load(name: str) -> ModuleType:
    """A module of this folder."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(autouse=True)
def a_verb_that_says_little_is_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(command_runner, "BRIEF_S", LIMIT_S)


@pytest.fixture(scope="session")
def fake_daemon() -> ModuleType:
    """The module `tests/console/fake_daemon.py`."""
    return load("fake_daemon")


@pytest.fixture(scope="session")
def driving() -> ModuleType:
    """The module `tests/console/driving.py`."""
    return load("driving")


@pytest.fixture(scope="session")
def console_module() -> Callable[[str], ModuleType]:
    """Loads a module of this folder by its name."""
    return load


@pytest.fixture(scope="session")
def terminal_kind() -> Any:
    """The class of `tests/console/console_terminal.py`: a terminal that reads what was sent."""
    return load("console_terminal").Terminal


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    """Where the daemon of a test listens."""
    return tmp_path / "d.sock"


@pytest.fixture
def node(socket_path: Path, fake_daemon: Any) -> Iterator[Any]:
    """A daemon that plays, with one job that runs and one that waits."""
    with fake_daemon.serving(socket_path, fake_daemon.Node()) as playing:
        yield playing
