"""What the documents say of use from Python and of one's own benchmarks is run as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rwkv_data.definition import overrides, registry, suites
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare, prepare_own
from rwkv_data.reference.show import show

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a document in a language, as they stand."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def run(code: str, folder: Path) -> str:
    """A script in a folder of its own, with warnings as errors; what it printed."""
    plain = {name: text for name, text in os.environ.items() if not name.startswith("RWKVCTL_")}
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, env=plain, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each example of docs/python.md prints, run one after the other in one folder."""
    folder = tmp_path_factory.mktemp("python")
    return [run(code, folder) for code in blocks("python.md", "python")]


def test_a_checkpoint_is_measured_in_one_call(printed: list[str]) -> None:
    name, value, samples, key = printed[0].split()
    assert (name, float(value) > 0.8, samples, len(key)) == ("accuracy", True, "40", 32)


def test_a_built_in_benchmark_is_asked_graded_and_scored(printed: list[str]) -> None:
    lines = printed[1].splitlines()
    assert [line.split()[-2:] for line in lines[:3]] == [["8", "('\\n',)"]] * 3
    graded = [line.split()[:4] for line in lines[3:9]]
    assert [words[:2] for words in graded] == [[str(row), str(repeat)] for row in range(3) for repeat in range(2)]
    assert [words[2] for words in graded] == ["1.0", "0.0"] * 3
    assert lines[9].startswith("accuracy {'value': 0.5, ")
    assert lines[10].startswith("6 6 3 ")


def test_rows_of_a_real_set_are_prepared_and_both_stages_rendered(printed: list[str]) -> None:
    lines = printed[2].splitlines()
    assert lines[0].startswith("1 of 1319 ")
    assert printed[2].endswith("</think>\nTherefore, the answer is \\(\\boxed{\n1.0 3\n")


def test_prompts_are_shown_and_kinds_told_apart(printed: list[str]) -> None:
    assert int(printed[3].splitlines()[0]) >= len(registry.names())
    assert "Answer: [' A', ' B', ' C', ' D']" in printed[3]
    assert "+++ free_response.rwkv-skills-v2" in printed[3]


@pytest.fixture
def catalogue(tmp_path: Path) -> registry.Catalogue:
    """The catalogue with the file that docs/own-benchmarks.md shows."""
    (code,) = blocks("own-benchmarks.md", "python")
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "capitals.py").write_text(code, encoding="utf-8")
    return registry.Catalogue(folder=folder, data_dir=tmp_path / "data")


def test_the_benchmark_of_the_document_is_prepared_and_grades_its_examples(
    catalogue: registry.Catalogue, tmp_path: Path
) -> None:
    benchmark = catalogue.load("capitals")
    raw = tmp_path / "capitals.jsonl"
    raw.write_text('{"country": "France", "capital": "Paris"}\n', encoding="utf-8")
    assert prepare(benchmark, tmp_path / "data", raw).rows == 1
    (shown,) = show(benchmark, data_dir=tmp_path / "data")
    assert shown["stages"][0]["prompt"] == "User: What is the capital of France?\n\nAssistant: It is"
    for example in benchmark.examples:
        assert benchmark.default_kind.grade(example.row, example.answer).value == example.value


def test_the_settings_of_the_document_are_taken_and_a_slip_is_named_by_line(
    catalogue: registry.Catalogue, tmp_path: Path
) -> None:
    text, suite = blocks("own-benchmarks.md", "toml")
    path = tmp_path / "benchmarks.toml"
    path.write_text(text, encoding="utf-8")
    known = {name: catalogue.load(name) for name in catalogue.names()}
    read = overrides.read(path, known)
    kinds = known["gsm8k"].kinds
    usual = read.settings("gsm8k", kinds["free_response"])
    assert usual == {"attempts": "5000", "shots": "4", "cot.temperature": "0.5"}
    assert read.settings("gsm8k", kinds["free_response.lm-eval"])["shots"] == "8"
    maths = known["math_500"].kinds["free_response"]
    assert read.settings("math_500", maths, "rwkv7-g1d-0.4b")["k"] == "8"
    assert "k" not in read.settings("math_500", maths, "rwkv6-world")
    path.write_text(suite, encoding="utf-8")
    (nightly,) = suites.read(path, known).values()
    assert nightly.settings("gsm8k", kinds["free_response"]) == {"k": "4", "seed": "7"}
    assert nightly.search is not None
    path.write_text(text.replace("temperature = 0.5", "temprature = 0.5"), encoding="utf-8")
    line = 1 + text.split("temperature = 0.5")[0].count("\n")
    with pytest.raises(Exception, match=rf"benchmarks\.toml:{line}: .*'cot\.temprature'"):
        overrides.read(path, known)


def test_each_row_of_the_document_makes_a_set_of_own_rows(tmp_path: Path) -> None:
    rows = re.findall(r'^\{"question".*\}$', (DOCS / "own-benchmarks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 2
    for number, row in enumerate(rows):
        path = tmp_path / f"mine{number}.jsonl"
        path.write_text(row + "\n", encoding="utf-8")
        name = prepare_own(f"mine{number}", path, tmp_path).benchmark
        benchmark = registry.Catalogue(data_dir=tmp_path).load(name)
        assert dict(prepared_sets.load_rows(tmp_path, benchmark)[0]).items() >= json.loads(row).items()
        assert [kind.name for kind in benchmark.kinds.values() if kind.default] in (
            ["free_response"], ["multi_choice_plain", "multi_choice_cot"],
        )  # fmt: skip
    (tmp_path / "mine0.jsonl").write_text(rows[1] + "\n", encoding="utf-8")
    with pytest.raises(PrepareError, match="other rows"):
        prepare_own("mine0", tmp_path / "mine0.jsonl", tmp_path)
