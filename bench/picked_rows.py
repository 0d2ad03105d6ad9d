"""Planning with `where` and `rows` on a large training set: what a plan costs, and what it holds.

    python bench/picked_rows.py [ROWS]     (200,000 unless given)

The rows are written like prepared ones, with their fields beside them; the plan is the daemon's own. A first plan reads
the column file, the following ones find what was read.
"""

import hashlib
import resource
import sys
import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from figures import header, line

from rwkv_daemon.catalogue.contents import NodeBenchmarks, kind_facts
from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.field_file import FieldWriter
from rwkv_data.prepare.writer import writing
from rwkvctl.protocol.requests import Selection

NAME = "numina_olympiads"
SOURCES = ("olympiads", "math", "amc_aime", "aops_forum")
WHERE = "difficulty>=4 difficulty<=9 source=math"


def main() -> None:
    header()
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        write(Path(folder), rows)
        line(f"write the fields of {rows:,} rows", time.perf_counter() - began, "s", None)
        line("  their file", (Path(folder) / NAME / prepared_sets.FIELDS).stat().st_size / 1e6, "MB", None)
        benchmarks = NodeBenchmarks(Path(folder), files={NAME: registry.load(NAME)})
        selection = Selection(only_datasets=(NAME,), settings={"where": WHERE, "rows": f"0:{rows // 2}"})
        for what in ("the first plan", "the next plan"):
            began = time.perf_counter()
            facts = kind_facts(selection, benchmarks)
            line(what, 1000 * (time.perf_counter() - began), "ms", 1000)
        assert {fact.rows for fact in facts if fact.default} == {sum(map(is_picked, range(rows // 2)))}
        tracemalloc.start()
        fresh = NodeBenchmarks(Path(folder), files=benchmarks.files)
        kind_facts(selection, fresh)
        kept, peak = tracemalloc.get_traced_memory()
    line("memory that a plan takes at most", peak / 1e6, "MB", 30)
    line("memory that stays", kept / 1e6, "MB", 30)
    line("resident, all in all", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", None)


def row(number: int) -> dict[str, object]:
    """A row with a difficulty in steps of a half, a source, an answer and an id, as a labelled set has them."""
    return {
        "id": f"numina/{number:07d}",
        "difficulty": number % 19 / 2,
        "source": SOURCES[number % 4],
        "answer": str(number * 7919 % 100_003),
        "question": "q" * 300,
    }


def is_picked(number: int) -> bool:
    return 4 <= number % 19 / 2 <= 9 and number % 4 == 1


def write(folder: Path, rows: int) -> None:
    """Write a prepared set whose rows are one line: planning reads none of them."""
    benchmark = registry.load(NAME)
    with writing(folder, NAME) as writer:
        with writer.opened(prepared_sets.FIELDS) as file:
            fields = FieldWriter(file.add)
            for number in range(rows):
                fields.take(row(number))
            fields.finish()
        writer.write(f"{benchmark.split}.jsonl", [b"{}\n"])
        manifest = prepared_sets.Manifest(
            format=prepared_sets.FORMAT, benchmark=NAME, benchmark_version=benchmark.version, split=benchmark.split,
            rows=rows, rows_complete=0, sha256=hashlib.sha256(b"{}\n").hexdigest(), source="bench", revision="",
            licence="", created="", fields=fields.kinds, fields_sha256=file.written.sha256,
            unique_ids=fields.unique_ids, training=True,
        )  # fmt: skip
        writer.finish(msgspec.json.encode(manifest))


if __name__ == "__main__":
    main()
