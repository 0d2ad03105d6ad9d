"""A recipe over many samples: selection, cleaning, writing and export, in time and memory; then a mix of its rows with
as many rows of a file as there are samples.

    python bench/recipes.py [--samples 100000] [--benchmark-rows 200000]

The problems are a training set of one's own, eight samples each; three of four are right. Set and samples are made up,
the store is filled by its own statements, and the rows are made by the daemon's own process, told what the daemon tells
it. Then they are exported as sharegpt. The bars are those of the whole: 120 s and 1 GiB.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import msgspec
from decontaminate import Writer, fill
from figures import header, line

from rwkv_daemon.recipes.recipe_folder import RecipeFolder
from rwkv_daemon.recipes.row_order import RowOrder, SampleSource
from rwkv_daemon.store import NewJob, open_store
from rwkv_daemon.store.queries.jobs import add_job, add_session, as_json
from rwkv_data.definition.own_benchmark import benchmark
from rwkv_data.prepare.prepare import prepare_own
from rwkvctl.settings.module_command import module_command

KIND = "free_response.chat"
EACH = 8
TIME_BAR_S = 120.0
MEMORY_BAR_MIB = 1024.0
RECIPES = {
    "r1": '[select]\nrule = "k-correct"\nk = 4\nseed = 7\npass_rate = [0.1, 0.95]\n',
    "r2": '[pairs]\nrules = ["short-long", "silc"]\n',
}
MIX = 'seed = 7\n[[mix]]\nrecipe = "r1"\nweight = 1\n[[mix]]\nrows = "chat"\nweight = 1\n'
NAMES = {"r1": "select", "r2": "pairs", "r3": "mix"}
FORMS = {"r1": "sharegpt", "r2": "sharegpt-preference", "r3": "sharegpt"}
COMPLETION = (
    "INSERT INTO completion (job, row, repeat, stage, attempt, ids, text, stop, logprobs, prompt_tokens, "
    "cached_tokens, generated_tokens, engine, seconds) "
    "VALUES (?, ?, ?, 0, 1, '[]', ?, 'stop_token', '[]', 60, 0, ?, '', 1)"
)
SAMPLE = "INSERT INTO sample (job, row, repeat, attempt) VALUES (?, ?, ?, 1)"
GRADE = (
    "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail) "
    "VALUES (?, 'g', ?, ?, '', '', '')"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--benchmark-rows", type=int, default=200_000)
    given = parser.parse_args()
    header(f"numpy {version('numpy')}", f"pyarrow {version('pyarrow')}")
    with tempfile.TemporaryDirectory(prefix="rwkv-bench-") as folder:
        home = Path(folder)
        fill(home, 1, given.benchmark_rows)
        asyncio.run(fill_store(home, given.samples // EACH))
        size = (home / "store.sqlite").stat().st_size / 2**20
        print(f"{given.samples:,} samples ({size:,.0f} MiB) against {given.benchmark_rows:,} rows")
        for name, recipe in RECIPES.items():
            made_and_exported(home, name, f'jobs = ["j1"]\n{recipe}')
        chat = home / "chat.jsonl"
        fill_chat(chat, given.samples)
        words = ("rows", "--file", str(chat), "--home", str(home))
        measured(f"data rows, {given.samples:,} rows", module_command("rwkv_data", *words), Path(os.devnull))
        made_and_exported(home, "r3", MIX)


def made_and_exported(home: Path, name: str, recipe: str) -> None:
    """Make the rows of a recipe, write them to a file, and print what that takes."""
    what, told = NAMES[name], home / f"{name}.told"
    told.write_bytes(order(home, name, recipe))
    made = measured(what, module_command("rwkv_daemon.recipes.make_rows"), told)
    pipe_rows(home / "recipes" / name, told)
    words = ("write-rows", "--to", str(home / f"{name}.json"), "--format", FORMS[name], "--roles", "human/gpt")
    written = measured(f"{what}, export", module_command("rwkv_data", *words), told)
    line(f"{what}: rows made and exported", made + written, "s", TIME_BAR_S)


def fill_chat(path: Path, rows: int) -> None:
    """Write a file of conversations."""
    writer = Writer(12)
    with path.open("w") as file:
        for _ in range(rows):
            said = ({"role": role, "content": writer.text()} for role in ("user", "assistant"))
            file.write(json.dumps({"messages": list(said)}) + "\n")


async def fill_store(home: Path, problems: int) -> None:
    """Prepare the problems, and store a job that has sampled and graded them."""
    writer = Writer(11)
    path = home / "problems.jsonl"
    path.write_text("".join(json.dumps({"question": writer.text(), "answer": "1"}) + "\n" for _ in range(problems)))
    manifest = prepare_own("problems", path, home / "data", training=True)
    own = benchmark(home / "data", "own_problems")
    kind = own.kinds[KIND].with_repeats(EACH)
    store = await open_store(home / "store.sqlite")
    async with store.write() as db:
        await add_session(db, "bench", "{}", "here", ("0", ""))
        job = await add_job(db, "bench", NewJob(
            model="m", weights_path="/w/m.pth", weights_sha256="0" * 64, benchmark="own_problems", kind=KIND,
            state="done", reason="", detail="", priority=0, generation_key="k", grade_key="g", grading="{}",
            settings=json.dumps({"k": str(EACH)}), configuration=as_json(kind.configuration()), grader="g",
            grader_version="1", benchmark_version=own.version, rows_sha256=manifest.sha256, seed=0, row_limit=None,
            numerics="fp32", repeats=EACH, stages=1, total=problems * EACH, run_log_dir="",
        ))  # fmt: skip
        dice, words = writer.dice, [writer.text() for _ in range(500)]
        places = [(row, repeat) for row in range(problems) for repeat in range(EACH)]
        texts = ["\n\n".join(dice.choices(words, k=dice.randint(2, 12))) for _ in range(2000)]
        completions = ((job, *place, text := dice.choice(texts), len(text) // 4) for place in places)
        await db.many(COMPLETION, completions)
        await db.many(SAMPLE, ((job, *place) for place in places))
        right = [dice.random() < 0.75 for _ in places]
        grades = ((number, float(one), "right" if one else "wrong") for number, one in enumerate(right, 1))
        await db.many(GRADE, grades)
    await store.close()


def order(home: Path, name: str, recipe: str) -> bytes:
    """Return what the daemon would tell the process."""
    return msgspec.json.encode(
        RowOrder(
            toml=recipe, name=name, sources=(SampleSource(1, "g"),),
            folder=str(home / "recipes" / name), runs_dir=str(home / "runs"), data_dir=str(home / "data"),
            benchmarks_dir=str(home / "benchmarks"), cache_dir=str(home / "cache"),
            store=str(home / "store.sqlite"), store_name="bench",
        )
    )  # fmt: skip


def pipe_rows(folder: Path, told: Path) -> None:
    """Write to a file what the command line would pipe to the export."""
    result = RecipeFolder(folder).result()
    assert result is not None
    print(f"{result.rows:,} rows")
    with told.open("wb") as file:
        file.write(json.dumps({"rows": result.rows, "card": result.card}).encode() + b"\n")
        with RecipeFolder(folder).lines("rows") as rows:
            file.writelines(rows.every())


def measured(what: str, command: tuple[str, ...], told: Path) -> float:
    """Run a process that reads a file, print its time and most memory, and return its time."""
    begun = time.perf_counter()
    with told.open("rb") as file:
        process = subprocess.Popen(command, stdin=file, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{what}: the process ended with {status}")
    wall = time.perf_counter() - begun
    line(f"{what}: wall", wall, "s", TIME_BAR_S)
    line(f"{what}: processor", used.ru_utime + used.ru_stime, "s", None)
    line(f"{what}: memory", used.ru_maxrss / 1024, "MiB", MEMORY_BAR_MIB)
    return wall


if __name__ == "__main__":
    main()
