"""A real engine process that serves OpenAI's API on a TCP port."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import LIMIT_S, wait_for

KEY = "k" * 32


class Served:
    """The process, its address, and a client that has the key."""

    def __init__(self, folder: Path, *flags: str, model: str = "builtin") -> None:
        self.log = folder / "engine.log"
        argv = [sys.executable, "-m", "rwkv_engine", "serve", model, "--port", "0", "--device", "cpu", *flags]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(argv, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.base = self._base()
        self.root = self.base.removesuffix("/v1")
        self.client = httpx.Client(base_url=self.root, timeout=LIMIT_S, headers={"authorization": f"Bearer {KEY}"})

    def _base(self) -> str:
        def greeted() -> re.Match[str] | None:
            found = re.search(r"http://\S+/v1", self.log.read_text())
            assert found or self.process.poll() is None, self.log.read_text()
            return found

        return wait_for(greeted, "the engine says where it serves", self.log.read_text)[0]

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def complete(self, **body: Any) -> dict[str, Any]:
        response = self.post("/v1/completions", **body)
        assert response.status_code == 200, response.text
        return response.json()

    def chat(self, **body: Any) -> dict[str, Any]:
        response = self.post("/v1/chat/completions", **body)
        assert response.status_code == 200, response.text
        return response.json()

    def stats(self) -> dict[str, Any]:
        return self.client.get("/v1/stats").json()

    def settle(self) -> dict[str, Any]:
        """Return the figures once nothing runs or waits."""

        def at_rest() -> dict[str, Any] | None:
            stats = self.stats()
            return None if stats["running"] or stats["waiting"] else stats

        return wait_for(at_rest, "the engine has nothing to do", self.stats)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An engine that requires a key and has a short queue; one for all tests of a process."""
    folder = tmp_path_factory.mktemp("served")
    key_file = folder / "key"
    key_file.touch(0o600)
    key_file.write_text(KEY + "\n")
    running = Served(folder, "--api-key-file", str(key_file), "--slots", "8", "--queue", "40", "--name", "tiny")
    yield running
    running.close()


@pytest.fixture(scope="session")
def start_served() -> type[Served]:
    """Starts further engines; whoever does closes them."""
    return Served
