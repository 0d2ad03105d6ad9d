"""Installing a harness: a virtual environment from its lock, every file checked by its hash, then the list of its
tasks. What is installed already is kept; an installation that was interrupted is made anew."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from rwkv_daemon.harness import installation, manifest
from rwkv_daemon.harness.installation import Installation, TaskList
from rwkv_daemon.harness.manifest import SHIPPED, Harness
from rwkv_daemon.workers import run_directory
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings import process_locks
from rwkvctl.settings.config import Config
from rwkvctl.settings.folder_trees import remove_tree
from rwkvctl.settings.module_command import module_command

TOOLS: Final = SHIPPED / "build-tools.lock"
"""What builds packages that come as sources only. pip would fetch its own otherwise, unchecked."""
TASKS_S: Final = 600.0
SHIPPED_MARK: Final = "shipped"
"""Behind a task's name and a tab: the operator's own tasks change nothing about it."""
KEPT_COPIES: Final = 16
"""Copies of earlier states of own tasks that are kept: jobs that wait were dispatched with one of them."""
MOST_TASKS: Final = 1_000_000
TASK: Final = re.compile(r"[\w.+@=()-]{1,200}", re.ASCII)
"""Names of tasks that are used: they stand in names of jobs, and several with commas."""
Say = Callable[[str], None]


class BuildError(RwkvctlError):
    """A harness could not be installed; the message names the log."""

    exit_code = Exit.REFUSED


def build(config: Config, name: str, say: Say, *, afresh: bool = False) -> TaskList:
    """Install a harness, or only list its tasks anew if it is installed already; `afresh`: install it again. `say` is
    told each step. Raises ManifestError, BuildError, OSError."""
    harness = manifest.load(config, name)
    at = Installation.of(config, harness)
    at.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(at, name):
        if afresh or not at.installed.is_file():
            install(at, harness, say)
        found = listed(at, harness, say)
        keep_own(at, found.own_sha256)
        run_directory.replace(at.task_file, msgspec.json.encode(found))
    remove_others(at, say)
    return found


@contextmanager
def alone(at: Installation, name: str) -> Iterator[None]:
    """Hold the lock of a build. Raises BuildError if another one is at work."""
    with at.build_lock.open("wb") as lock:
        try:
            process_locks.hold(lock.fileno())
        except BlockingIOError:
            raise BuildError(f"{name} is being built already; `rwkvctl harness` shows how it gets on.") from None
        yield


def install(at: Installation, harness: Harness, say: Say) -> None:
    """Make the virtual environment. Raises BuildError."""
    if process_locks.is_held(at.in_use):
        raise BuildError(f"a run of {harness.name} uses {at.venv}; stop it first.")
    at.task_file.unlink(missing_ok=True)
    at.installed.unlink(missing_ok=True)
    for old in (at.venv, at.fetched):
        if old.exists():
            remove_tree(old)
    at.log.write_text("", encoding="utf-8")
    at.cache.mkdir(exist_ok=True, mode=0o700)
    at.in_use.touch()
    lock = at.folder / "requirements.txt"
    lock.write_text(harness.lock, encoding="utf-8")
    pip = (str(at.python), "-P", "-m", "pip", "install", "--require-hashes", "--no-deps", "--no-input",
           "--progress-bar", "off", "-r")  # fmt: skip
    say(f"installs {harness.label} in {at.venv}; the log is {at.log}")
    logged(at, module_command("venv", str(at.venv)))
    if harness.lock.strip():
        logged(at, (*pip, str(TOOLS)))
        logged(at, (*pip, str(lock), "--no-build-isolation"))
    at.installed.touch()


def keep_own(at: Installation, sha256: str) -> None:
    """Copy the operator's tasks as they are now, and remove old copies. Raises BuildError if they are changed
    meanwhile."""
    copy = at.copy_of_own(sha256)
    if not copy.is_dir():
        part = copy.with_name(f"{copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(exist_ok=True)
        if sha256:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(at.own, part, ignore=ignored, ignore_dangling_symlinks=True)
        else:
            part.mkdir()
        os.utime(part)
        part.replace(copy)
    if installation.own_sha256(copy) != sha256:
        shutil.rmtree(copy)
        raise BuildError(f"the tasks in {at.own} were changed while they were read in; build it again.")
    if not process_locks.is_held(at.in_use):
        others = sorted((one for one in copy.parent.iterdir() if one != copy), key=lambda one: one.stat().st_mtime)
        for other in others[:-KEPT_COPIES]:
            shutil.rmtree(other, ignore_errors=True)


def logged(at: Installation, words: Sequence[str]) -> None:
    """Run a command, its output into the log. Raises BuildError with the end of the log if it fails."""
    with at.log.open("ab") as log:
        log.write(f"$ {' '.join(words)}\n".encode())
        log.flush()
        code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
    if code:
        raise BuildError(f"the build failed (exit code {code}): {installation.last_line(at.log)}; see {at.log}.")


def listed(at: Installation, harness: Harness, say: Say) -> TaskList:
    """Return the tasks that the harness has now. Raises BuildError."""
    say(f"lists the tasks of {harness.label}")
    own, before = installation.own_sha256(at.own), dict.fromkeys(("HOME", "TMPDIR"), str(at.folder))
    at.copy_of_own("").mkdir(parents=True, exist_ok=True)
    folder = at.own if at.own.is_dir() else at.copy_of_own("")
    words = manifest.filled(harness.manifest.tasks, {"python": str(at.python), "own": str(folder)})
    with at.log.open("ab") as log:
        log.write(f"$ {' '.join(words)}\n".encode())
        log.flush()
        environment = before | {"PATH": f"{at.venv}/bin:{os.defpath}", "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1"}
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment, check=False,
                timeout=TASKS_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BuildError(f"its tasks were not listed within {TASKS_S:g} s; see {at.log}.") from None
    every = dict(line.partition("\t")[::2] for line in done.stdout.decode(errors="replace").split("\n"))
    names = tuple(sorted(name for name in every if TASK.fullmatch(name)))[:MOST_TASKS]
    if done.returncode or not names:
        why = installation.last_line(at.log) if done.returncode else "it has none"
        raise BuildError(f"its tasks cannot be listed (exit code {done.returncode}): {why}; see {at.log}.")
    mine = tuple(name for name in names if every[name].strip() != SHIPPED_MARK)
    return TaskList(names=names, own=mine, own_sha256=own)


def remove_others(at: Installation, say: Say) -> None:
    """Remove installations of other locks that no run uses."""
    for folder in at.folder.parent.iterdir():
        other = Installation(folder, at.own)
        if folder in {at.folder, at.cache} or not folder.is_dir() or other.state()[0] == "building":
            continue
        if not process_locks.is_held(other.in_use):
            say(f"removes {folder}, which an older manifest had")
            with contextlib.suppress(OSError):
                remove_tree(folder)
