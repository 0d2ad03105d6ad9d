"""The integration and console tests under load, repeated: `make stress ROUNDS=10 SEED=7`.

A busy loop on every core, four times the workers of `make test`, the tests in a random order. What is red here is red
by chance on a quiet machine: a test that hopes for speed, or a race of the product. A round's log lies in `.stress/`;
its order comes again with the seed that is printed.
"""

import argparse
import contextlib
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".stress"
LIMIT_S = 600
"""How long a test waits for something it is told (tests/support/waiting.py), in seconds; a whole test: thrice that."""
RED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that only compute."""
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def play(number: int, seed: int, workers: int, tests: list[str]) -> list[str]:
    """One round; returns the tests that were red, and prints a line."""
    log = LOGS / f"round-{number}.log"
    argv = [sys.executable, "-m", "pytest", *tests, f"--shuffle={seed}", "--slow=none", "-n", str(workers)]
    argv += ["--dist", "worksteal", "-q", "-o", f"timeout={3 * LIMIT_S}"]
    environ = os.environ | {"TEST_LIMIT_S": str(LIMIT_S)}
    began = time.monotonic()
    with log.open("wb") as out:
        code = subprocess.run(argv, cwd=ROOT, stdout=out, stderr=out, env=environ, check=False).returncode
    text = log.read_text(errors="replace")
    red = sorted(set(RED.findall(text)))
    last = text.rstrip().rpartition("\n")[2]
    print(f"round {number}: --shuffle={seed}, {time.monotonic() - began:.0f} s: {last}", flush=True)
    for name in red:
        print(f"  red: {name} (see {log.relative_to(ROOT)})", flush=True)
    return red or ([f"pytest ended with {code}, see {log.relative_to(ROOT)}"] if code else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of the first round; others follow")
    parser.add_argument("--workers", type=int, default=16, help="test processes at once (default: %(default)s)")
    parser.add_argument("tests", nargs="*", default=["tests/integration", "tests/console"])
    options = parser.parse_args()
    LOGS.mkdir(exist_ok=True)
    cores = os.cpu_count() or 1
    print(
        f"{options.rounds} rounds, {options.workers} test processes and {cores} busy loops on {cores} cores", flush=True
    )
    red = []
    with busy_loops(cores):
        for number in range(options.rounds):
            red += play(number + 1, options.seed + number, options.workers, options.tests)
    print(f"red in {options.rounds} rounds: {', '.join(sorted(set(red))) or 'nothing'}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
