"""Cleaning of a training file against many benchmark rows: time, memory, and whether what was planted is found.

    python bench/decontaminate.py [--rows 100000] [--benchmark-rows 200000]

Problems and rows are 20 to 120 words of a vocabulary in which words are as unequally frequent as in English. The rows
lie in 20 sets of one's own. Planted into the problems are rows of the sets (as they are, with their sentences in
another order, among other text) and near copies of earlier problems. Each run is a process of its own: the first makes
the indexes, the second finds them. A recipe may take 120 s and 1 GiB for selecting, pairing, cleaning and exporting
together; the bar here is half of the time.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path

from figures import header, line

from rwkv_data.prepare.prepare import prepare_own

SETS = 20
VOCABULARY = 50_000
PLANTED = 0.01
"""Share of the problems that are planted, of each kind."""
TIME_BAR_S = 60.0
MEMORY_BAR_MIB = 1024.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--benchmark-rows", type=int, default=200_000)
    given = parser.parse_args()
    header(f"numpy {version('numpy')}", f"pyarrow {version('pyarrow')}")
    with tempfile.TemporaryDirectory(prefix="rwkv-bench-") as folder:
        home = Path(folder)
        planted = fill(home, given.rows, given.benchmark_rows)
        size = (home / "train.jsonl").stat().st_size / 2**20
        print(f"{given.rows:,} problems ({size:,.0f} MiB) against {given.benchmark_rows:,} rows in {SETS} sets")
        for what in ("indexes made", "indexes there"):
            found, wall, cpu, memory = cleaned(home)
            line(f"{what}: wall", wall, "s", TIME_BAR_S)
            line(f"{what}: processor", cpu, "s", None)
            line(f"{what}: memory", memory, "MiB", MEMORY_BAR_MIB)
            line(f"{what}: problems a second", given.rows / wall, "", None)
            (home / "clean.jsonl").unlink()
            (home / "clean.jsonl.dropped.jsonl").unlink()
        index = sum(path.stat().st_size for path in (home / "cache").rglob("*") if path.is_file()) / 2**20
        line("indexes on disk", index, "MiB", None)
        line(
            "planted rows of benchmarks that were found", 100 * found["near"] / planted["near"], "%", 100, at_least=True
        )
        line("planted duplicates that were found", 100 * found["again"] / planted["again"], "%", 100, at_least=True)
        line("problems dropped that were not planted", found["other"], "", None)


class Writer:
    """Makes up texts: sentences of words by Zipf's law."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        letters = "etaoinshrdlucmfw"
        self.words = ["".join(self.dice.choices(letters, k=self.dice.randint(1, 9))) for _ in range(VOCABULARY)]
        self.weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def text(self) -> str:
        words = self.dice.choices(self.words, cum_weights=self.weights, k=self.dice.randint(20, 120))
        ends = range(0, len(words), 12)
        return " ".join(" ".join(words[at : at + 12]).capitalize() + "." for at in ends)


def fill(home: Path, rows: int, benchmark_rows: int) -> dict[str, int]:
    """Write the sets and the training file; return how many of its rows are planted."""
    writer = Writer(7)
    some: list[str] = []
    for number in range(SETS):
        path = home / f"set{number}.jsonl"
        with path.open("w") as file:
            for _ in range(benchmark_rows // SETS):
                text = writer.text()
                some += [text] if writer.dice.random() < 0.02 else []
                file.write(json.dumps({"question": text, "answer": "1"}) + "\n")
        prepare_own(path.stem, path, home / "data")
    planted = {"near": 0, "again": 0}
    with (home / "train.jsonl").open("w") as file:
        for kind, text in problems(writer, rows, some):
            planted[kind] = planted.get(kind, 0) + 1
            file.write(json.dumps({"problem": text, "kind": kind, "solution": "x" * 200}) + "\n")
    return planted


def problems(writer: Writer, rows: int, some: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what each problem is (near a row, again an earlier problem, of its own), and its text."""
    dice, own = writer.dice, [writer.text() for _ in range(100)]
    yield from (("own", text) for text in own[:rows])
    for _ in range(len(own), rows):
        roll = dice.random() / PLANTED
        if roll < 3:
            yield "near", smuggled(writer, dice.choice(some), int(roll))
        elif roll < 4:
            words = dice.choice(own).split()
            words[-1] = "more."
            yield "again", " ".join(words)
        else:
            text = writer.text()
            own[dice.randrange(100)] = text
            yield "own", text


def smuggled(writer: Writer, row: str, how: int) -> str:
    """Return a row as it is, with its sentences in another order, or among other text."""
    if how == 0:
        return row.upper()
    if how == 1:
        return ". ".join(writer.dice.sample(parts := row.rstrip(".").split(". "), len(parts)))
    return f"{writer.text()} {row} {writer.text()}"


def cleaned(home: Path) -> tuple[dict[str, int], float, float, float]:
    """Clean in a process of its own; return what it dropped, its time, processor time and most memory."""
    command = [sys.executable, "-P", "-m", "rwkv_data", "decontaminate", str(home / "train.jsonl"), "--json"]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--to", str(home / "clean.jsonl"), "--home", str(home)], stdout=subprocess.PIPE
    )
    assert process.stdout
    summary = json.loads(process.stdout.read())
    _, _, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    kinds = [json.loads(row)["kind"] for row in (home / "train.jsonl").open()]
    found = {"near": 0, "again": 0, "own": 0}
    with (home / "clean.jsonl.dropped.jsonl").open() as file:
        for entry in map(json.loads, file):
            found[kinds[entry["line"] - 1]] += 1
    assert sum(found.values()) == summary["rows"] - summary["stay"]
    return found | {"other": found["own"]}, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
