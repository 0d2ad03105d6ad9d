"""Labels of rows on a live node: made of files and of graded samples. A job keeps those it was dispatched with."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sums_recipes import PROBLEMS, prepare

pytestmark = pytest.mark.slow("recipes")

SPIDERS = next(question for question in PROBLEMS if "spiders" in question)
BY_PASS_RATE = "difficulty-by-pass-rate"


@pytest.fixture
def node(new_node: Any, tmp_path: Path) -> Any:
    """A node with a training set of four problems, of which the model gets one wrong."""
    found = new_node().start()
    prepare(found, tmp_path, "sums", PROBLEMS)
    right = PROBLEMS | {SPIDERS: "6"}
    found.engines_do(texts={question[:30]: f" The answer is \\boxed{{{a}}}." for question, a in right.items()})
    return found


def sampled(node: Any, **settings: str) -> dict[str, Any]:
    """The finished job of a dispatch over the problems."""
    (name,) = node.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"], settings={"k": "2"} | settings
    )
    return dict(node.wait_for_state(name, "done"))


def labelled(node: Any, *words: str) -> dict[str, Any]:
    """What was labelled, as --json says it."""
    found: dict[str, Any] = json.loads(node.cli("data", "label", "own_sums", *words, "--json").stdout)
    return found


def table(path: Path, values: list[object], column: str = "difficulty") -> str:
    """A file with a value for each problem."""
    rows = [{"problem": f" {q} ", column: value} for q, value in zip(PROBLEMS, values, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def asked_of(node: Any, job: dict[str, Any]) -> set[str]:
    """What the rows are called that a job asked."""
    return {sample["row_id"] for sample in node.samples(job["id"])}


def test_labels_of_a_file_pick_rows_and_a_job_keeps_those_it_was_dispatched_with(node: Any, tmp_path: Path) -> None:
    first = labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 4.5, -1, 9]))
    assert (first["labelled"], first["rows"], first["lowest"], first["highest"]) == (3, 4, 2, 9)
    assert first["unlabelled"] == {"without a value": 1}
    job = sampled(node, where="difficulty>=4")
    assert asked_of(node, job) == {"own_sums/1", "own_sums/3"}
    assert job["picks"] == f"where={first['name']}>=4"
    assert job["score"]["provenance"]["configuration"]["where"] == f"{first['name']}>=4"
    assert f"{first['name']} (number), 3 of 4 rows" in node.cli("benchmarks", "show", "own_sums").stdout

    second = labelled(node, "--from", table(tmp_path / "b.jsonl", [9, 1, 1, 1], "level"), "--column", "level")
    assert second["name"] != first["name"]
    other = sampled(node, where="difficulty>=4")
    assert asked_of(node, other) == {"own_sums/0"}
    assert other["generation_key"] != job["generation_key"]
    assert {sample["row_id"] for sample in node.samples(job["id"])} == {"own_sums/1", "own_sums/3"}

    plan = {"models": ["builtin"], "only_datasets": ["own_sums"], "only_jobs": ["free_response.chat"]}
    pinned = {"settings": {"k": "2", "where": f"{first['name']}>=4"}}
    (row,) = node.api.post("/v1/plan", {"selection": plan | pinned}).value["rows"]
    assert (row["action"], row["job"]) == ("skip", job["id"])

    again = labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 4.5, -1, 9]))
    assert again["name"] == first["name"]
    (row,) = node.api.post("/v1/plan", {"selection": plan | {"settings": {"k": "2", "where": "difficulty>=4"}}}).value[
        "rows"
    ]
    assert (row["action"], row["job"]) == ("skip", job["id"]), "they are the newest again"


def test_the_pass_rate_of_a_job_is_a_difficulty(node: Any) -> None:
    job = sampled(node)
    said = node.cli("data", "label", "own_sums", "--jobs", job["id"]).stdout
    assert ": 4 of 4 rows of own_sums have a label, from 1 to 10\n" in said
    made = labelled(node, "--jobs", job["id"])
    assert (made["rule"], made["field"], made["labelled"]) == (f"{BY_PASS_RATE}/1", BY_PASS_RATE, 4)
    hard = sampled(node, where=f"{BY_PASS_RATE}>5")
    assert asked_of(node, hard) == {"own_sums/3"}
    part = labelled(node, "--jobs", hard["id"], "--field", "hard")
    assert (part["labelled"], part["unlabelled"]) == (1, {"not asked": 3})
    both = labelled(node, "--jobs", job["id"], hard["id"], "--field", "hard")
    assert both["labelled"] == 4


def test_what_gives_no_labels_is_said_in_a_sentence(node: Any, tmp_path: Path) -> None:
    job = sampled(node)
    (elsewhere,) = node.dispatch(settings={"rows": "0:2"})
    node.wait_for_state(elsewhere, "done")

    def refused(*words: str, code: int) -> str:
        error = node.cli("data", "label", *words, check=False)
        assert error.returncode == code, error.stderr
        return str(error.stderr)

    asked = refused("own_sums", "--jobs", elsewhere, code=5)
    assert f"{elsewhere} asked demo_arith, not own_sums." in asked
    assert "There is no benchmark own_sum;" in refused("own_sum", "--jobs", job["id"], code=4)
    assert "j999" in refused("own_sums", "--jobs", "j999", code=4)
    own = refused("own_sums", "--jobs", job["id"], "--field", "answer", code=2)
    assert "the rows have a field 'answer' of their own; give the labels another name with --field" in own
    assert "'D!' is no name for labels" in refused("own_sums", "--jobs", job["id"], "--field", "D!", code=2)
    assert "name a file (--from), finished jobs (--jobs), or a rule (--rule)" in refused("own_sums", code=2)
    missing = refused("own_sums", "--from", str(tmp_path / "none.jsonl"), code=1)
    assert "none.jsonl cannot be read: there is none" in missing
    (tmp_path / "other.jsonl").write_text('{"problem": "What is this?", "difficulty": 3}\n')
    assert "other.jsonl is a row of own_sums: they were compared by 'problem'" in refused(
        "own_sums", "--from", str(tmp_path / "other.jsonl"), code=2
    )


def test_labels_that_are_gone_hold_a_job_until_they_are_back(node: Any, tmp_path: Path) -> None:
    made = labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 4.5, 6, 9]))
    folder = node.home / "data" / "own_sums" / "labels"
    (file,) = folder.iterdir()
    node.cli("drain")
    (name,) = node.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"],
        settings={"where": "difficulty>=4"},
    )  # fmt: skip
    kept = shutil.move(file, tmp_path / file.name)
    node.cli("drain", "--off")
    job = node.wait_for_state(name, "held")
    assert job["reason"] == "data-missing"
    assert f"there are no labels '{made['name']}' for these rows" in job["detail"]
    shutil.move(kept, file)
    assert asked_of(node, node.wait_for_state(name, "done")) == {"own_sums/1", "own_sums/2", "own_sums/3"}


def test_damaged_labels_pick_nothing(node: Any, tmp_path: Path) -> None:
    labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 4.5, 6, 9]))
    (file,) = (node.home / "data" / "own_sums" / "labels").iterdir()
    file.write_bytes(file.read_bytes().replace(b"[1,2,3,4]", b"[1,1,1,4]"))
    refused = node.cli(
        "dispatch", "--models", "builtin", "--only-datasets", "own_sums", "--set", "where=difficulty>=4", "--yes",
        check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert "is damaged (other sha256 than when it was written)" in refused.stderr


def test_a_job_that_waits_for_rows_and_labels_takes_those_that_come(node: Any, tmp_path: Path) -> None:
    (name,) = node.dispatch(
        models=["builtin"], only_datasets=["gsm8k_train"], only_jobs=["free_response.chat"], hold_missing=True,
        settings={"where": "difficulty>=4", "max_tokens": "4"},
    )  # fmt: skip
    assert node.wait_for_state(name, "held")["reason"] == "data-missing"
    rows = tmp_path / "train.jsonl"
    problems = [{"question": question, "answer": f"So #### {answer}"} for question, answer in PROBLEMS.items()]
    rows.write_text("".join(json.dumps(row) + "\n" for row in problems))
    node.cli("data", "prepare", "gsm8k_train", "--from", str(rows))
    node.until(lambda: "no field 'difficulty'" in node.job(name)["detail"], "its rows are looked at")
    made = node.cli("data", "label", "gsm8k_train", "--from", table(tmp_path / "a.jsonl", [2, 4.5, -1, 9]), "--json")
    label = json.loads(made.stdout)["name"]
    job = node.wait_for_state(name, "done")
    assert (job["picks"], job["total"]) == (f"where={label}>=4", 2)
    newer = node.cli("data", "label", "gsm8k_train", "--from", table(tmp_path / "b.jsonl", [9, 9, 9, 9]), "--json")
    assert json.loads(newer.stdout)["name"] != label
    assert {one["row_id"] for one in node.samples(name)} == {"gsm8k_train/1", "gsm8k_train/3"}


def test_the_card_of_a_recipe_says_by_which_labels_its_problems_were_picked(node: Any, tmp_path: Path) -> None:
    made = labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 4.5, 6, 9]))
    recipe = tmp_path / "hard.toml"
    recipe.write_text("""
        [sample]
        models = ["builtin"]
        datasets = ["own_sums"]
        kinds = ["free_response.chat"]
        settings = {where = "difficulty>=4"}
        [select]
        rule = "all-correct"
        """)
    ran = json.loads(node.cli("recipe", "run", str(recipe), "--wait", "--json").stdout)["recipe"]
    assert (ran["state"], ran["rows"]) == ("done", 2)  # of three problems the model gets one wrong
    (sampling,) = node.api.get(f"/v1/recipes/{ran['recipe']}").value["recipe"]["card"]["sampling"].values()
    assert sampling["where"] == f"{made['name']}>=4"
    assert sampling[f"labels {made['name']}"] == "imported/1 from a.jsonl"


def test_what_a_job_asked_is_never_taken_for_other_rows_once_its_labels_are_gone(node: Any, tmp_path: Path) -> None:
    labelled(node, "--from", table(tmp_path / "a.jsonl", [2, 2, 9, 9]))
    (file,) = (node.home / "data" / "own_sums" / "labels").iterdir()
    (name,) = node.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"],
        settings={"where": "difficulty>=4"}, limit=1,
    )  # fmt: skip
    node.wait_for_state(name, "done")
    recipe = tmp_path / "one.toml"
    recipe.write_text(f'jobs = ["{name}"]\n[select]\nrule = "all-correct"\n')
    kept = shutil.move(file, tmp_path / file.name)
    assert [sample.get("row_id", "") for sample in node.samples(name)] == [""]  # not own_sums/0, the first of all rows
    refused = node.cli("data", "label", "own_sums", "--jobs", name, check=False)
    assert refused.returncode == 1
    assert f"which rows of own_sums {name} asked cannot be told any more" in refused.stderr
    ran = json.loads(node.cli("recipe", "run", str(recipe), "--wait", "--json", check=False).stdout)["recipe"]
    assert ran["state"] == "failed"
    assert f"which rows of own_sums {name} asked cannot be told any more" in ran["detail"]
    shutil.move(kept, file)
    made = labelled(node, "--jobs", name)
    assert (made["labelled"], made["unlabelled"]) == (1, {"not asked": 3})
