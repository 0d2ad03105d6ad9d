"""How long `rwkvctl status` takes from a cold start, against the bare interpreter: `python bench/cli_cold_start.py`.

Both run in turn, round by round, against a socket that answers from memory, with bytecode cached as an installed
program has it. CPU time is that of the child alone. The bars: at most 5.5 times the bare interpreter's, and at most
60 ms.
"""

import argparse
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

STATUS = {
    "schema": "rwkvctl.status/1", "as_of": "2026-11-21T05:13:34Z", "node": "bench", "version": "0.1.0",
    "uptime_s": 60.0, "counts": {"done": 3}, "leases": [{"id": "cpu:0"}], "engines": [], "running": [], "waiting": [],
    "recent": [],
    "disk_free_bytes": 2**33, "last_event": 9, "notes": [],
}  # fmt: skip

IMPORTS = ("asyncio", "asyncio, h11", "asyncio, httpx")
"""What a client of the daemon might speak HTTP with, beside what the console imports anyway."""


def serve(listener: socket.socket) -> None:
    """Answer every connection with the same status."""
    body = json.dumps(STATUS).encode()
    head = f"HTTP/1.1 200 OK\r\nrwkvctl-protocol: 1\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    while True:
        client, _ = listener.accept()
        with client:
            client.recv(65536)
            client.sendall(head.encode() + body)


def run(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Return CPU and wall milliseconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, (time.perf_counter() - start) * 1000


def measure(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Measure every candidate, round by round."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/d.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        environ = os.environ | {"RWKVCTL_SOCKET": path, "PYTHONPYCACHEPREFIX": f"{folder}/cache"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        status = ["-c", "from rwkvctl.cli.main import main; raise SystemExit(main())", "status"]
        commands = {"python -c pass": ["-c", "pass"], "status": status, "status --json": [*status, "--json"]}
        commands |= {f"import {names}": ["-c", f"import {names}"] for names in IMPORTS}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, words in commands.items():
                taken = run([sys.executable, *words], environ)
                if number:  # the first round only warms the file cache
                    found[name].append(taken)
    return found


def processor() -> str:
    """Return the CPU model from /proc/cpuinfo, or the machine architecture where no model is listed."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    found = measure(parser.parse_args().rounds)
    print(f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"machine   {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Linux {platform.release()}")
    print(f"versions  Python {platform.python_version()}, rwkvctl {version('rwkvctl')}, msgspec {version('msgspec')}")
    base = statistics.median(cpu for cpu, _ in found["python -c pass"])
    base_wall = statistics.median(wall for _, wall in found["python -c pass"])
    for name, taken in found.items():
        cpu, wall = (statistics.median(column) for column in zip(*taken, strict=True))
        print(f"{name:<21} cpu {cpu:5.1f} ms {cpu / base:4.1f}x   wall {wall:5.1f} ms {wall / base_wall:4.1f}x")
    cpu = statistics.median(cpu for cpu, _ in found["status"])
    fine = cpu <= 60 and cpu <= 5.5 * base
    print(f"bars      <= 60 ms and <= 5.5x: {'met' if fine else 'MISSED'}")


if __name__ == "__main__":
    main()
