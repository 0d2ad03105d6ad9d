"""The cost of watching eight GPUs once a second: CPU and memory of the daemon and its sampler, with a fake NVML.

    python bench/gpu_watch.py [SECONDS]

A real daemon on a scratch home, nothing queued. `idle`: eight free GPUs. `busy`: eight GPUs held by somebody's live
process, every number of every GPU another one each second, and a client that follows the events. NVML's own cost in a
real driver is not in these figures: the fake answers in microseconds.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from figures import header, until_it_answers

from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError

SOURCE = Path(__file__).parents[1] / "tests" / "integration" / "daemon" / "fake_nvml.c"
GPUS, SETTLE_S = 8, 5
TICKS = os.sysconf("SC_CLK_TCK")
BAR_PERCENT = 0.5


def main(seconds: float = 30.0) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("gpu watch: not measured, there is no C compiler here")
        return
    header(f"nvidia-ml-py {version('nvidia-ml-py')}")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        options = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run([compiler, *options, "-o", library, SOURCE], check=True)
        for name, scenario in (("no NVML", none), ("idle", idle), ("busy", busy)):
            measure(Path(folder), name, scenario, seconds)


def none(state: Path, _: int) -> None:
    """Simulate a machine without a driver: the daemon's cost without GPUs."""
    put(state, ["fail nvmlInitWithFlags 9"])


def idle(state: Path, _: int) -> None:
    """Simulate eight free GPUs; nothing changes."""
    put(state, [f"gpu {index}" for index in range(GPUS)])


def busy(state: Path, second: int) -> None:
    """Simulate eight GPUs in use by another process; every number changes."""
    cards = [
        f"gpu {i} used={60 * 2**30 + second * 2**26} util={50 + (second + i) % 50} power={500000 + second % 40 * 5000} "
        f"temp={60 + (second + i) % 20}"
        for i in range(GPUS)
    ]
    put(state, cards + [f"proc {i} pid={os.getpid()} mem={60 * 2**30}" for i in range(GPUS)])


def put(state: Path, lines: list[str]) -> None:
    """Write a scenario for the fake NVML."""
    temporary = state.with_suffix(".new")
    temporary.write_text("\n".join(lines) + "\n")
    temporary.replace(state)


def measure(folder: Path, name: str, scenario: Callable[[Path, int], None], seconds: float) -> None:
    """Run a daemon for a while; print its CPU and memory and the sampler's."""
    state, home = folder / "scenario.txt", folder / name.replace(" ", "-")
    scenario(state, 0)
    environment = os.environ | {
        "RWKVCTL_HOME": str(home), "LD_LIBRARY_PATH": str(folder), "FAKE_NVML_STATE": str(state),
    }  # fmt: skip
    daemon = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1)
    heard: list[int] = []
    try:
        until_it_answers(daemon, api)
        threading.Thread(target=follow, args=(api, heard), daemon=True).start()
        time.sleep(SETTLE_S)
        pids = dict(zip(("daemon", "sampler"), [daemon.pid, *children(daemon.pid)], strict=False))
        before, begun, bytes_before = {who: cpu_s(pid) for who, pid in pids.items()}, time.monotonic(), sum(heard)
        while (passed := time.monotonic() - begun) < seconds:
            scenario(state, int(passed))
            time.sleep(1)
        used = {who: 100 * (cpu_s(pid) - before[who]) / passed for who, pid in pids.items()}
        for who, percent in used.items():
            print(f"{name:<8} {who:<8} {percent:6.2f} % of a core   RSS {rss(pids[who]) / 2**20:6.1f} MiB")
        total = sum(used.values())
        verdict = f"   bar {BAR_PERCENT} %: {'met' if total <= BAR_PERCENT else 'MISSED'}" if name == "idle" else ""
        rate = (sum(heard) - bytes_before) / passed
        print(f"{name:<8} together {total:6.2f} % of a core   events {rate:6.0f} B/s{verdict}")
    finally:
        daemon.terminate()
        daemon.wait()


def follow(api: Client, heard: list[int]) -> None:
    """Read the event stream as a console does, until the daemon goes."""
    try:
        heard.extend(len(line) for line in api.stream("/v1/events", 60.0))
    except (OSError, RwkvctlError):
        return


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
