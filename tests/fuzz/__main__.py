"""Everything that reads what strangers send, and what is nearly right: `python tests/fuzz [--seed N] [--rounds N]`.

The seed is printed first: the same seed draws the same bytes. Nothing may crash, hang, answer 5xx, log a traceback, or
grow; afterwards a good request is answered; a checkpoint runs no code and is not read beyond its end. Exit code 1 if
that does not hold.
"""

import argparse
import itertools
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import checkpoints
import doors
import pages
import replies

MOST_SHOWN = 10
Part = Callable[[random.Random, int], Iterator[str]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--rounds", type=int, default=20_000, help="mutated inputs in all")
    given = parser.parse_args()
    print(f"fuzz: --seed {given.seed} --rounds {given.rounds}", flush=True)
    broken = 0
    with doors.scratch() as folder, doors.opened(folder) as opened:
        (folder / "weights").mkdir()
        parts: dict[str, tuple[float, Part]] = {
            "unix socket": (0.55, lambda draw, rounds: doors.fuzz_unix(opened, draw, rounds)),
            "tls handshake": (0.05, lambda draw, rounds: doors.fuzz_handshakes(opened, draw, rounds)),
            "tls requests": (0.05, lambda draw, rounds: doors.fuzz_tls(opened, draw, rounds)),
            "sandbox replies": (0.25, replies.fuzz),
            "checkpoints": (0.1, lambda draw, rounds: checkpoints.fuzz(folder / "weights", draw, rounds)),
            "websocket": (0.001, lambda draw, rounds: pages.fuzz(opened.node, draw, rounds)),
            "afterwards": (0.0, lambda _draw, _rounds: doors.after(opened)),
        }
        for name, (share, part) in parts.items():
            rounds = max(1, int(given.rounds * share))
            found = list(itertools.islice(part(random.Random(f"{given.seed} {name}"), rounds), MOST_SHOWN))
            for sentence in found:
                print(f"VIOLATED {name}: {sentence}", flush=True)
            print(f"{name}: {rounds} rounds, {len(found)} violations", flush=True)
            broken += len(found)
    print(f"fuzz: {'every rule holds' if not broken else f'{broken} violations'} (seed {given.seed})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
