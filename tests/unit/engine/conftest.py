"""Fixtures of the unit tests of the engine."""

import pytest

from rwkv_engine.constraints import compiled


class AcceptingCompiler:
    """Stands for the trial compiler, which is a child process; the grammars of these tests are harmless."""

    @staticmethod
    def fault(_grammar: str) -> str:
        return ""


@pytest.fixture(autouse=True)
def no_trial_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_trial_compiler", AcceptingCompiler)
