"""Preparation from the hub: the libraries' own client against a hub on loopback. Rows as the real hub holds them."""

import json

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import HubSource
from rwkv_data.prepare import prepared_sets

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
EXAMPLES = {
    "math_500": [{"problem": "P", "solution": "$\\boxed{2}$", "level": "Level 1", "type": "Algebra"}],
    "arc_challenge": ARC,
    "gsm8k": GSM8K,
    "mmlu": MMLU,
}
CONFIGURED = "- config_name: {0}\n  data_files:\n  - split: {1}\n    path: {0}/{1}-*\n"


@pytest.fixture
def publish(hub):
    """Put a benchmark's rows and examples on the hub: parquet below its configuration's folder, or JSON lines."""
    cards = {}

    def parquet(source: HubSource, rows: list[dict[str, object]]) -> None:
        folder = hub.root / "datasets" / source.repo
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        for config in source.configs or (source.config,):
            (folder / config).mkdir(parents=True, exist_ok=True)
            path = folder / config / f"{source.split}-00000.parquet"
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
            known = cards.setdefault(source.repo, {}).setdefault(config, CONFIGURED.format(config, source.split))
            if f"split: {source.split}\n" not in known:
                cards[source.repo][config] += f"  - split: {source.split}\n    path: {config}/{source.split}-*\n"
        (folder / "README.md").write_text("---\nconfigs:\n" + "".join(cards[source.repo].values()) + "---\n")

    def lines(source: HubSource, rows: list[dict[str, object]]) -> None:
        folder = hub.root / "datasets" / source.repo
        folder.mkdir(parents=True)
        (folder / f"{source.split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def everything(name: str, rows: list[dict[str, object]]) -> None:
        benchmark = registry.load(name)
        (lines if name == "math_500" else parquet)(benchmark.source, rows)
        parquet(benchmark.pool, EXAMPLES[name])

    return everything


@pytest.mark.parametrize(
    ("name", "raw", "answers"),
    [
        ("gsm8k", GSM8K, ["3", "1000"]),
        ("math_500", MATH, ["\\frac{1}{2}"]),
        pytest.param("mmlu", MMLU, ["A", "D"], marks=pytest.mark.slow("golds")),
        pytest.param("arc_challenge", ARC, ["B", "B"], marks=pytest.mark.slow("golds")),
    ],
)
def test_rows_of_the_hub_are_those_of_a_file(hub, publish, data_command, tmp_path, name, raw, answers) -> None:
    publish(name, raw)
    benchmark = registry.load(name)
    run = data_command("prepare", name, "--json")
    assert run.returncode == 0, run.stderr
    manifest = prepared_sets.read_manifest(tmp_path / "home" / "data", name)
    assert manifest is not None
    assert manifest.revision == hub.commit(benchmark.source.repo)
    assert manifest.source == f"hf:{benchmark.source.repo}/{benchmark.source.config}/test"
    assert json.loads(run.stdout)["sha256"] == manifest.sha256
    assert len(prepared_sets.load_pool(tmp_path / "home" / "data", benchmark)) == manifest.pool_rows > 0
    rows = prepared_sets.load_rows(tmp_path / "home" / "data", benchmark)
    assert [row["answer"] for row in rows] == answers
    assert rows == [benchmark.convert(row) for row in raw]
    fetched = [seen for seen in hub.seen if seen.startswith("GET") and "/resolve/" in seen and "test" in seen]
    assert all(manifest.revision in seen for seen in fetched), fetched


def test_a_bad_row_of_the_hub_is_named(publish, data_command) -> None:
    publish("gsm8k", [*GSM8K, {"question": "Q", "answer": "three"}])
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert "main/test-00000.parquet row 3: 'answer' has no '####'" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_missing_dataset_is_one_line(data_command, tmp_path) -> None:
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert run.stderr.startswith("rwkv_data: openai/gsm8k is not on the hub")
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_no_hub_at_all_is_one_line(hub, data_command) -> None:
    hub.shutdown()
    hub.socket.close()
    run = data_command("prepare", "gsm8k")
    assert run.returncode == 1
    assert "openai/gsm8k cannot be fetched from the hub (" in run.stderr
    assert "Traceback" not in run.stderr


SOLVED = (
    ("math", "$\\boxed{1}$"),
    ("olympiads", "$\\boxed{2}$"),
    ("amc_aime", "A proof."),
    ("amc_aime", "$\\boxed{4}$"),
)
NUMINA = [
    {"source": source, "problem": "P?", "solution": solution, "messages": [{"content": "P?", "role": "user"}]}
    for source, solution in SOLVED
]


def test_sets_of_the_same_files_are_fetched_once(hub, data_command, tmp_path) -> None:
    folder = hub.root / "datasets" / "AI-MO" / "NuminaMath-CoT" / "data"
    folder.mkdir(parents=True)
    for shard, rows in enumerate((NUMINA[:2], NUMINA[2:])):
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
        pytest.importorskip("pyarrow.parquet").write_table(table, folder / f"train-0000{shard}-of-00002.parquet")
    names = ("numina_amc_aime", "numina_math", "numina_olympiads")
    run = data_command("prepare", *names, "--json")
    assert run.returncode == 0, run.stderr
    manifests = json.loads(run.stdout)
    assert [(one["benchmark"], one["rows"], one["left_out"]) for one in manifests] == [
        ("numina_amc_aime", 1, 1), ("numina_math", 1, 0), ("numina_olympiads", 1, 0),
    ]  # fmt: skip
    fetched = [seen for seen in hub.seen if seen.startswith("GET") and seen.endswith(".parquet")]
    assert len(fetched) == 2, fetched
    assert {one["revision"] for one in manifests} == {hub.commit("AI-MO/NuminaMath-CoT")}


def test_own_rows_are_a_training_set_until_they_are_replaced(data_command, tmp_path) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text(json.dumps({"question": "Q", "answer": "1"}))

    def made(*words: str) -> tuple[bool, str]:
        run = data_command("own", str(own), *words, "--json")
        assert run.returncode == 0, run.stderr
        manifest = json.loads(run.stdout)
        return manifest["training"], manifest["sha256"]

    before = made()
    assert [made("--training"), made(), made("--replace")] == [(True, before[1]), (True, before[1]), before]
    made("--training")
    listed = {one["name"]: one for one in json.loads(data_command("list", "--json").stdout)}
    assert (listed["own_mine"]["training"], listed["numina_math"]["training"], listed["gsm8k"]["training"]) == (
        True, True, False,
    )  # fmt: skip
    lines = data_command("list").stdout.splitlines()
    assert next(line for line in lines if line.startswith("own_mine ")).endswith("training set: own rows: mine.jsonl")
    cells = {line.split("\t")[0]: line.split("\t")[-1] for line in data_command("list", "--tabs").stdout.splitlines()}
    assert (cells["name"], cells["own_mine"], cells["gsm8k"]) == ("use", "training", "")
