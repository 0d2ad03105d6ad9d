"""What every unit test of the engine does without."""

import pytest

from rwkv_engine.constraints import compiled


class Trusting:
    """In place of the rehearsal of a grammar, which is a child process: what these tests ask for is harmless."""

    @staticmethod
    def fault(_grammar: str) -> str:
        return ""


@pytest.fixture(autouse=True)
def no_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_rehearsal", Trusting)
