"""The service's units as systemd itself reads them, and what runs under the unit's filter of kernel calls."""

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from rwkvctl.cli.service import units

EXPOSURE_AT_MOST = 4.0
"""docs/service.md states the score; what is above 3 is what GPUs and the code sandbox need."""


def cli(*words: str, check: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {name: text for name, text in os.environ.items() if not name.startswith("RWKVCTL_")}
    done = subprocess.run(
        [sys.executable, "-m", "rwkvctl.cli", "service", *words],
        env=plain | environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def analyze(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    if which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze: not installed")
    return subprocess.run(
        ["systemd-analyze", *words], env=os.environ | environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A root folder with the system's units in it."""
    cli("install", "--root", str(tmp_path))
    return tmp_path


def system_unit(root: Path) -> Path:
    return root / "etc/systemd/system/rwkvctl.service"


def test_systemd_takes_the_units_without_a_word(installed: Path) -> None:
    folder = system_unit(installed).parent
    done = analyze("verify", "--man=no", str(folder / "rwkvctl.service"), str(folder / "rwkvctl.socket"))
    assert (done.returncode, done.stderr) == (0, "")


def test_it_takes_a_users_units_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cli("install", "--user", HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))
    files = sorted((home / ".config/systemd/user").iterdir())
    assert [file.name for file in files] == ["rwkvctl.service", "rwkvctl.socket"]
    done = analyze("--user", "verify", "--man=no", *map(str, files), XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_exposure_is_what_the_documentation_states(installed: Path) -> None:
    done = analyze("security", "--offline=yes", str(system_unit(installed)))
    found = re.search(r"Overall exposure level for rwkvctl\.service: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= EXPOSURE_AT_MOST
    page = Path(__file__).resolve().parents[3] / "docs" / "service.md"
    assert f"exposure {found[1]}" in page.read_text(encoding="utf-8")


def test_an_edited_unit_is_left_alone_until_told_otherwise(installed: Path) -> None:
    unit = system_unit(installed)
    again = json.loads(cli("install", "--root", str(installed), "--json").stdout)
    assert {item["done"] for item in again["items"]} == {"unchanged"}
    unit.write_text(unit.read_text() + "PrivateDevices=yes\n")
    refused = cli("install", "--root", str(installed), check=False)
    assert refused.returncode == 5
    assert "was edited" in refused.stderr
    assert cli("uninstall", "--root", str(installed), check=False).returncode == 5
    assert unit.exists()
    cli("install", "--root", str(installed), "--yes")
    assert "PrivateDevices=yes" not in unit.read_text().splitlines()
    cli("uninstall", "--root", str(installed))
    assert [path for path in installed.rglob("*") if path.is_file()] == []


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = cli("install", "--root", str(tmp_path), "--dry-run", "--json")
    assert {item["done"] for item in json.loads(done.stdout)["items"]} == {"would write"}
    assert list(tmp_path.iterdir()) == []


def test_the_status_finds_what_breaks_the_daemon(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    assert cli("status", "--user", check=False, **environ).returncode == 1
    cli("install", "--user", **environ)
    assert "installed" in cli("status", "--user", **environ).stdout
    unit = tmp_path / ".config/systemd/user/rwkvctl.service"
    unit.write_text(unit.read_text() + "RestrictNamespaces=yes\n")
    done = cli("status", "--user", check=False, **environ)
    assert done.returncode == 1
    assert "RestrictNamespaces" in done.stdout


# -- under the filter of kernel calls that the unit sets


@lru_cache
def calls(name: str) -> frozenset[str]:
    """The kernel calls of a set of systemd's, those of sets within it too."""
    if not name.startswith("@"):
        return frozenset({name})
    lines = analyze("syscall-filter", name).stdout.splitlines()
    words = [line.strip() for line in lines if line.startswith("    ") and not line.strip().startswith("#")]
    return frozenset().union(*(calls(word) for word in words))


def filtered(lists: list[str]) -> Callable[[], None]:
    """To be called between fork and exec: allow only these calls, the others fail with EPERM, for good."""
    try:
        lib = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("needs libseccomp: not installed")
    allowed = sorted(frozenset().union(*(calls(name) for name in lists)))
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    lib.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    numbers = [lib.seccomp_syscall_resolve_name(name.encode()) for name in allowed]

    def apply() -> None:
        context = lib.seccomp_init(0x00050000 | 1)  # SCMP_ACT_ERRNO(EPERM)
        for number in numbers:
            if number >= 0:
                assert lib.seccomp_rule_add(context, 0x7FFF0000, number, 0) == 0  # SCMP_ACT_ALLOW
        assert lib.seccomp_load(context) == 0

    return apply


@pytest.fixture
def unit_filter() -> Callable[[], None]:
    (line,) = (line for line in units.text_of("rwkvctl.service").splitlines() if line.startswith("SystemCallFilter="))
    return filtered(line.partition("=")[2].split())


def sandbox(apply: Callable[[], None]) -> dict[str, Any]:
    """What the sandbox says of itself under a filter."""
    done = subprocess.run(
        [sys.executable, "-m", "rwkv_data", "sandbox", "--json"],
        preexec_fn=apply, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def test_the_code_sandbox_works_under_the_units_filter(unit_filter: Callable[[], None]) -> None:
    without = sandbox(lambda: None)
    if not without["works"]:
        pytest.skip("needs namespaces: the sandbox does not work here at all")
    assert sandbox(unit_filter)["missing"] == ""


@pytest.mark.parametrize("left_out", ["@mount", "sethostname"])
def test_each_addition_to_the_filter_is_needed(left_out: str) -> None:
    if not sandbox(lambda: None)["works"]:
        pytest.skip("needs namespaces: the sandbox does not work here at all")
    kept = [name for name in ("@system-service", "@mount", "sethostname") if name != left_out]
    assert not sandbox(filtered(kept))["works"]


def test_a_whole_job_runs_under_the_units_filter(
    new_node: Any, unit_filter: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **more: start(*words, preexec_fn=unit_filter, **more))
    node = new_node()
    node.forks = None  # the filter is put on the process that is executed
    node.start()
    monkeypatch.undo()
    (job,) = node.dispatch(limit=3)
    assert node.wait_for_state(job, "done", "failed")["state"] == "done"
    seccomp = Path(f"/proc/{node.engine_record().pid}/status").read_text()
    assert "Seccomp:\t2" in seccomp
