"""`python -m rwkv_data decontaminate` in this process: what is read, written, refused and said."""

import gzip
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rwkv_data import __main__ as cli
from rwkv_data.definition import registry
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.recipes.cleaning import checked_benchmarks, problem_file
from rwkv_data.recipes.whole_files import whole_files
from rwkvctl.settings import config

TEST = "A baker sells 12 rolls each morning and 7 loaves every evening. How many rolls does she sell in 9 days?"
OWN = "Which of the seven bridges of this old town can be crossed twice without turning round on the way home?"


@pytest.fixture(autouse=True)
def no_configuration(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


@pytest.fixture
def home(tmp_path):
    """A home with one row of gsm8k, and one of an own set."""
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"question": TEST, "answer": "#### 108"}) + "\n")
    prepare("gsm8k", tmp_path / "data", raw)
    own = tmp_path / "bridges.jsonl"
    own.write_text(json.dumps({"question": OWN, "answer": "none"}) + "\n")
    assert cli.main(["own", str(own), "--home", str(tmp_path)]) == 0
    return tmp_path


LINES = [
    b'{"problem": "What is the area of a square whose side is 3?", "n": 1}\n',
    b'  {"problem": "' + TEST.upper().encode() + b'"}  \n',
    b"\n",
    '{"problem": "中文 问题", "x": NaN, "n": 123456789012345678901234567890}\r\n'.encode(),
    b'{"problem": "First: ' + OWN.encode() + b'"}\n',
    b'{"n": 2, "problem": "what is the area of a square, whose side is 3"}\n',
    b'{"problem": "the last line has no end"}',
]


@pytest.fixture
def train(home):
    path = home / "train.jsonl"
    path.write_bytes(b"".join(LINES))
    return path


def run(capsys, *words: object) -> tuple[int, str, str]:
    """The exit code and what was said on both ways."""
    capsys.readouterr()
    code = cli.main(["decontaminate", *map(str, words)])
    return code, *capsys.readouterr()


def test_rows_that_stay_are_the_same_bytes_in_the_same_order(home, train, capsys) -> None:
    code, out, _ = run(capsys, train, "--to", home / "clean.jsonl", "--home", home)
    assert code == 0
    assert (home / "clean.jsonl").read_bytes() == LINES[0] + LINES[3] + LINES[6]
    assert out.splitlines()[0] == "3 of 6 rows stay: 2 near benchmarks (gsm8k 1, own_bridges 1), 1 duplicate"
    dropped = [json.loads(line) for line in (home / "clean.jsonl.dropped.jsonl").read_bytes().splitlines()]
    assert [(one["line"], one["reason"], one["rule"]) for one in dropped] == [
        (2, "benchmark", "equal"),
        (5, "benchmark", "13-gram"),
        (6, "duplicate", "equal"),
    ]
    assert dropped[0] | {"gram": ""} == {
        "line": 2, "reason": "benchmark", "rule": "equal", "benchmark": "gsm8k", "row": "gsm8k/0", "index": 0,
        "gram": "", "word": 0, "rows_with_it": 1, "also": [],
    }  # fmt: skip
    assert dropped[1]["gram"] == "which of the seven bridges of this old town can be crossed twice"
    assert dropped[2] == {"line": 6, "reason": "duplicate", "rule": "equal", "of_line": 1, "similarity": 1.0}
    assert f"{train}:6  equal to line 1" in out
    assert "not checked, because not prepared: aime24, " in out
    assert f"wrote {home}/clean.jsonl and {home}/clean.jsonl.dropped.jsonl" in out


def test_without_a_target_there_is_a_report_and_contamination_is_a_failure(home, train, capsys) -> None:
    before = sorted(home.iterdir())
    code, out, _ = run(capsys, train, "--home", home, "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["rows"], found["stay"], found["near_benchmarks"]) == (6, 3, 2)
    assert found["benchmarks"]["gsm8k"] == {"equal": 1, "same-words": 0, "13-gram": 0, "8-grams": 0}
    assert found["duplicates"] == {"equal": 1, "near": 0}
    assert found["not_checked"]["mmlu"] == "not prepared"
    assert {"gsm8k", "own_bridges", "demo_arith"} <= found["checked"].keys()
    assert found["in_part"]["gsm8k"] == {"rows": 1, "of": 1319}
    assert [one["line"] for one in found["examples"]] == [2, 5, 6]
    assert {*home.iterdir()} - {*before} == {home / "cache"}
    train.write_bytes(LINES[0] + LINES[5])
    assert run(capsys, train, "--home", home)[0] == 0  # duplicates alone are none


def test_packed_lines_are_read_and_written_packed_or_not(home, capsys) -> None:
    packed = home / "train.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(LINES)))
    assert run(capsys, packed, "--to", home / "clean.jsonl", "--home", home)[0] == 0
    assert run(capsys, packed, "--to", home / "clean.jsonl.gz", "--home", home)[0] == 0
    assert gzip.decompress((home / "clean.jsonl.gz").read_bytes()) == (home / "clean.jsonl").read_bytes()


def test_parquet_stays_parquet(home, capsys) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    problems = ["one and one", TEST, "two and two", "One and one."]
    table = pa.table({"problem": problems, "n": pa.array([1, None, 3, 4], pa.int16())})
    parquet.write_table(table, home / "t.parquet", row_group_size=2)
    assert run(capsys, home / "t.parquet", "--to", home / "c.parquet", "--home", home)[0] == 0
    clean = parquet.read_table(home / "c.parquet")
    assert clean.to_pydict() == {"problem": ["one and one", "two and two"], "n": [1, 3]}
    assert clean.schema == table.schema
    assert "--to must end with .parquet" in run(capsys, home / "t.parquet", "--to", home / "c.jsonl", "--home", home)[2]


def test_benchmarks_for_training_are_not_compared_with(home, train, capsys) -> None:
    file = config.load({"home": str(home)}).benchmarks_dir / "mine.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import dataclasses\nfrom rwkv_data.benchmarks.gsm8k import BENCHMARK as GSM8K\n"
        "BENCHMARK = dataclasses.replace(GSM8K, name='mine', training=True, generate_rows=lambda: [\n"
        "    {'question': 'the last line has no end', 'answer': '1'}])\n"
    )
    found = json.loads(run(capsys, train, "--home", home, "--json")[1])
    assert "mine" not in found["checked"] | found["not_checked"]
    file.write_text(file.read_text().replace("training=True", "training=False"))
    found = json.loads(run(capsys, train, "--home", home, "--json")[1])
    assert found["benchmarks"]["mine"]["equal"] == 1
    file.write_text("import nothing_of_the_kind\n")
    assert "cannot be imported" in json.loads(run(capsys, train, "--home", home, "--json")[1])["not_checked"]["mine"]


def test_require_checked_refuses_what_is_not_prepared(home, train, capsys) -> None:
    code, _, err = run(capsys, train, "--home", home, "--require-checked", "--to", home / "c.jsonl")
    assert code == 5
    assert re.search(r"\d+ benchmarks cannot be checked \(aime24, .*\); prepare them with `rwkvctl data prepare`", err)
    assert not (home / "c.jsonl").exists()


def test_rows_that_are_not_those_of_their_manifest_are_not_checked(home, train, capsys) -> None:
    rows = prepared_sets.rows_path(home / "data", registry.load("gsm8k"))
    rows.write_bytes(rows.read_bytes() + b"{}\n")
    found = json.loads(run(capsys, train, "--home", home, "--json")[1])
    assert "other sha256" in found["not_checked"]["gsm8k"]
    rows.write_bytes(b"nonsense\n")
    assert ":1 is no JSON object" in json.loads(run(capsys, train, "--home", home, "--json")[1])["not_checked"]["gsm8k"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "train.jsonl has no rows"),
        (b"\n \n", "train.jsonl has no rows"),
        (b'{"problem": "a"}\n{"problem": \n', "train.jsonl:2: not JSON"),
        (b'{"problem": "a"}\n\n[1]\n', "train.jsonl:3: not a JSON object"),
        (b'{"problem": "a"}\n{"problem": "\xff"}\n', "train.jsonl:2: not UTF-8 at byte 13"),
        (b'{"problem": "a"}\n{"answer": "b"}\n', "train.jsonl:2: 'problem' is missing, not text"),
        (b'{"a": "a", "b\\u001b": "b"}\n', "train.jsonl:1: the row does not say which field is the problem"),
        (b'{"problem": "' + b"x" * 300 + b'"}\n', "train.jsonl:1: a line of more than 200 bytes"),
        (b"[" * 100_000, "train.jsonl:1: "),
    ],
)
def test_a_file_that_is_not_as_it_should_be_ends_in_a_sentence(home, capsys, monkeypatch, content, said) -> None:
    monkeypatch.setattr(problem_file, "LONGEST_LINE", 200 if b"xxx" in content else 1 << 20)
    path = home / "train.jsonl"
    path.write_bytes(content)
    before = sorted(home.iterdir())
    code, out, err = run(capsys, path, "--to", home / "c.jsonl", "--home", home)
    assert code != 0
    assert said in err
    assert len(err.splitlines()) == 1
    assert not out
    assert "\x1b" not in err
    assert {*home.iterdir()} - {*before} <= {home / "cache"}


def test_what_is_no_plain_file_of_rows_is_refused(home, capsys) -> None:
    os.mkfifo(home / "pipe.jsonl")
    assert "pipe.jsonl cannot be read: it is no plain file" in run(capsys, home / "pipe.jsonl", "--home", home)[2]
    assert "No such file" in run(capsys, home / "none.jsonl", "--home", home)[2]
    (home / "x.csv").write_text("a,b\n")
    assert "x.csv is none of .jsonl, .ndjson, " in run(capsys, home / "x.csv", "--home", home)[2]
    (home / "x.jsonl.gz").write_bytes(gzip.compress(b'{"problem": "a"}\n')[:-9])
    assert "x.jsonl.gz is damaged" in run(capsys, home / "x.jsonl.gz", "--home", home)[2]
    (home / "x.parquet").write_bytes(b"PAR1 no")
    assert "x.parquet" in run(capsys, home / "x.parquet", "--home", home)[2]


def test_a_target_that_is_there_or_is_the_file_itself_is_refused(home, train, capsys) -> None:
    (home / "c.jsonl.dropped.jsonl").write_text("mine")
    code, _, err = run(capsys, train, "--to", home / "c.jsonl", "--home", home)
    assert (code, "c.jsonl.dropped.jsonl already exists" in err) == (5, True)
    assert run(capsys, train, "--to", home / "c.jsonl", "--home", home, "--replace")[0] == 0
    assert "is the file itself" in run(capsys, train, "--to", train, "--home", home, "--replace")[2]
    assert train.read_bytes() == b"".join(LINES)
    assert "there is no folder" in run(capsys, train, "--to", home / "no" / "c.jsonl", "--home", home)[2]


def test_a_file_that_changes_while_it_is_read_is_refused(home, train, capsys, monkeypatch) -> None:
    real = problem_file._LinesFile.copy

    def grown(self, *given):
        with train.open("ab") as file:
            file.write(b'\n{"problem": "one more"}\n')
        return real(self, *given)

    monkeypatch.setattr(problem_file._LinesFile, "copy", grown)
    code, _, err = run(capsys, train, "--to", home / "c.jsonl", "--home", home)
    assert (code, "changed while it was read" in err) == (1, True)
    assert not (home / "c.jsonl").exists()


def test_a_cache_of_another_user_is_left_alone(home, train, capsys, monkeypatch) -> None:
    """HOME/cache is this user's, but cleaning/ in it was made by another one, who ran this first."""
    kept = home / "cache" / "cleaning"
    kept.mkdir(parents=True)
    monkeypatch.setattr(checked_benchmarks.os, "access", lambda path, _: path != kept)
    assert json.loads(run(capsys, train, "--home", home, "--json")[1])["near_benchmarks"] == 2
    assert not any(kept.iterdir())


def test_a_target_beside_which_the_file_would_be_lost_is_refused(home, capsys) -> None:
    path = home / "c.jsonl.dropped.jsonl"
    path.write_bytes(LINES[0])
    code, _, err = run(capsys, path, "--to", home / "c.jsonl", "--home", home, "--replace")
    assert (code, "is the file itself" in err) == (2, True)
    assert path.read_bytes() == LINES[0]


@pytest.mark.parametrize("name", [".", "..", "/", ""])
def test_a_target_without_a_name_is_refused(home, train, capsys, name) -> None:
    code, _, err = run(capsys, train, "--to", name, "--home", home)
    assert (code, "is no name of a file" in err) == (2, True)


def test_only_plain_files_are_replaced(home, train, capsys) -> None:
    """By root a device would be replaced, too."""
    os.mkfifo(home / "pipe.jsonl")
    (home / "folder.jsonl").mkdir()
    for name in ("pipe.jsonl", "folder.jsonl"):
        code, _, err = run(capsys, train, "--to", home / name, "--home", home, "--replace")
        assert (code, f"{name} is no plain file" in err, len(err.splitlines())) == (5, True, 1)
    assert (home / "pipe.jsonl").is_fifo()
    other = home / "other.jsonl"
    other.write_text("mine")
    (home / "link.jsonl").symlink_to(other)
    assert run(capsys, train, "--to", home / "link.jsonl", "--home", home, "--replace")[0] == 0
    assert other.read_text() == "mine"  # the link is replaced, not what it points to
    assert not (home / "link.jsonl").is_symlink()


def test_a_full_disk_ends_in_a_sentence(tmp_path) -> None:
    """What is buffered is written once more when the file is closed, and fails again."""

    def write() -> None:
        paths = [tmp_path / "a", tmp_path / "b"]
        with Path("/dev/full").open("wb") as full, whole_files(paths, replace=False) as (one, _):
            os.dup2(full.fileno(), one.fileno())
            one.write(b"1" * 100)
            one.write(b"2" * (1 << 20))

    with pytest.raises(PrepareError, match=r"a and .*b cannot be written: No space left on device; nothing was"):
        write()
    assert not any(tmp_path.iterdir())


def test_fields_are_named_by_hand(home, capsys) -> None:
    path = home / "t.jsonl"
    path.write_text(json.dumps({"a": TEST[:60], "b": TEST[60:], "question": "?"}) + "\n")
    assert json.loads(run(capsys, path, "--field", "a", "b", "--home", home, "--json")[1])["near_benchmarks"] == 1


def test_the_text_of_a_private_benchmark_is_not_shown(home, capsys) -> None:
    raw = home / "gpqa.csv"
    row = {"Question": OWN[:40] + " at last and for good and ever", "Correct Answer": "yes"}
    row |= {f"Incorrect Answer {number}": f"no {number}" for number in (1, 2, 3)}
    row |= {"High-level domain": "Physics", "Record ID": "rec1"}
    raw.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    prepare("gpqa_diamond", home / "data", raw)
    path = home / "t.jsonl"
    path.write_text(json.dumps({"question": f"So: {row['Question']}"}) + "\n")
    code, out, _ = run(capsys, path, "--home", home, "--json")
    (found,) = json.loads(out)["examples"]
    assert (code, found["benchmark"], found["gram"], found["word"]) == (1, "gpqa_diamond", None, 1)


def test_real_rows_are_caught_with_their_sentences_reversed(real_rows, home, capsys) -> None:
    """146 of the rows of GSM8K share too few runs of words with themselves reversed: they have the same words."""
    prepare("gsm8k", home / "data", real_rows / "gsm8k")
    rows = prepared_sets.load_rows(home / "data", registry.load("gsm8k"))
    dice = random.Random(7)
    path = home / "smuggled.jsonl"
    with path.open("w") as file:
        for row in rows:
            sentences = re.split(r"(?<=[.?!])\s+", row["question"])
            dice.shuffle(sentences)
            file.write(json.dumps({"question": "\n".join(sentences)}) + "\n")
    found = json.loads(run(capsys, path, "--home", home, "--json")[1])
    assert found["near_benchmarks"] == len(rows) == 1319
    assert found["benchmarks"]["gsm8k"]["same-words"] > 100


def test_what_is_dropped_of_the_training_rows_of_real_sets(real_rows, home, capsys) -> None:
    """The figures in docs/cleaning.md."""
    prepare("gsm8k", home / "data", real_rows / "gsm8k")
    prepare("math_500", home / "data", real_rows / "math_500")
    path = home / "math.jsonl"
    rows = json.loads((real_rows / "math" / "train_answers_only.json").read_bytes())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(run(capsys, path, "--home", home, "--json")[1])
    assert found["benchmarks"] == {"math_500": {"equal": 0, "same-words": 0, "13-gram": 154, "8-grams": 10}}
    assert (found["stay"], found["duplicates"]["equal"] + found["duplicates"]["near"]) == (7275, 35)
    assert sum(one["dropped"] for one in found["phrases"]) > 50
    found = json.loads(run(capsys, real_rows / "gsm8k" / "train.jsonl", "--home", home, "--json")[1])
    assert found["benchmarks"] == {"gsm8k": {"equal": 0, "same-words": 0, "13-gram": 4, "8-grams": 0}}


def test_the_verb_is_handed_on_with_its_flags(home, train) -> None:
    words = ["decontaminate", str(train), "--to", str(home / "c.jsonl"), "--field", "problem", "n", "--replace"]
    command = [sys.executable, "-P", "-m", "rwkvctl.cli", *words, "--home", str(home)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RWKVCTL_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("train.jsonl:1: 'n' is 1, not text or a list of messages")
    command = [*command[: command.index("--to")], "--require-checked", "--home", str(home)]
    assert subprocess.run(command, capture_output=True, env=environment, timeout=200, check=False).returncode == 5
