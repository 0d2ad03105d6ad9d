"""Preparation from the hub: the libraries' own client against a hub on loopback. Rows as the real hub holds them."""

import json

import pytest

from rwkv_data import registry, sets

MMLU = [
    {"question": "Q1", "subject": "anatomy", "choices": ["None", "N/A", "c", "d"], "answer": 0},
    {"question": "Q2", "subject": "virology", "choices": ["a", "b", "c", "d"], "answer": 3},
]
ARC = [
    {"id": "i1", "question": "Q1", "choices": {"text": ["u", "v", "w"], "label": ["A", "B", "C"]}, "answerKey": "B"},
    {"id": "i2", "question": "Q2", "choices": {"text": ["u", "v"], "label": ["1", "2"]}, "answerKey": "2"},
]
MATH = [
    {
        "problem": "P",
        "solution": "S",
        "answer": "\\frac{1}{2}",
        "subject": "Algebra",
        "level": 2,
        "unique_id": "test/algebra/1.json",
    }
]
GSM8K = [{"question": "Q", "answer": "1 + 2 = 3\n#### 3"}, {"question": "Q", "answer": "#### 1,000"}]
CONFIGURED = "---\nconfigs:\n- config_name: {0}\n  data_files:\n  - split: test\n    path: {0}/test-*\n---\n"


@pytest.fixture
def publish(hub):
    """Put a dataset on the hub, as parquet below its configuration's folder or as one file of JSON lines."""

    def parquet(name: str, rows: list[dict[str, object]]) -> None:
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        source = registry.load(name).source
        folder = hub.root / "datasets" / source.repo
        (folder / source.config).mkdir(parents=True)
        (folder / "README.md").write_text(CONFIGURED.format(source.config))
        pytest.importorskip("pyarrow.parquet").write_table(table, folder / source.config / "test-00000.parquet")

    def lines(name: str, rows: list[dict[str, object]]) -> None:
        folder = hub.root / "datasets" / registry.load(name).source.repo
        folder.mkdir(parents=True)
        (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return lambda name, rows: (lines if name == "math_500" else parquet)(name, rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "raw", "answers"),
    [
        ("gsm8k", GSM8K, ["3", "1000"]),
        ("math_500", MATH, ["\\frac{1}{2}"]),
        ("mmlu", MMLU, ["A", "D"]),
        ("arc_challenge", ARC, ["B", "B"]),
    ],
)
def test_rows_of_the_hub_are_those_of_a_file(hub, publish, data_command, tmp_path, name, raw, answers) -> None:
    publish(name, raw)
    benchmark = registry.load(name)
    run = data_command("prepare", name, "--json")
    assert run.returncode == 0, run.stderr
    manifest = sets.read_manifest(tmp_path / "home" / "data", name)
    assert manifest is not None
    assert manifest.revision == hub.commit(benchmark.source.repo)
    assert manifest.source == f"hf:{benchmark.source.repo}/{benchmark.source.config}/test"
    assert json.loads(run.stdout)["sha256"] == manifest.sha256
    rows = sets.load_rows(tmp_path / "home" / "data", benchmark)
    assert [row["answer"] for row in rows] == answers
    assert rows == [benchmark.convert(row) for row in raw]
    fetched = [seen for seen in hub.seen if seen.startswith("GET") and "/resolve/" in seen and "test" in seen]
    assert all(manifest.revision in seen for seen in fetched), fetched


@pytest.mark.slow
def test_a_bad_row_of_the_hub_is_named(publish, data_command) -> None:
    publish("gsm8k", [*GSM8K, {"question": "Q", "answer": "three"}])
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert "main/test row 3: 'answer' has no '####'" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_missing_dataset_is_one_line(data_command, tmp_path) -> None:
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert run.stderr.startswith("rwkv_data: openai/gsm8k cannot be fetched from the hub (RepositoryNotFoundError")
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_no_hub_at_all_is_one_line(hub, data_command) -> None:
    hub.shutdown()
    hub.socket.close()
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert "openai/gsm8k cannot be fetched from the hub (" in run.stderr
    assert "Traceback" not in run.stderr
