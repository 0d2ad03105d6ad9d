"""Following logs: lines a second to one reader of a real daemon, against its bar, and the cost of many readers.

    python bench/log_follow.py

The log is a worker's: a process behind the real shim writes it while it is followed. The peer is `tail -f` on the same
file, read through a pipe, without a daemon, a socket or JSON.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from figures import header, line, until_it_answers

from rwkv_daemon.workers.worker_process import end_all
from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError

LINES, READERS = 500_000, 50
TEXT = "x" * 99


def main() -> None:
    header()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        with daemon(home) as (api, pid):
            log = a_job(api, home)
            rate = LINES / took(lambda: follow(api, log))
            line(f"daemon to one reader, {LINES:,} lines written meanwhile", rate, "lines/s", 50_000, at_least=True)
            cli = LINES / took(lambda: through_the_cli(home, log))
            line("the same through `rwkvctl logs -f`", cli, "lines/s", 50_000, at_least=True)
            peer = LINES / took(lambda: tail(log))
            line("tail -f of the same file", peer, "lines/s", None)
            line("  ratio to it", rate / peer, "x", None)
            line(f"{READERS} readers that wait: the daemon's share of a core", 100 * idle(api, pid), "%", None)


def took(action: object) -> float:
    begun = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - begun


@contextlib.contextmanager
def daemon(home: Path) -> Iterator[tuple[Client, int]]:
    """Yield the client of a daemon that answers, and its pid."""
    environment = os.environ | {"RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"),
                                "RWKVCTL_REQUESTS_PER_S": "0", "RWKVCTL_LOG_CAP_BYTES": "0"}  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], env=environment, stderr=subprocess.DEVNULL)
    api = Client(str(home / "run" / "daemon.sock"), tries=1, timeout_s=600)
    try:
        until_it_answers(process, api)
        yield api, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        end_all(home / "runs")


def a_job(api: Client, home: Path) -> Path:
    """Start a real job whose runner is stopped, so that this script can write its live log. Returns the log."""
    wanted = {"models": ["builtin"], "only_datasets": ["demo_arith"], "settings": {"k": "8", "temperature": "1.0"}}
    api.post("/v1/dispatch", {"selection": wanted})
    log = home / "runs" / "j1" / "log-1.txt"
    while not log.exists() or not log.read_bytes():
        time.sleep(0.02)
    record = next((home / "runs" / "j1").glob("record-1.json"))
    os.kill(int(record.read_text().split('"pid": ')[1].split(",")[0]), signal.SIGSTOP)
    return log


@contextlib.contextmanager
def writing(log: Path) -> Iterator[str]:
    """Append lines to a log during the block; the last line has the word that is yielded."""
    word = f"end {time.perf_counter_ns()}"
    program = (
        f"import sys\nwith open({str(log)!r}, 'ab', 1 << 16) as file:\n"
        f"    for number in range({LINES}):\n        file.write(b'%09d {TEXT}\\n' % number)\n"
        f"    file.write({word!r}.encode() + b'\\n')\n"
    )
    writer = subprocess.Popen([sys.executable, "-I", "-S", "-c", program])
    yield word
    writer.wait()


def follow(api: Client, log: Path) -> None:
    stream = api.stream("/v1/logs/j1", 600.0, offset=log.stat().st_size, attempt=1, follow=True)
    with writing(log) as word:
        for piece in stream:
            if word.encode() in piece:
                return


def through_the_cli(home: Path, log: Path) -> None:
    environment = os.environ | {"RWKVCTL_HOME": str(home)}
    command = [sys.executable, "-m", "rwkvctl.cli", "logs", "-f", "j1", "--tail-lines", "0"]
    reader = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    time.sleep(1.0)
    with writing(log) as word:
        read_until(reader.stdout.fileno(), word.encode())
    reader.kill()
    reader.wait()


def tail(log: Path) -> None:
    reader = subprocess.Popen(["tail", "-n", "0", "-f", str(log)], stdout=subprocess.PIPE)
    assert reader.stdout is not None
    time.sleep(0.3)
    with writing(log) as word:
        read_until(reader.stdout.fileno(), word.encode())
    reader.kill()
    reader.wait()


def read_until(descriptor: int, word: bytes) -> None:
    rest = b""
    while data := os.read(descriptor, 1 << 20):
        if word in rest + data:
            return
        rest = data[-64:]


def idle(api: Client, pid: int) -> float:
    """Return the daemon's share of a core while followers of a log that does not grow wait."""

    def wait() -> None:
        with contextlib.suppress(OSError, RwkvctlError):  # the daemon goes first
            for _ in api.stream("/v1/logs/j1", 60.0, tail=1, follow=True):
                pass

    for _ in range(READERS):
        threading.Thread(target=wait, daemon=True).start()
    time.sleep(2)
    before = cpu_s(pid)
    time.sleep(10)
    return (cpu_s(pid) - before) / 10


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
