"""Nodes with the fake harness of `fake_harness.py`, which is built once and copied."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from live_node import LiveNode

PROGRAM = Path(__file__).with_name("fake_harness.py")
FIELDS: dict[str, Any] = {
    "version": "1.0",
    "parser": "lm-eval",
    "needs": "endpoint",
    "lock": "fake.lock",
    "tasks": ["{python}", "{own}/fake_harness.py", "tasks"],
    "command": ["{python}", "{own}/fake_harness.py", "run", "{tasks}", "{base_url}", "{out}"],
}

UNREACHABLE = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeoutError|Temporary failure in name resolution"
)


def build(node: LiveNode, name: str) -> None:
    """`rwkvctl harness build` of a real harness, or a skip where no package can be fetched."""
    command = [sys.executable, "-m", "rwkvctl.cli", "harness", "build", name]
    done = subprocess.run(command, env=node.environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        log = "".join(path.read_text(errors="replace") for path in node.home.glob(f"harnesses/{name}/*/build.log"))
        if UNREACHABLE.search(log):
            pytest.skip("needs a package index: none can be reached")
        pytest.fail(f"{done.stderr}\n{log[-3000:]}")


class HarnessNode:
    """A node whose configuration, with its harnesses, lies beside its home."""

    def __init__(self, live: LiveNode) -> None:
        self.live = live
        live.settings["XDG_CONFIG_HOME"] = str(live.home.parent / "config")

    @property
    def harnesses(self) -> Path:
        """The folder of manifests and own tasks."""
        return self.live.home.parent / "config" / "rwkvctl" / "harnesses"

    def write(self, name: str = "fake", **fields: Any) -> None:
        """Write a manifest with its lock and its program. Tables are dictionaries of text or of lists of it."""
        (self.harnesses / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(PROGRAM, self.harnesses / name)
        (self.harnesses / "fake.lock").write_text("")
        fields = {"options": {"limit": ["--limit", "{value}"]}} | fields
        tables = {key: value for key, value in fields.items() if isinstance(value, dict)}
        lines = [f"{key} = {json.dumps(value)}" for key, value in (FIELDS | fields).items() if key not in tables]
        for key, table in tables.items():
            lines += [f"[{key}]", *(f"{one} = {json.dumps(value)}" for one, value in table.items())]
        (self.harnesses / f"{name}.toml").write_text("\n".join(lines) + "\n")

    def install(self, built: Path, name: str = "fake", **fields: Any) -> None:
        """Write a manifest, and copy what a build of it has made, without pip."""
        self.write(name, **fields)
        without = shutil.ignore_patterns("pip*", "setuptools*")
        shutil.copytree(built, self.live.home / "harnesses" / name, symlinks=True, ignore=without)

    def start(self, *tasks: str, name: str = "fake", **more: Any) -> list[str]:
        """Queue jobs; returns their names in the order of the tasks."""
        asked = {"harness": name, "only_datasets": list(tasks)} | more
        jobs = {self.live.job(job)["benchmark"]: job for job in self.live.dispatch(**asked)}
        return [jobs[f"{name}:{task}"] for task in tasks]

    def ended(self, *tasks: str, **more: Any) -> list[dict[str, Any]]:
        """The jobs of some tasks, when they are done or have failed."""
        return [self.live.wait_for_state(job, "done", "failed") for job in self.start(*tasks, **more)]

    def log_of(self, job: str) -> str:
        """What the last attempt at a job said."""
        file = self.live.home / "runs" / job / f"log-{self.live.job(job).get('attempt', 0)}.txt"
        return file.read_text() if file.is_file() else ""

    def report(self, job: str) -> dict[str, Any]:
        """What the harness saw."""
        (line,) = [line for line in self.log_of(job).splitlines() if line.startswith("REPORT ")]
        return dict(json.loads(line.removeprefix("REPORT ")))

    def processes(self) -> list[str]:
        """The command lines of all processes of the harness."""
        mark, found = os.fsencode(self.harnesses), []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if mark in (words := path.read_bytes()):
                    found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        return found
