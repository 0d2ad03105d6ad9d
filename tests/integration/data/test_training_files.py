"""Files of training rows with the real world around them: the `datasets` library, kill -9, a full disk, memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from training_rows import FORMATS, NAMES, chat_text, hostile_rows, read, said_in

from rwkv_data.recipes import crash_points
from rwkv_data.recipes.files import parquet_folder
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.row_files import FileOrder, write_rows
from rwkv_data.recipes.files.training_row import TrainingRow

SUPPORT = Path(__file__).parents[2] / "support"
LOADED = """
import json, sys
import datasets
for place in sys.argv[1:]:
    kind, path = place.split("=", 1)
    if kind == "folder":
        rows = datasets.load_dataset(path)["train"]
    else:
        rows = datasets.load_dataset("json", data_files=path, split="train")
    json.dump([*rows], open(f"{path}.read", "w"))
"""


def played(script: str, *words: str | Path, environ: dict[str, str] | None = None) -> str:
    """What a script says in a process of its own."""
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *map(str, words)],
        env=os.environ | {"PYTHONPATH": path} | (environ or {}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_datasets_library_gives_the_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_folder, "GROUP_ROWS", 7)
    monkeypatch.setattr(parquet_folder, "SHARD_BYTES", 2000)
    places, written = [], {form: hostile_rows(form, 90) for form in FORMATS}
    # A folder of the same name as another: the library must not take the other's rows from its cache.
    written["pairs"] = hostile_rows("trl-preference", 90)
    for name, rows in written.items():
        form = "parquet" if name == "pairs" else name
        path = tmp_path / name / NAMES[form]
        path.parent.mkdir()
        write_rows(FileOrder(to=path, format=form, card=FileCard(title="r3")), rows)
        places.append(f"{'folder' if form == 'parquet' else 'file'}={path}")
    assert len(list((tmp_path / "parquet" / "t" / "data").iterdir())) > 3
    played(LOADED, *places, environ={
        "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "USE_TORCH": "0",
    })  # fmt: skip
    columns = {"parquet": "messages", "pairs": "trl-preference"}
    for name, rows in written.items():
        path = tmp_path / name / f"{NAMES.get(name, 't')}.read"
        assert read(columns.get(name, name), path) == [kept(name, row) for row in rows], name


def kept(form: str, row: TrainingRow) -> Any:
    said, answers = said_in(row)
    return ([(role, chat_text(text)) for role, text in said] if form == "rwkv" else said), answers


CRASHES = """
import json, os, sys
from pathlib import Path
from training_rows import NAMES, pair_row, plain_row
from rwkv_data.recipes import crash_points
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.row_files import FileOrder, names_of, write_rows
from rwkv_data.recipes.files.verify import verify
from rwkv_data.recipes.whole_files import finish_writing

root, form = Path(sys.argv[1]), sys.argv[2]

def child(work, point=""):
    pid = os.fork()
    if not pid:
        os.environ["RWKVCTL_CRASH_AT"] = point
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def write(path, count, replace=False):
    rows = [plain_row("Q", "A", number=at) for at in range(count)]
    write_rows(FileOrder(to=path, format=form, card=FileCard(title="r3"), replace=replace), rows)
    return 0

def state(path):
    names = names_of(path, folder=form == "parquet")
    lines = names.lineage.read_bytes().count(b"\\n") if names.lineage.exists() else 0
    return {"there": [one.exists() for one in (names.rows, names.lineage, names.card)], "rows": lines}

def check(path):
    try:
        return bool(verify(path, lambda samples: [one.right for one in samples]))
    except Exception:
        return 3

for older in (0, 2):
    for point in crash_points.POINTS:
        for second in ("", *(crash_points.POINTS[4:] if point == "whole-after-commit" else ())):
            folder = root / f"{older}-{point}-{second}"
            folder.mkdir()
            path = folder / NAMES[form]
            if older:
                child(lambda: write(path, older))
            code = child(lambda: write(path, 3, bool(older)), point)
            at_once = state(path)
            whole_at_once = older or not at_once["there"][0] or all(at_once["there"])
            again = child(lambda: finish_writing(path) or 0, second) if second else 0
            finished = child(lambda: finish_writing(path) or 0)
            left = sorted(one.name for one in folder.iterdir())
            rows, verified = state(path)["rows"], child(lambda: check(path))
            print(json.dumps({
                "older": older, "point": point, "second": second, "code": code, "again": again, "finished": finished,
                "whole_at_once": bool(whole_at_once), "left": left, "rows": rows, "verified": verified,
                "then": child(lambda: write(path, 4, True)), "after": state(path),
            }))
"""


@pytest.mark.parametrize("form", ["messages", pytest.param("parquet", marks=pytest.mark.slow("golds"))])
def test_a_kill_at_any_point_leaves_the_old_or_the_new_and_all_of_it(tmp_path: Path, form: str) -> None:
    cases = [json.loads(line) for line in played(CRASHES, tmp_path, form).split("\n")[:-1]]
    names = {"t"} if form == "parquet" else {"t.jsonl", "t.jsonl.card.md", "t.jsonl.lineage.jsonl"}
    committed = crash_points.POINTS[crash_points.POINTS.index("whole-after-commit") :]
    for case in cases:
        if form == "parquet":
            unreached = {"whole-after-name-2", "whole-after-name-3"}
            unreached |= set() if case["older"] else {"whole-after-moving-away"}
        else:
            unreached = {"whole-after-moving-away"}
        assert (case["code"] == -9) == (case["point"] not in unreached), case
        assert case["whole_at_once"], case
        assert case["finished"] == 0, case
        if case["point"] in committed or case["point"] in unreached:
            assert (set(case["left"]), case["rows"], case["verified"]) == (names, 3, 0), case
        elif case["older"]:
            assert (set(case["left"]), case["rows"], case["verified"]) == (names, 2, 0), case
        else:
            assert (case["left"], case["verified"]) == ([], 3), case
        assert (case["then"], case["after"]["rows"], case["after"]["there"]) == (0, 4, [True] * 3), case
    assert {case["again"] for case in cases if case["second"]} >= {-9}
    assert {case["point"] for case in cases} == set(crash_points.POINTS)


FULL = """
import resource, sys
from pathlib import Path
from training_rows import NAMES, pair_row, plain_row
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.row_files import FileOrder, write_rows
from rwkvctl.protocol.errors import RwkvctlError

form = sys.argv[2]
one = pair_row("Q", "A" * 50_000, "B") if "preference" in form else plain_row("Q", "".join(map(chr, range(33, 50_000))))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    write_rows(FileOrder(to=Path(sys.argv[1]) / NAMES[form], format=form, card=FileCard(title="r3")), [one] * 100)
except RwkvctlError as error:
    print(error)
"""


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_may_not_grow_is_one_sentence_and_nothing_is_left(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "from rwkv_data.recipes.files import parquet_folder\nparquet_folder.GROUP_ROWS = 3\n" + FULL
    said = played(script, tmp_path, form)
    assert said.count("\n") == 1
    assert said.endswith("cannot be written: File too large; nothing was\n")
    assert not list(tmp_path.iterdir())


MEMORY = """
import random, sys
from pathlib import Path
from training_rows import NAMES, plain_row
from rwkv_data.recipes.files.file_card import FileCard
from rwkv_data.recipes.files.row_files import FileOrder, write_rows
from rwkv_data.recipes.files.verify import verify

def memory():
    lines = Path("/proc/self/status").read_text().split("\\n")
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) >> 10

def watched(rows):
    for at, row in enumerate(rows):
        if at % 50 == 49:
            seen.append(memory())
        yield row

folder, text = Path(sys.argv[1]), "a row of twenty kB, " * 1000
def rows(count):
    return (plain_row(f"Q{at}", text, number=at) for at in range(count))

write_rows(FileOrder(to=folder / "few.json", format="sharegpt", card=FileCard(title="r3")), rows(16))
first = memory()
for form in ("sharegpt", "parquet"):
    seen = []
    path = folder / NAMES[form]
    write_rows(FileOrder(to=path, format=form, card=FileCard(title="r3")), watched(rows(6000)))
    assert not verify(path, lambda samples: [one.right for one in samples])
    print(max(*seen, memory()) - first)
"""


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """120 MB of rows. Parquet keeps a group of 8 MB in several forms."""
    lists, shards = map(int, played(MEMORY, tmp_path).split())
    assert lists < 60, lists
    assert shards < 110, shards
