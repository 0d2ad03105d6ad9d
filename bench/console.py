"""The cost of the console, compared with the smallest Textual app on the same machine: `python bench/console.py [PART
...]`.

Parts: first, idle, keys, table, log, search, slow, back, browser; all without arguments. Every figure comes from a
program on a pty, driven as by hand (`console_pty.py`); the node is one that plays (`console_node.py`), and for the
browser the real daemon. The bars hold for a quiet machine of two cores; ratios to the minimal app hold anywhere.
"""

import asyncio
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from console_apps import line
from console_pty import Terminal
from figures import until_it_answers
from store import fill

from rwkvctl.cli.client import Client

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
APPS = [PYTHON, str(HERE / "console_apps.py")]
CONSOLE = [PYTHON, "-m", "rwkvctl.cli", "tui"]
ROUNDS = 7
JOBS, SAMPLES = 5, 100_000
HOME = "human_ev"
"""The last job of the Overview: once it is shown, everything is."""


def said(name: str, value: str, bar: str = "", *, met: bool = True) -> None:
    """Print one line of the report."""
    print(f"{name:<44} {value:<34} {bar}{'' if not bar or met else '   MISSED'}", flush=True)


@contextmanager
def node(folder: Path, *words: str) -> Iterator[dict[str, str]]:
    """Run a simulated node; yield the environment for its clients."""
    path = folder / "d.sock"
    process = subprocess.Popen([PYTHON, str(HERE / "console_node.py"), str(path), *words])
    try:
        while not path.exists():
            time.sleep(0.05)
        yield {"RWKVCTL_SOCKET": str(path), "RWKVCTL_HOME": str(folder)}
    finally:
        process.terminate()
        process.wait()


def first(folder: Path) -> None:
    """Measure the time from the start of the program to the whole Overview."""
    ours, theirs = list[tuple[float, float]](), list[tuple[float, float]]()
    with node(folder) as environ:
        for number in range(ROUNDS + 1):
            with Terminal([*APPS, "minimal"]) as terminal:
                minimal = (terminal.until("READY"), terminal.cpu_s())
            with Terminal(CONSOLE, environ=environ) as terminal:
                console = (terminal.until(HOME), terminal.cpu_s())
            if number:  # the first round fills the caches
                theirs.append(minimal)
                ours.append(console)
    wall, cpu = (min(o[place] for o in ours) / min(t[place] for t in theirs) for place in (0, 1))
    times = f"{1000 * min(o[0] for o in ours):.0f} ms, minimal {1000 * min(t[0] for t in theirs):.0f} ms"
    said("first frame, least", f"{wall:.2f}x  ({times})", "<= 1.6x", met=wall <= 1.6)
    said("first frame, processor", f"{cpu:.2f}x")


def idle(folder: Path) -> None:
    """Measure processor, bytes and memory with one update a second."""
    with node(folder) as environ:
        for size, most in (((120, 36), 2000), ((80, 24), 1500)):
            with Terminal(CONSOLE, size, environ=environ) as terminal:
                terminal.until(HOME)
                cpu, sent = steady(terminal, 20.0)
                name = f"Overview at 1 Hz, {size[0]}x{size[1]}"
                said(f"{name}: processor", f"{cpu:.1f} %", "<= 1.5 %", met=cpu <= 1.5)
                said(f"{name}: line", f"{sent:,.0f} B/s", f"<= {most:,} B/s", met=sent <= most)
                said(f"{name}: memory", f"{terminal.rss() / 2**20:.0f} MiB", "<= 60 MB", met=terminal.rss() < 60e6)
    with node(folder, "still") as environ, Terminal(CONSOLE, environ=environ) as terminal:
        terminal.until(HOME)
        cpu, sent = steady(terminal, 10.0)
        said("nothing changes: line", f"{sent:.0f} B/s, processor {cpu:.1f} %", "0 B/s", met=sent == 0)
    with Terminal([*APPS, "minimal"]) as terminal:
        terminal.until("READY")
        cpu, sent = steady(terminal, 10.0)
        said("minimal app, still", f"{sent:.0f} B/s, processor {cpu:.1f} %")


def steady(terminal: Terminal, for_s: float) -> tuple[float, float]:
    """Return percent of a core and bytes a second, after some seconds of settling."""
    terminal.drain(4.0)
    cpu = terminal.cpu_s()
    sent = terminal.drain(for_s)
    return 100 * (terminal.cpu_s() - cpu) / for_s, sent / for_s


def keys(folder: Path) -> None:
    """Measure the time from a key to the first byte that it causes, and from a screen's key to the screen."""
    with Terminal([*APPS, "minimal"]) as terminal:
        terminal.until("READY")
        theirs = [until_painted(terminal, "x") for _ in range(20)]
    with node(folder, "still") as environ, Terminal(CONSOLE, environ=environ) as terminal:
        terminal.until(HOME)
        ours = [until_painted(terminal, "jk"[number % 2]) for number in range(30)]
        switches = list[float]()
        for _ in range(15):
            for key, mark in (("2", "Would not run"), ("1", "Running")):
                quiet(terminal)
                terminal.keys(key)
                switches.append(1000 * terminal.until(mark, fresh=True))
    middle, last = statistics.median(ours), max(ours)
    said("key to paint", f"{middle:.1f} ms, slowest {last:.1f} (minimal {statistics.median(theirs):.1f})", "<= 10 ms",
         met=middle <= 10)  # fmt: skip
    said("screen switch", f"{statistics.median(switches):.1f} ms", "<= 20 ms", met=statistics.median(switches) <= 20)


def quiet(terminal: Terminal) -> None:
    """Read and discard output until none arrives for 50 ms."""
    time.sleep(0.15)
    while terminal.read(0.05):
        pass


def until_painted(terminal: Terminal, key: str) -> float:
    """Return the milliseconds from a key to the first byte."""
    quiet(terminal)
    start = time.perf_counter()
    terminal.keys(key)
    while not terminal.read(0.005) and time.perf_counter() < start + 5:
        pass
    return 1000 * (time.perf_counter() - start)


def table(folder: Path) -> None:
    """Measure processor and bytes of each operation on ten thousand rows, less the cost of three empty loop rounds."""
    report = folder / "table.txt"
    with Terminal([*APPS, "table", "10000", str(report)]) as terminal:
        until_there(terminal, report)
    found = [text.split("\t") for text in report.read_text(encoding="utf-8").splitlines()]
    nothing = float(found[0][1])
    bars = {"one cell": 3, "sort": 30, "filter, first letter": 30, "filter, next letter": 30}
    for name, mean, slowest, sent in found[1:]:
        taken, most = float(mean) - nothing, bars.get(name, 0)
        bar = f"<= {most} ms" if most else ""
        said(f"table, {name}", f"{taken:.1f} ms, slowest {float(slowest):.1f}, {sent} B", bar, met=taken <= most)


def until_there(terminal: Terminal, report: Path, timeout_s: float = 240.0) -> None:
    """Read the terminal until a program has written its report."""
    end = time.perf_counter() + timeout_s
    while not report.exists() or not report.stat().st_size:
        terminal.read(0.05)
        if time.perf_counter() > end:
            raise TimeoutError(f"no report; the last that came: {bytes(terminal.received[-500:])!r}")


def log(folder: Path) -> None:
    """Measure a log that gets ten thousand lines a second, followed and paused one second of four."""
    report = folder / "log.txt"
    with Terminal([*APPS, "log", "10000", str(report)]) as terminal:
        until_there(terminal, report)
    share, fed, kept = report.read_text(encoding="utf-8").split()
    said("log at 10,000 lines/s", f"{100 * float(share):.1f} % processor", "<= 15 %", met=float(share) <= 0.15)
    said("log lines lost", f"{int(fed) - int(kept)} of {int(fed):,}", "0", met=fed == kept)


def search(_: Path) -> None:
    """Measure the memory of a million lines, and the time to find one."""
    from rwkvctl.tui.logs.store import LogStore, Scan, line_test

    text = "".join(line(number) for number in range(1_000_000))
    before, store = resident(), LogStore()
    for start in range(0, len(text), 1 << 20):
        store.feed(text[start : start + (1 << 20)])
    grown = (resident() - before) / 10 / 1e6
    said("log memory, 100,000 lines of 118 bytes", f"{grown:.1f} MB", "<= 20 MB", met=grown <= 20)
    for name, words, bar in (("", "ok=0", "<= 50 ms"), (", in the last one", "done=+000999999", "")):
        steps, found, taken = store.seek(line_test(words), 0), -1, list[float]()
        while found < 0:
            start = time.process_time()
            found = next(steps)
            taken.append(1000 * (time.process_time() - start))
        value = f"{sum(taken):.1f} ms, longest step {max(taken):.1f}"
        said(f"first hit in a million lines{name}", value, bar, met=sum(taken) <= 50)
    scan, taken = Scan(line_test("ok=0"), store), []
    while not scan.done:
        start = time.process_time()
        scan.step(8192)
        taken.append(1000 * (time.process_time() - start))
    value = f"{sum(taken):.0f} ms, longest step {max(taken):.1f}"
    said(f"all {len(scan.hits):,} hits, in steps", value, "<= 300 ms", met=sum(taken) <= 300)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slow(folder: Path) -> None:
    """Measure the age of what a line of 15 kB/s shows when it is offered 36 kB/s."""
    with Terminal([*APPS, "slow", str(folder)], rate=15_000) as terminal:
        ages, end = list[float](), time.time() + 25
        while time.time() < end:
            stamps = re.findall(rb"T=(\d+\.\d+)=", terminal.read(0.02))
            ages += [time.time() - float(stamp) for stamp in stamps if time.time() > end - 13]
    middle = statistics.mean(ages) if ages else 99.0
    said("15 kB/s line: age of what is shown", f"{middle:.2f} s, oldest {max(ages, default=99.0):.2f}", "<= 1.0 s",
         met=middle <= 1.0)  # fmt: skip


def back(folder: Path) -> None:
    """Measure the time from the socket of a restarted daemon to the whole picture."""
    taken = list[float]()
    with node(folder, "still") as environ:
        terminal = Terminal(CONSOLE, environ=environ)
        terminal.until(HOME)
    with terminal:
        for _ in range(3):
            terminal.until("reconnecting", fresh=True)
            terminal.drain(3.0)
            terminal.received.clear()
            with node(folder, "still"):
                taken.append(terminal.until("daemon up|up [0-9]"))
    said("daemon back to picture", f"{max(taken):.2f} s at most", "<= 1 s", met=max(taken) <= 1.0)


def browser(folder: Path) -> None:
    """Measure a job's 100,000 samples of a real daemon: the first page with its texts, a filter, the next wrong sample,
    and a search for a text. Whole lines are sent, so that words can be found in them."""
    asyncio.run(fill(folder / "home", jobs=JOBS, each=SAMPLES))
    taken: dict[str, list[float]] = {
        name: [] for name in ("open", "all known", "filter", "next wrong", "text of the last one")
    }
    with daemon(folder / "home") as environ:
        for number in range(JOBS):
            with Terminal(CONSOLE, environ=environ | {"RWKVCTL_TUI_DIFF": "0"}) as terminal:
                terminal.until("up [0-9]")
                terminal.keys(f":job j{number + 1}\r")
                terminal.until(f"rwkv7-g1a-{number}", fresh=True)
                terminal.drain(2.5)
                taken["open"].append(until_shown(terminal, "a", "Question [0-9]"))
                taken["all known"].append(taken["open"][-1] + terminal.until(f"{SAMPLES:,} samples"))
                taken["next wrong"] += [until_painted(terminal, "}") / 1000 for _ in range(10)]
                for listed in ("25,000 of", "75,000 of"):
                    quiet(terminal)
                    taken["filter"].append(until_shown(terminal, "f", listed))
                quiet(terminal)
                terminal.keys("f/")
                quiet(terminal)
                taken["text of the last one"].append(until_shown(terminal, "Question 99999", "99999: We"))
    bars = {"open": 150, "filter": 100, "next wrong": 20}
    for name, times in taken.items():
        middle, most = 1000 * statistics.median(times), bars.get(name, 0)
        value = f"{middle:.0f} ms, slowest {1000 * max(times):.0f}"
        said(f"{SAMPLES:,} samples, {name}", value, f"<= {most} ms" if most else "", met=not most or middle <= most)


def until_shown(terminal: Terminal, keys: str, pattern: str) -> float:
    """Return the seconds from keys until a pattern is shown."""
    start = time.perf_counter()
    terminal.keys(keys)
    terminal.until(pattern, fresh=True)
    return time.perf_counter() - start


@contextmanager
def daemon(home: Path) -> Iterator[dict[str, str]]:
    """Run the real daemon on a home; yield the environment for its clients."""
    environ = {"RWKVCTL_HOME": str(home)}
    process = subprocess.Popen([PYTHON, "-m", "rwkv_daemon"], env=os.environ | environ, stderr=subprocess.DEVNULL)
    try:
        until_it_answers(process, Client(str(home / "run" / "daemon.sock")))
        yield environ
    finally:
        process.terminate()
        process.wait()


PARTS = (first, idle, keys, table, log, search, slow, back, browser)


def main() -> None:
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"date      {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"machine   {platform.machine()}, {cores} cores, load {load:.1f}, Linux {platform.release()}")
    packages = ", ".join(f"{name} {version(name)}" for name in ("rwkvctl", "textual", "rich", "msgspec", "h11"))
    print(f"versions  Python {platform.python_version()}, {packages}")
    wanted = sys.argv[1:]
    for part in PARTS:
        if not wanted or part.__name__ in wanted:
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()
