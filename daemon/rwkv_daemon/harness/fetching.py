"""Fetching the rows of a task: the manifest's `fetch`, with the network and without the model, into a folder that the
runs of the task then read but cannot change.

So a run that executes what a model has written needs no network, and cannot change what later runs read. A folder is
kept once it is whole. A fetch that was interrupted begins anew; of two runs of one task, the second waits for the
first.
"""

import asyncio
import dataclasses
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from rwkv_daemon.harness import environment, manifest
from rwkv_daemon.harness.enclosure import CANNOT_ISOLATE
from rwkv_daemon.harness.environment import Asked, Places
from rwkv_daemon.harness.manifest import Manifest
from rwkv_daemon.harness.plans import plan_of
from rwkv_daemon.harness.supervision import EndedError, Supervisor, say
from rwkv_daemon.rules import exit_codes
from rwkv_daemon.workers.run_directory import HarnessSpec, JobSpec
from rwkvctl.settings import process_locks
from rwkvctl.settings.folder_trees import remove_tree

KEY_DIGITS: Final = 12
LOOK_S: Final = 0.5


def folder_of(base: Path, one: Manifest, harness: HarnessSpec) -> Path:
    """Return the folder of the rows of a task, below that of all that its harness fetches."""
    variables = (f"{name}={value}" for name, value in sorted(one.environment.items()))
    whole = "\0".join((harness.task, harness.own_sha256, *one.fetch, *variables))
    return base / hashlib.sha256(whole.encode()).hexdigest()[:KEY_DIGITS]


async def fetch(supervisor: Supervisor, spec: JobSpec, one: Manifest, asked: Asked, places: Places, copy: Path) -> None:
    """Fetch the rows of the task into `places.cache`, unless they are there. `copy`: of the operator's own tasks.
    Raises EndedError, OSError."""
    rows = places.cache
    rows.parent.mkdir(exist_ok=True, mode=0o700)
    async with alone(rows.with_name(f"{rows.name}.lock"), supervisor):
        if rows.is_dir():
            return
        part = rows.with_name(f"{rows.name}.part")
        with suppress(FileNotFoundError):
            remove_tree(part)
        part.mkdir(mode=0o700)
        seen = dataclasses.replace(places, cache=part) if spec.unsandboxed else places
        told = dataclasses.replace(asked, base_url="", api_key="")
        words = manifest.filled(one.fetch, environment.values(told, seen, one))
        plan = plan_of(
            spec, one, told, seen, words, writable=(seen.out, seen.cache), sources={places.own: copy, rows: part},
            relay="",
        )  # fmt: skip
        say(f"fetches the rows of {asked.tasks} into {rows}")
        code, last_words = await supervisor.run(plan)
        if code:
            raise_failed(spec, asked.tasks, code, last_words)
        os.sync()  # what is there after a crash of the machine has to be whole
        part.replace(rows)


def raise_failed(spec: JobSpec, task: str, code: int, last_words: str) -> None:
    """Raise EndedError for a fetch that has failed."""
    if code == exit_codes.NO_SANDBOX and last_words.startswith(CANNOT_ISOLATE):
        raise EndedError(code, last_words)
    said = f"; the last words: {last_words}" if last_words else ""
    again = f"`rwkvctl resume j{spec.job}` tries again"
    raise EndedError(
        exit_codes.HARNESS_FAILED, f"the rows of {task} could not be fetched (exit code {code}); {again}{said}"
    )


@asynccontextmanager
async def alone(path: Path, supervisor: Supervisor) -> AsyncIterator[None]:
    """Hold a lock within the block, once no other run holds it. Raises EndedError if this one is to end before."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                process_locks.hold(descriptor)
                break
            except BlockingIOError:
                supervisor.look()
                await asyncio.sleep(LOOK_S)
        yield
    finally:
        os.close(descriptor)
