"""What a dispatch with --harness means: the tasks that it names, each as a kind for the planner."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from pwd import getpwuid
from typing import Final

from rwkv_daemon.harness import installation, manifest
from rwkv_daemon.harness.installation import Installation, TaskList
from rwkv_daemon.harness.manifest import Harness, ManifestError
from rwkv_daemon.rules.plan import KindFact, SelectionError, near
from rwkv_daemon.store.typed_rows import JobRow
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.training.harnesses import KIND
from rwkvctl.settings.config import Config

DOMAIN: Final = "harness"
WITHOUT: Final = (
    "only_jobs", "skip_jobs", "job_order", "profiles", "domains", "suite", "hold_missing",
)  # fmt: skip
"""Fields of a selection that mean nothing for a harness."""
VALUE: Final = re.compile(r"[\w.,:=+/@%\[\]{}\"' -]{1,400}")
MAX_TOKENS: Final = re.compile(r"[0-9]{1,7}")
MOST_TASKS: Final = 500


def kind_facts(selection: Selection, config: Config) -> list[KindFact]:
    """Return the tasks of a selection. Raises SelectionError: also for a task that the harness does not have."""
    harness, at = opened(config, selection.harness)
    for name in WITHOUT:
        if getattr(selection, name):
            raise SelectionError(f"--{name.replace('_', '-')} cannot be combined with --harness.")
    tasks = named(selection, harness, at)
    settings = settings_of(selection, harness)
    known = at.tasks()
    assert known is not None
    if not set(known.own).isdisjoint(tasks):
        check_own(harness, at, known)
    own = dict.fromkeys(known.own, known.own_sha256)
    return [fact(harness, task, settings, own.get(task, "")) for task in tasks]


def check_own(harness: Harness, at: Installation, known: TaskList) -> None:
    """Raise SelectionError if the operator's own tasks are not those that were read in."""
    try:
        own = installation.own_sha256(at.own)
    except OSError as error:
        raise SelectionError(f"--harness: {error}.") from error
    if known.own_sha256 != own:
        raise SelectionError(
            f"--harness: the tasks in {at.own} have changed; `rwkvctl harness build {harness.name}` reads them in."
        )


def opened(config: Config, name: str) -> tuple[Harness, Installation]:
    """Return a harness that is ready. Raises SelectionError."""
    try:
        harness = manifest.load(config, name)
    except ManifestError as error:
        raise SelectionError(f"--harness: {error}") from error
    at = Installation.of(config, harness)
    state, detail = at.state()
    if state != "ready" or at.tasks() is None:
        why = f" ({detail})" if detail else ""
        raise SelectionError(f"--harness: {name} is {state}{why}; `rwkvctl harness build {name}` installs it.")
    return harness, at


def named(selection: Selection, harness: Harness, at: Installation) -> list[str]:
    """Return the tasks that a selection names, in its order. Raises SelectionError."""
    if not selection.only_datasets:
        raise SelectionError(
            f"--harness needs the tasks, as --only-datasets TASK...; `rwkvctl harness tasks {harness.name}` lists them."
        )
    found = at.tasks()
    known = frozenset(found.names if found else ())
    flagged = {"--only-datasets": selection.only_datasets, "--skip-datasets": selection.skip_datasets}
    for flag, task in ((flag, task) for flag, tasks in flagged.items() for task in tasks):
        if task not in known:
            close = near(task, known)
            raise SelectionError(
                f"{flag}: {harness.name} has no task {task}{close}; `rwkvctl harness tasks {harness.name}` lists them."
            )
    tasks = [task for task in dict.fromkeys(selection.only_datasets) if task not in selection.skip_datasets]
    if not 0 < len(tasks) <= MOST_TASKS:
        raise SelectionError(f"--only-datasets: name 1 to {MOST_TASKS} tasks of {harness.name}, not {len(tasks)}.")
    return tasks


def settings_of(selection: Selection, harness: Harness) -> dict[str, str]:
    """Return what a selection sets of a harness. Raises SelectionError."""
    for name in ("limit", "seed"):
        if name in selection.settings:
            raise SelectionError(f"--set {name}: give it as --{name}.")
    settings = given(selection)
    check_settings(harness, settings)
    return settings


def given(selection: Selection) -> dict[str, str]:
    """Return what a selection sets, as a job of a harness stores it: its limit and its seed are settings too."""
    numbers = {"limit": selection.limit, "seed": selection.seed}
    return dict(selection.settings) | {name: str(value) for name, value in numbers.items() if value is not None}


def check_settings(harness: Harness, settings: Mapping[str, str]) -> None:
    """Raise SelectionError for a setting that a harness does not have."""
    for name, value in settings.items():
        if name == "max_tokens":
            if not MAX_TOKENS.fullmatch(value) or not 1 <= int(value) <= 2**20:
                raise SelectionError(f"--set max_tokens takes a number of tokens, not {value[:60]!r}.")
        elif name not in harness.manifest.options:
            known = ", ".join(sorted({*harness.manifest.options, "max_tokens"} - {"limit", "seed"})) or "none"
            flag = f"--{name}" if name in {"limit", "seed"} else f"--set {name}"
            raise SelectionError(f"{flag}: {harness.name} has no such setting; it has {known}.")
        elif not VALUE.fullmatch(value) or value.startswith("-"):
            raise SelectionError(f"--set {name}: {value[:60]!r} cannot be given to a harness.")


def fact(harness: Harness, task: str, settings: Mapping[str, str], own: str) -> KindFact:
    """Return one task as a kind. How many rows it has only the harness knows; what stands for their hash is everything
    of ours that decides what is asked: the manifest, the lock, and `own`, the hash of the operator's own tasks (empty
    for a task that they do not change)."""
    decides = hashlib.sha256("\0".join((harness.text, harness.lock, own)).encode()).hexdigest()
    kind = kind_of(harness)
    return KindFact(
        benchmark=f"{harness.name}:{task}",
        kind=kind,
        domain=DOMAIN,
        profile=f"harness:{harness.label}",
        benchmark_version=0,
        configuration={
            "kind": kind,
            "stages": [{"name": DOMAIN}],
            "harness": harness.name,
            "version": harness.manifest.version,
            "task": task,
            "lock_sha256": harness.lock_sha256,
            "own_tasks_sha256": own,
            "settings": dict(sorted(settings.items())),
            **({"seed": int(settings["seed"])} if "seed" in settings else {}),
            "max_tokens": int(settings.get("max_tokens", harness.manifest.max_tokens)),
        },
        repeats=1,
        grader=f"harness:{harness.name}",
        grader_version=harness.manifest.version,
        rows=None,
        rows_sha256=decides,
        settings=dict(settings),
        harness=harness.name,
    )


def kind_of(harness: Harness) -> str:
    """Return the name of the kind of all jobs of a harness, such as `harness.lm-eval@0.4.13`."""
    return f"{KIND}{harness.label}"


def fact_of_job(config: Config, job: JobRow) -> KindFact:
    """Return the kind of a job that was dispatched earlier, with the own tasks that it was dispatched with. Raises
    SelectionError if it cannot be measured now."""
    name, _, task = job.benchmark.partition(":")
    try:
        harness = manifest.load(config, name)
    except ManifestError as error:
        raise SelectionError(str(error)) from error
    if kind_of(harness) != job.kind:
        raise SelectionError(f"{name} is {harness.manifest.version} by now; dispatch again for that.")
    at, own = Installation.of(config, harness), str(json.loads(job.configuration)["own_tasks_sha256"])
    if at.state()[0] != "ready":
        raise SelectionError(f"it waits until {name} is built: `rwkvctl harness build {name}`.")
    if not at.copy_of_own(own).is_dir():
        raise SelectionError(f"your own tasks of {name} have changed since; put them back, or dispatch again.")
    settings = {str(one): str(value) for one, value in json.loads(job.settings).items()}
    return fact(harness, task, settings, own)


def hidden_paths(config: Config) -> tuple[str, ...]:
    """Return what a run of a harness must not see: the daemon's state, configuration and sockets, and its user's
    home."""
    homes = (str(Path.home()), getpwuid(os.geteuid()).pw_dir)
    return str(config.home), str(config.folder), str(config.socket.parent), *homes
