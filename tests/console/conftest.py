"""The fake daemon, loaded by its path: tests have no packages."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HELPER = Path(__file__).resolve().parents[1] / "console" / "fake_daemon.py"


@pytest.fixture(scope="session")
def fake_daemon() -> ModuleType:
    """The module `tests/console/fake_daemon.py`."""
    if "fake_daemon" not in sys.modules:
        spec = importlib.util.spec_from_file_location("fake_daemon", HELPER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["fake_daemon"] = module
        spec.loader.exec_module(module)
    return sys.modules["fake_daemon"]
