"""`--set rows=A:B where=...` through the whole product: exactly these rows are asked, named, marked and planned for."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon.pipeline import measure
from rwkvctl.export import jsonl, lm_eval

LEVELS, SOURCES = 5, ("math", "olympiads", "amc aime")
ROWS = [
    {
        "question": f"What is {number}+0?", "answer": str(number), "id": f"q{number}",
        "difficulty": number % LEVELS, "source": SOURCES[number % 3], "solution": "s" * 300,
    }
    for number in range(60)
]  # fmt: skip
WHERE = "difficulty>=3 source=math"
ASKED = [number for number in range(10, 40) if number % LEVELS >= 3 and number % 3 == 0]
SHORT = {"cot.max_tokens": "4", "final.max_tokens": "4"}


@pytest.fixture(scope="module")
def node(module_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A node with sixty rows of one's own, which are there to be trained on."""
    node = module_node().start()
    file = tmp_path_factory.mktemp("rows") / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert node.cli("data", "own", str(file), "--training").stdout == "own_sums\n"
    return node


DISPATCHED: dict[object, str] = {}


def dispatched(node: Any, *, limit: int | None = None, **settings: str) -> dict[str, Any]:
    """The finished job over the rows that the settings pick; the same ones are dispatched once."""
    key = (id(node), limit, *sorted(settings.items()))
    if key not in DISPATCHED:
        (DISPATCHED[key],) = node.dispatch(only_datasets=["own_sums"], settings=SHORT | settings, limit=limit)
    job = node.wait_for_state(DISPATCHED[key], "done", "failed")
    assert job["state"] == "done", job
    return dict(job)


def asked_of(node: Any, job: dict[str, Any]) -> list[int]:
    """The rows whose questions stand in the prompts of a job, in its order."""
    samples = sorted(node.samples(job["id"]), key=lambda sample: sample["row"])
    return [int(sample["stages"][0]["prompt"].split("What is ")[1].split("+")[0]) for sample in samples]


def test_exactly_the_picked_rows_are_asked(node: Any) -> None:
    job = dispatched(node, rows="10:40", where=WHERE)
    assert asked_of(node, job) == ASKED
    assert job["total"] == len(ASKED)
    assert job["picks"] == f"rows=10:40 where={WHERE}"
    limited = dispatched(node, rows="10:40", where=WHERE, limit=2)
    assert asked_of(node, limited) == ASKED[:2]
    shared = dispatched(node, rows="10:40", where="difficulty>=3", k="0.5")
    inside = [number for number in range(10, 40) if number % LEVELS >= 3]
    assert len(asked_of(node, shared)) == len(inside) // 2
    assert {*asked_of(node, shared)} < {*inside}


def test_a_score_of_picked_rows_never_looks_like_the_whole_set(node: Any) -> None:
    job = dispatched(node, rows="10:40", where=WHERE)
    score = job["score"]
    assert score["partial"]
    assert score["training"]
    assert f"only the rows with rows=10:40 where={WHERE} were asked" in score["warnings"]
    configuration = score["provenance"]["configuration"]
    assert (configuration["rows"], configuration["where"]) == ("10:40", WHERE)
    whole = dispatched(node)
    assert not whole["score"].get("partial")
    assert "rows" not in whole["score"]["provenance"]["configuration"]
    everything = dispatched(node, rows="0:60", where="difficulty>=0")
    assert not everything["score"].get("partial"), "nothing was left out"
    compared = node.api.post("/v1/compare", {"a": job["id"], "b": whole["id"]}).value["items"][0]
    assert compared["verdict"] == "not comparable"
    assert f"where: {WHERE} in A, nothing in B" in compared["differs"]
    forced = node.api.post("/v1/compare", {"a": job["id"], "b": whole["id"], "force": True}).value["items"][0]
    assert forced["why"].startswith("their row numbers may mean other rows, as rows and where differ")
    beside = node.api.get(f"/v1/jobs/{job['id']}/so-far").value
    assert beside.get("other") not in {whole["id"], everything["id"]}, "their numbers mean other rows"
    limited = dispatched(node, limit=40)
    assert node.api.get(f"/v1/jobs/{limited['id']}/so-far").value["rows"] == 40


def test_a_row_has_one_name_in_every_job(node: Any) -> None:
    job, whole = dispatched(node, rows="10:40", where=WHERE), dispatched(node)
    names = {sample["row"]: sample["row_id"] for sample in node.samples(job["id"])}
    assert names == {place: f"q{number}" for place, number in enumerate(ASKED)}
    assert [sample["row_id"] for sample in sorted(node.samples(whole["id"]), key=lambda one: one["row"])] == [
        f"q{number}" for number in range(60)
    ]
    limited = dispatched(node, rows="10:40", where=WHERE, limit=2)
    elsewhere = {one["job"] for one in node.api.get(f"/v1/jobs/{job['id']}/same", row=0).value["items"]}
    assert limited["id"] in elsewhere
    assert whole["id"] not in elsewhere, "row 0 of the whole set is another row"
    shown = node.cli("samples", job["id"], "--limit", "1").stdout
    assert shown.endswith(f"\tq{ASKED[0]}\n")
    lines = [json.loads(line) for line in jsonl.sample_lines(job["score"], node.samples(job["id"]))]
    assert {line["row"]: line["row_id"] for line in lines} == names
    docs = [json.loads(line)["doc"] for line in lm_eval.sample_lines(job["score"], node.samples(job["id"]))]
    assert docs[0] == {"row": 0, "benchmark": "own_sums", "row_id": f"q{ASKED[0]}"}
    plain = [json.loads(line)["doc"] for line in lm_eval.sample_lines(whole["score"], node.samples(whole["id"]))]
    assert plain[0] == {"row": 0, "benchmark": "own_sums"}


def refused(node: Any, **settings: str) -> str:
    error = node.cli("dispatch", "--models", "builtin", "--only-datasets", "own_sums", "--yes", "--set",
                     *(f"{name}={text}" for name, text in settings.items()), check=False)  # fmt: skip
    assert error.returncode == 2, error.stdout
    return str(error.stderr)


def test_what_cannot_be_picked_is_refused_in_a_sentence(node: Any) -> None:
    before = node.api.get("/v1/jobs").value["items"]
    known = "difficulty (number), answer (text), id (text), question (text), source (text)"
    assert f"the rows have no field 'dificulty' that is a number or a short text; there are {known}" in refused(
        node, where="dificulty>=4"
    )
    assert "where=difficulty>9 leaves none of its 60 rows." in refused(node, where="difficulty>9")
    assert "rows=60: leaves none of its 60 rows." in refused(node, rows="60:")
    assert "rows='5:5' holds no row" in refused(node, rows="5:5")
    assert "does not begin with a condition" in refused(node, where="difficulty")
    assert node.api.get("/v1/jobs").value["items"] == before


def test_the_command_that_repeats_a_job_asks_the_same_rows(node: Any) -> None:
    job = dispatched(node, rows="10:40", where=WHERE)
    repeated = node.api.get(f"/v1/jobs/{job['id']}/repro").value
    assert repeated["same"], repeated["differs"]
    assert f"where={WHERE}" in repeated["argv"]
    assert "rows=10:40" in repeated["argv"]
    (again,) = node.dispatch(**{**repeated["selection"], "models": ["builtin"]})
    assert node.wait_for_state(again, "done")["generation_key"] == job["generation_key"]
    assert asked_of(node, node.job(again)) == ASKED


def test_an_unnamed_dispatch_leaves_a_training_set_out(node: Any) -> None:
    def planned(**selection: Any) -> set[str]:
        reply = node.api.post("/v1/plan", {"selection": {"models": ["builtin"], **selection}}).value
        return {row["benchmark"] for row in reply["rows"]}

    assert "own_sums" not in planned()
    assert "own_sums" not in planned(domains=["free_response"])
    assert not planned(only_jobs=["free_response"]) & {"own_sums", "numina_math", "gsm8k_train"}
    assert planned(only_datasets=["own_sums"]) == {"own_sums"}
    items = {item["name"]: item for item in node.api.get("/v1/benchmarks").value["items"]}
    assert items["own_sums"]["training"]
    assert "training" not in items["gsm8k"]
    lines = node.cli("benchmarks", "-o", "tsv").stdout.splitlines()
    assert next(line for line in lines if line.startswith("own_sums\t")).endswith("\ttraining")


def test_standing_settings_pick_rows_too(new_node: Any, tmp_path: Path) -> None:
    folder = tmp_path / "xdg" / "rwkvctl"
    folder.mkdir(parents=True)
    (folder / "benchmarks.toml").write_text('[demo_arith]\nrows = "5:9"\n[defaults]\nwhere = "level=3"\n')
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(folder.parent)
    node.start()
    plan = node.api.post("/v1/plan", {"selection": {"models": ["builtin"], "only_datasets": ["demo_arith"]}}).value
    row = plan["rows"][0]
    assert (row["action"], row["reason"]) == ("skip", "data-missing")
    assert "no field 'level'" in row["detail"], "what is meant for everything need not suit everything"
    (name,) = node.dispatch(settings={"where": 'question!="x y"'})
    assert node.wait_for_state(name, "done")["total"] == 4
    assert {one["row_id"] for one in node.samples(name)} == {f"demo_arith/{number}" for number in range(5, 9)}
    shown = node.cli("benchmarks", "show", "demo_arith", check=False)
    assert "no field 'level'" in shown.stderr


def test_rows_are_picked_without_a_daemon_as_well(tmp_path: Path) -> None:
    score = measure("builtin", "demo_arith", tmp_path / "score.json", settings={"rows": "3:8"}, home=tmp_path / "home")
    assert (score.n, score.partial, score.training) == (5, True, False)
    assert any("only the rows with rows=3:8 were asked" in text for text in score.warnings)
    assert msgspec.json.decode((tmp_path / "score.json").read_bytes())["partial"]


OWN_FILE = """
from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Grade, Grader, Kind, Stage, by_name
from rwkvctl.protocol.engine import Sampling


def grade(row, answer):
    return Grade(1.0 if row["difficulty"] >= 3 else 0.0, "", row["answer"], "right", "")


ASK = Kind(name="free_response", profile="p", profile_version=1, grader=Grader.of("own", "VERSION", grade),
           stages=(Stage(name="answer", mode="generate", prompt=lambda row: f"What is {row['question']}",
                         sampling=Sampling(max_tokens=4)),))
BENCHMARK = Benchmark(
    name="graded", version=1, domain="free_response", title="graded", licence="your own", split="test", rows=0,
    check_row=rows.check_question, local_files=("*.jsonl",), kinds=by_name([ASK]),
    examples=(Example({"question": "q", "answer": "1", "difficulty": 3}, Answer("1"), 1.0),),
)
"""


def test_a_regrade_grades_the_rows_that_were_picked(new_node: Any, tmp_path: Path) -> None:
    folder = tmp_path / "xdg" / "rwkvctl" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "graded.py").write_text(OWN_FILE.replace("VERSION", "1"))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    node.start()
    node.cli("data", "prepare", "graded", "--from", str(tmp_path / "rows.jsonl"))
    (name,) = node.dispatch(only_datasets=["graded"], settings={"rows": "10:40", "where": "difficulty>=2"})
    before = node.wait_for_state(name, "done")
    picked = [number for number in range(10, 40) if number % LEVELS >= 2]
    right = sum(number % LEVELS >= 3 for number in picked)
    assert before["score"]["metrics"]["accuracy"]["value"] == pytest.approx(right / len(picked))
    (folder / "graded.py").write_text(OWN_FILE.replace("VERSION", "2").replace(">= 3 else", ">= 4 else"))
    node.api.post("/v1/reload", {})
    node.api.post("/v1/regrade", {"jobs": [name]})
    node.until(lambda: node.job(name).get("score", {}).get("provenance", {}).get("grader_version") == "2", "graded")
    after = node.job(name)["score"]
    again = sum(number % LEVELS >= 4 for number in picked)
    assert after["metrics"]["accuracy"]["value"] == pytest.approx(again / len(picked))
    assert (after["n"], after["partial"]) == (len(picked), True)
    names = {one["row"]: one["row_id"] for one in node.samples(name)}
    assert names == {place: f"q{number}" for place, number in enumerate(picked)}
