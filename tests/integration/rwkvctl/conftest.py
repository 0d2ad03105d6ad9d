"""The fake daemon, loaded by its path: tests have no packages; and the programs that verbs become, in this process."""

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

HELPER = Path(__file__).resolve().parents[2] / "console" / "fake_daemon.py"


@pytest.fixture(scope="session")
def fake_daemon() -> ModuleType:
    if "fake_daemon" not in sys.modules:
        spec = importlib.util.spec_from_file_location("fake_daemon", HELPER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["fake_daemon"] = module
        spec.loader.exec_module(module)
    return sys.modules["fake_daemon"]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The other programs run in this process: their imports are paid once, and what they set for theirs is undone."""
    root, ours = logging.getLogger(), logging.getLogger("rwkvctl")
    before = [(log, log.level, log.propagate, list(log.handlers)) for log in (root, ours)]
    mask, ends = os.umask(0o022), signal.getsignal(signal.SIGTERM)
    os.umask(mask)

    def instead(_: str, argv: tuple[str, ...]) -> None:
        _python, _safe, _m, module, *words = argv
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", [module, *words])
            raise SystemExit(main_of(module)(words))

    monkeypatch.setattr(os, "execv", instead)
    yield
    for log, level, propagate, handlers in before:
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)
    os.umask(mask)
    signal.signal(signal.SIGTERM, ends)


def main_of(module: str) -> Callable[[list[str]], int]:
    from importlib import import_module

    if module == "rwkv_engine":
        pytest.importorskip("torch", reason="needs torch: not installed")
    names = {"rwkv_daemon": "rwkv_daemon.main", "rwkv_daemon.store_tools": "rwkv_daemon.store_tools.main"}
    main: Callable[[list[str]], int] = import_module(names.get(module, f"{module}.__main__")).main
    return main
