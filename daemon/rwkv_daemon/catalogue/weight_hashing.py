"""The task that hashes checkpoints: one at a time, in a separate process, so that planning never waits for it."""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.offered import NodeCatalogue, ReadyFile, ReadyFiles
from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.file_settling import STILL_S
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.jobs import checkpoints_held_for, remember_sha256, sha256_of
from rwkv_daemon.workers import tied_process
from rwkv_weights.formats.completeness import is_whole
from rwkv_weights.local import inventory
from rwkvctl.protocol.requests import NamedCheckpoint
from rwkvctl.protocol.states import Reason
from rwkvctl.settings import config

LOOK_S = 2.0
RETRY_S = 30.0
REASONS: Final[tuple[Reason, ...]] = ("weights-hashing", "weights-copying", "does-not-load")
"""Reasons for which a held job may wait for this task; what does not load may be a file whose copy has stopped."""


async def hash_wanted(records: Records, waiting: WaitingJobs, path: Path, name: str, inodes: str = "") -> str:
    """Hash one file and store the result, if it is still the same file afterwards; returns why it could not be. If
    `inodes` is given, no byte of another file is read."""
    only = [f"--inodes={inodes}"] if inodes else []
    process = await asyncio.create_subprocess_exec(
        *tied_process.command("rwkv_weights"), "hash", str(path), *only,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=config.base_environment(),
    )  # fmt: skip
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode != 0:
        why = errors.decode(errors="replace").strip() or f"its process ended with {process.returncode}"
        log.warning("hashing %s failed: %s", path, why)
        return why
    found = json.loads(output)
    identity = (found["device"], found["inode"], found["size"], found["changed_ns"])
    if found["changed"]:
        log.warning("%s changed while it was hashed; it will be hashed again", path)
        return "it changed while it was hashed"
    async with records.change() as change:
        await remember_sha256(change.db, identity, found["sha256"], str(path), name, problem=found["problem"])
        await change.note("weights", text=f"{name} is sha256 {found['sha256'][:12]}")
    waiting.look_at_held = (
        True  # only now, as a check before the commit would find nothing and be the last for some seconds
    )
    return ""


async def hash_forever(records: Records, waiting: WaitingJobs, catalogue: NodeCatalogue) -> None:
    """Hash every checkpoint that is not in the cache, first those that jobs wait for; then check again now and then."""
    retry_at: dict[contents.IdentityKey, float] = {}
    while True:
        try:
            await hash_round(records, waiting, catalogue, retry_at)
        except (OSError, ValueError, KeyError, StoreError):
            log.exception("hashing stopped; it goes on in a moment")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STILL_S if catalogue.settling.copying else LOOK_S):
                await catalogue.ready_files.more.wait()


async def hash_round(
    records: Records, waiting: WaitingJobs, catalogue: NodeCatalogue, retry_at: dict[contents.IdentityKey, float]
) -> None:
    """Check all files once and hash what is new. A file that cannot be hashed is tried again after RETRY_S."""
    catalogue.ready_files.more.clear()
    wanted = await checkpoints_held_for(records.store, REASONS)
    found = await asyncio.to_thread(lambda: list(contents.checkpoints(records.config.weights_dir)))
    elsewhere = wanted.keys() - {str(one.path) for one in found}
    for path in elsewhere:
        with contextlib.suppress(SelectionError):
            found += [one for one in contents.named([NamedCheckpoint(path=path)]) if wanted[path] in {"", one.inodes}]
    ready = catalogue.ready_files.all()
    found = await asyncio.to_thread(with_ready, found, ready)
    new = [one for one in found if not (await sha256_of(records.store, one.identity))[0]]
    note_hashed(catalogue.ready_files, [one for one in found if is_ready(ready, one) and one not in new])
    said = catalogue.settling.said
    catalogue.settling.keep([str(one.path) for one in new])
    settled = [one for one in new if is_ready(ready, one) or await is_settled(catalogue, one)]
    if catalogue.settling.said != said:
        waiting.look_at_held = True
        records.wake.set()
    for checkpoint in sorted(settled, key=lambda one: (str(one.path) not in wanted, not is_ready(ready, one))):
        if retry_at.get(checkpoint.identity, 0) > time.monotonic():
            continue
        retry_at[checkpoint.identity] = time.monotonic() + RETRY_S
        if not is_ready(ready, checkpoint):
            only = wanted.get(str(checkpoint.path), "")
            await hash_wanted(records, waiting, checkpoint.path, checkpoint.label, only)
            continue
        catalogue.ready_files.more.set()  # hashing takes minutes: what is wanted by then is looked at after each
        if not is_ready(catalogue.ready_files.all(), checkpoint):
            return  # nobody wants it any more
        label = ready[checkpoint.path].label
        if failure := await hash_wanted(records, waiting, checkpoint.path, label, checkpoint.inodes):
            catalogue.ready_files.failed[checkpoint.identity] = failure
            catalogue.ready_files.hashed.set()
        else:
            note_hashed(catalogue.ready_files, [checkpoint])
        return


def note_hashed(ready_files: ReadyFiles, checkpoints: Sequence[contents.CheckpointFile]) -> None:
    """Note which ready files are hashed, by whatever way: those in the weights folder need no watch for that."""
    if checkpoints:
        ready_files.done.update(one.identity for one in checkpoints)
        ready_files.hashed.set()


def with_ready(found: list[contents.CheckpointFile], ready: Mapping[Path, ReadyFile]) -> list[contents.CheckpointFile]:
    """Return checkpoints with those of watched folders, as long as these are the files that were seen there; these
    first, in their order."""
    seen = []
    for path, file in ready.items():
        with contextlib.suppress(SelectionError):
            seen += [one for one in contents.named([NamedCheckpoint(path=str(path))]) if one.identity == file.identity]
    paths = {one.path for one in seen}
    return [*seen, *(one for one in found if one.path not in paths)]


def is_ready(ready: Mapping[Path, ReadyFile], checkpoint: contents.CheckpointFile) -> bool:
    """Whether a watch has found this checkpoint to be whole."""
    return checkpoint.path in ready and ready[checkpoint.path].identity == checkpoint.identity


async def is_settled(catalogue: NodeCatalogue, checkpoint: contents.CheckpointFile) -> bool:
    """Whether a file is no longer being copied: the hash of an incomplete file must never become a job's key."""
    whole = await asyncio.to_thread(lambda: is_whole(inventory.at(checkpoint.path)))
    age_s = time.time() - checkpoint.identity[3] / 1e9
    path, clock = str(checkpoint.path), time.monotonic()
    return catalogue.settling.settled(path, checkpoint.identity, clock, age_s=age_s, whole=whole)
