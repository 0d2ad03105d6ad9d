"""Checks of this machine: what is missing, what that means, and how to get it. Nothing is changed."""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rwkvctl.cli.client import Client, Record
from rwkvctl.cli.service import systemctl, unit_folders, units
from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.scoreboard.judge_health import REMEDY, failing
from rwkvctl.settings import temporary_folder
from rwkvctl.settings.config import Config, looked_at, of_rwkv_skills, temporary_folders
from rwkvctl.settings.module_command import module_command
from rwkvctl.text.quantities import size

Verdict = Literal["ok", "missing", "optional"]

EXTRAS: Final[dict[str, tuple[bool, str]]] = {
    "": (True, "the command line and the console"),
    "daemon": (True, "the daemon, data preparation and grading"),
    "engine": (True, "engines; not needed on a machine that only operates others"),
    "gpu": (False, "engines on a GPU"),
    "postgres": (False, "a store in PostgreSQL"),
    "serve": (False, "the console in a browser"),
}
"""Groups of packages in pyproject.toml: whether a node needs them, and for what. The others are for developers."""

PROGRAMS: Final[dict[str, tuple[str, str]]] = {
    "gcc": ("compiles GPU kernels at their first use", "apt install gcc"),
    "tmux": ("keeps the console open when the SSH connection ends", "apt install tmux"),
}
DRIVER: Final = Path("/proc/driver/nvidia/version")
REQUIREMENT: Final = re.compile(r"([\w.-]+)")
EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


class CheckResult(NamedTuple):
    """The result of one check: its name, the verdict, what was found, and the remedy if something is missing."""

    name: str
    verdict: Verdict
    what: str
    remedy: str = ""


def examine(config: Config, client: Client) -> Iterator[CheckResult]:
    """Run every check and yield what each one found."""
    yield python()
    yield configuration()
    yield from rwkv_skills()
    yield from packages()
    yield from (program(name) for name in PROGRAMS)
    yield sandbox()
    yield driver()
    yield socket(config)
    yield from daemon(config, client)
    yield from service()
    yield disk(config)
    yield store(config)


def sandbox() -> CheckResult:
    """Check that model-written code can be run in isolation; a process of rwkv_data checks it."""
    what = "runs what models write, for code benchmarks"
    words = module_command("rwkv_data", "sandbox", "--json")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return CheckResult("sandbox", "missing", what, done.stderr.strip() or "rwkv_data does not start")
    missing = str(json.loads(done.stdout)["missing"])
    return CheckResult("sandbox", "optional" if missing else "ok", what, missing)


STORE_CHECK_S: Final = 300.0


def store(config: Config) -> CheckResult:
    """Check that the store is not damaged; a process of rwkv_daemon checks it."""
    where = config.settings.store or str(config.store)
    words = module_command("rwkv_daemon.store_tools", "check", "--home", str(config.home))
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=STORE_CHECK_S
        )
    except subprocess.TimeoutExpired:
        return CheckResult("store", "optional", where, f"the check did not finish in {STORE_CHECK_S:.0f} s")
    remedy = "stop the daemon and run `rwkvctl rebuild`, or `rwkvctl restore FILE`"
    said = done.stderr.strip().removeprefix("rwkvctl check: ")
    damaged = "is damaged" in said
    if done.returncode and is_anothers(config.home):
        return CheckResult("store", "optional", said)
    return CheckResult("store", "missing" if done.returncode else "ok", said or where, remedy if damaged else "")


def is_anothers(home: Path) -> bool:
    """Return whether a home belongs to another user, so that only they can check it."""
    try:
        return home.stat().st_uid != os.geteuid()
    except OSError:
        return False


def python() -> CheckResult:
    """Check that the interpreter is Python 3.11 or newer."""
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    return CheckResult("python", "ok" if fine else "missing", version, "" if fine else "install Python 3.11 or newer")


def configuration() -> CheckResult:
    """Return the configuration files that are looked for, in order of increasing precedence."""
    return CheckResult("configuration", "ok", ", ".join(looked_at()))


def rwkv_skills() -> Iterator[CheckResult]:
    """Yield the settings of rwkv-skills that are present but not read by rwkvctl."""
    if found := of_rwkv_skills():
        what = f"{', '.join(found)} set up rwkv-skills; rwkvctl does not read them"
        yield CheckResult(
            "rwkv-skills",
            "optional",
            what,
            "`store` in config.toml names our database, `rwkvctl import` takes its scores",
        )


def packages() -> Iterator[CheckResult]:
    """One finding for each extra, from what the installed rwkvctl says that it requires."""
    wanted: dict[str, list[str]] = {}
    for line in metadata.requires("rwkvctl") or []:
        name, group = REQUIREMENT.match(line), EXTRA.search(line)
        if name and name[1] != "rwkvctl":
            wanted.setdefault(group[1] if group else "", []).append(name[1])
    for extra, (needed, purpose) in EXTRAS.items():
        absent = [name for name in wanted.get(extra, []) if not installed(name)]
        label = f"packages [{extra}]" if extra else "packages"
        if absent:
            remedy = f"pip install 'rwkvctl[{extra}]'" if extra else "pip install rwkvctl"
            yield CheckResult(label, "missing" if needed else "optional", f"{purpose}: no {', '.join(absent)}", remedy)
        else:
            yield CheckResult(label, "ok", purpose)


def installed(name: str) -> str:
    """The version of a distribution, empty if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def program(name: str) -> CheckResult:
    """Return whether a program is on the PATH; a missing one is `optional`."""
    purpose, remedy = PROGRAMS[name]
    found = shutil.which(name)
    return CheckResult(name, "ok", found) if found else CheckResult(name, "optional", purpose, remedy)


def driver() -> CheckResult:
    """Look for the NVIDIA driver, which is `optional`: engines can run on the CPU."""
    try:
        version = DRIVER.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return CheckResult(
            "nvidia driver", "optional", "no GPU can be used; engines run on the CPU", "install NVIDIA's driver"
        )
    return CheckResult("nvidia driver", "ok", version.removeprefix("NVRM version: "))


def daemon(config: Config, client: Client) -> Iterator[CheckResult]:
    """Check the daemon, and its rows and weights; without a daemon, the folders."""
    try:
        info = client.get("/v1/info").value
    except RwkvctlError as error:
        yield CheckResult("daemon", "optional", str(error), "rwkvctl daemon")
        yield temporary_finding(str(temporary_folder.writable(temporary_folders()) or ""))
        yield folder("rows", config.data_dir, "rwkvctl data prepare NAME")
        yield folder("weights", config.weights_dir, f"put *.pth files into {config.weights_dir}")
        return
    yield CheckResult("daemon", "ok", f"{info['version']} on {config.socket}")
    yield temporary_finding(info.get("temporary_folder", "not reported"))
    yield from node(client.get("/v1/status", limit=1).value)
    try:
        rows, models = client.get("/v1/benchmarks").value["items"], client.get("/v1/models").value["items"]
    except RwkvctlError as error:
        yield CheckResult("models", "missing", str(error), "`rwkvctl status` shows the problem")
        return
    yield from judge(client.get("/v1/judge").value["judges"], "rwkvctl judge")
    with contextlib.suppress(RefusedError):  # a daemon of the version before knows no endpoints
        services = [item["service"] for item in client.get("/v1/endpoints").value["items"]]
        yield from judge(services, "rwkvctl endpoints")
    ready = sum(bool(item.get("ready")) for item in rows)
    yield CheckResult("rows", "ok" if ready else "optional", f"{ready} of {len(rows)} benchmarks are prepared",
                  "" if ready else "rwkvctl data prepare NAME")  # fmt: skip
    own = sum(not item.get("builtin") for item in models)
    remedy = "" if own else f"put *.pth files into {config.weights_dir}"
    yield CheckResult("weights", "ok" if own else "optional", f"{own} checkpoints and the built-in one", remedy)


def temporary_finding(found: str) -> CheckResult:
    """Return the finding on the folder for temporary files of engines; `found` is empty if there is none."""
    if found:
        return CheckResult("temporary folder", "ok", found)
    remedy = "make TMPDIR in its environment name a folder that it can write; `rwkvctl service install` does"
    return CheckResult("temporary folder", "missing", temporary_folder.NONE, remedy)


def node(status: Record) -> Iterator[CheckResult]:
    """Check the GPUs, and yield the daemon's notes."""
    gpus = [lease for lease in status["leases"] if not lease["id"].startswith("cpu")]
    unknown = [lease["id"] for lease in gpus if lease.get("use") == "unknown"]
    if unknown:
        yield CheckResult("nvml", "missing", f"NVML does not answer for {', '.join(unknown)}; they get no new work",
                      "see `rwkvctl gpus`, and `dmesg` for the driver's messages")  # fmt: skip
    elif gpus:
        yield CheckResult("nvml", "ok", f"{len(gpus)} GPUs answer")
    elif DRIVER.exists():
        yield CheckResult("nvml", "missing", "NVIDIA's driver is loaded, but NVML shows no GPU to the daemon",
                      "nvidia-smi as the daemon's user; the unit must not have PrivateDevices=")  # fmt: skip
    for note in status.get("notes", ()):
        yield CheckResult("daemon says", "missing" if "store" in note else "optional", note)


def judge(services: Iterable[Record], remedy: str) -> Iterator[CheckResult]:
    """Yield for each server of a judge, or of a model behind an endpoint, whether it can be asked."""
    for item, one in [(service, one) for service in services for one in service.get("endpoints", ())]:
        fails = failing(one["name"], one.get("counts", {}))
        keys = [str(key.get("state")) for key in one.get("keys", ())]
        if fails:
            yield CheckResult(item["role"], "missing", fails, REMEDY)
        elif keys and "ok" not in keys:
            yield CheckResult(item["role"], "missing", f"{one['name']}: {keys[0]}", remedy)
        else:
            answered = one.get("counts", {}).get("ok", 0)
            said = f"{item['model']} at {one['name']}, " + (f"{answered:,} replies" if answered else "no replies yet")
            yield CheckResult(item["role"], "ok", said)


def socket(config: Config) -> CheckResult:
    """Check whether this user may use the daemon's socket, and whether everybody may."""
    path = config.socket
    try:
        found = path.stat()
    except FileNotFoundError:
        return CheckResult("socket", "optional", f"no {path}", "rwkvctl daemon, or systemctl start rwkvctl.socket")
    except OSError as error:
        return CheckResult(
            "socket", "missing", f"{path}: {error.strerror}", "ask an administrator to add you to the socket's group"
        )
    what = f"{stat.filemode(found.st_mode)} uid {found.st_uid} gid {found.st_gid} {path}"
    if found.st_mode & 0o002:
        return CheckResult("socket", "missing", f"everybody may write to it: {what}", f"chmod o-w {path}")
    if not os.access(path, os.W_OK):
        return CheckResult(
            "socket", "missing", f"you have no permission to use it: {what}", "usermod -aG GROUP YOU, then log in again"
        )
    return CheckResult("socket", "ok", what)


def service() -> Iterator[CheckResult]:
    """Check the units of the system's service: unchanged, and without harmful directives."""
    files = units.system_files(Path("/"), systemctl.version())
    states = {file.path: units.state(file) for file in files}
    if set(states.values()) == {"absent"}:
        yield CheckResult("service", "optional", "not a service of this system", "rwkvctl service install")
        return
    for path, state in states.items():
        if state in {"absent", "outdated"}:
            yield CheckResult("service", "optional", f"{path} is {state}", "rwkvctl service install")
    bad = [f"{path} has {', '.join(names)}" for path, names in broken(files[0].path).items()]
    if trouble := unit_folders.without_temporary(units.texts_of(files[0].path).values()):
        remedy = "rwkvctl service install, or fix the drop-in; then systemctl daemon-reload, and restart"
        yield CheckResult("service", "missing", f"{files[0].path}, with its drop-ins, {trouble}", remedy)
    if bad:
        yield CheckResult("service", "missing", f"{'; '.join(bad)}: this breaks something, as the unit says",
                      "remove it, then systemctl daemon-reload")  # fmt: skip
    else:
        yield CheckResult("service", "ok", f"{files[0].path} {states[files[0].path]}")


def broken(unit: Path) -> dict[Path, list[str]]:
    """Return the unit and drop-in files that have directives which break the daemon, with those directives."""
    found = {path: list(units.forbidden_in(text)) for path, text in units.texts_of(unit).items()}
    return {path: names for path, names in found.items() if names}


def folder(name: str, path: Path, remedy: str) -> CheckResult:
    """Return whether a folder holds anything; an empty or absent one is `optional`."""
    if path.is_dir() and any(path.iterdir()):
        return CheckResult(name, "ok", str(path))
    return CheckResult(name, "optional", f"no files in {path}", remedy)


def disk(config: Config) -> CheckResult:
    """Return whether the file system of the home has at least `min_free_disk_bytes` free; with less, jobs wait."""
    place = next(path for path in (config.home, *config.home.parents) if path.exists())
    free, least = shutil.disk_usage(place).free, config.settings.min_free_disk_bytes
    if free < least:
        return CheckResult(
            "disk", "missing", f"{size(free)} free under {place}; jobs wait below {size(least)}", "free some space"
        )
    return CheckResult("disk", "ok", f"{size(free)} free under {place}")
