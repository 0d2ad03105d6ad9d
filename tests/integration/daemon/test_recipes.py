"""Recipes on a live node: sampling, selection, cleaning, export and verification."""

import json
import shutil
import subprocess
import sys

import pytest
from push_hub import TOKEN, push_hub
from sums_recipes import PROBLEMS, prepare, ran, recipe_file, shown

pytestmark = pytest.mark.slow("recipes")

OTHER = "rwkv7-g1-0.1b-20250101-ctx4096"
COPY = "rwkv7-g1-0.1b-20250202-ctx4096"
CAPITALS = """
from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Kind, Stage, by_name
from rwkv_data.graders import text

def ask(row):
    return f"What is the capital of {row['question']}?"

STAGE = Stage(name="answer", mode="generate", prompt=ask, user=ask)
ASK = Kind(name="free_response", profile="capitals", profile_version=1, stages=(STAGE,), grader=text.GRADER)
FRANCE = {"question": "France", "answer": "Paris"}
BENCHMARK = Benchmark(
    name="capitals", version=1, domain="free_response", title="Capitals", licence="your own", split="test", rows=1,
    generate_rows=lambda: [FRANCE], check_row=rows.check_question, kinds=by_name([ASK]), training=True,
    examples=(Example(FRANCE, Answer(" Paris.", ("stop_token",)), 1.0),),
)
"""
SPIDERS = next(question for question in PROBLEMS if "spiders" in question)
SELECT = """
[[sample]]
models = ["builtin"]
datasets = ["own_sums"]
kinds = ["free_response.chat"]
settings = {k = 2}

[select]
rule = "all-correct"
"""


def said(answer, *, before="Let me see."):
    return f" {before} The answer is \\boxed{{{answer}}}."


@pytest.fixture(scope="module")
def node(module_node, tmp_path_factory):
    """A node with a training set of four problems, of which the model gets one wrong."""
    found = module_node().start()
    with_sums(found, tmp_path_factory.mktemp("rows"))
    return found


def with_sums(node, folder):
    """Prepare the problems, and have them answered."""
    prepare(node, folder, "sums", PROBLEMS)
    steer(node)


def state(node, recipe):
    return shown(node, recipe)["state"]


def steer(node, before="Let me see."):
    """Have every problem answered rightly, but the spiders."""
    answers = PROBLEMS | {SPIDERS: "6"}
    node.engines_do(texts={question[:40]: said(answer, before=before) for question, answer in answers.items()})


def exported(node, recipe, path, form="messages"):
    path.parent.mkdir(exist_ok=True)
    node.cli("recipe", "export", recipe["recipe"], "--format", form, "--to", str(path))
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_right_samples_become_rows_with_their_lineage(node, tmp_path):
    checked = node.cli("recipe", "check", recipe_file(tmp_path, SELECT))
    assert "own_sums" in checked.stdout
    recipe = ran(node, tmp_path, SELECT)
    assert (recipe["state"], recipe["rows"]) == ("done", 6)
    assert [(stage["name"], stage["rows_in"], stage["rows_out"]) for stage in recipe["funnel"]] == [
        ("sample", 8, 8), ("right", 8, 6), ("select all-correct", 6, 6), ("clean", 6, 6), ("rows", 6, 6),
    ]  # fmt: skip
    assert recipe["funnel"][1]["dropped"] == {"wrong": 2}
    rows = exported(node, recipe, tmp_path / "train.jsonl")
    assert [row["messages"][1]["content"] for row in rows[::2]] == [said(a).strip() for a in ("5", "9", "14")]
    assert rows[0]["messages"][0]["content"].startswith("How many apples")
    assert node.cli("recipe", "verify", str(tmp_path / "train.jsonl"))


def test_pairs_are_of_all_models_that_were_asked_alike(node, tmp_path):
    steer(node, before="Let me think about this for a very long while, and then once more. " * 3)
    node.add_model(OTHER)
    pairs = SELECT.replace('"builtin"', f'"builtin", "{OTHER}"').partition("[select]")[0]
    pairs += '[pairs]\nrules = ["short-long", "silc"]\nmin_gap = 10\n'
    ran(node, tmp_path, SELECT.replace("builtin", OTHER))  # its completions are long
    steer(node)
    recipe = ran(node, tmp_path, pairs)
    names = [(stage["name"], stage["rows_in"], stage["rows_out"]) for stage in recipe["funnel"]]
    assert names[1:4] == [("verdicts", 16, 16), ("pairs short-long min_gap=10", 4, 3), ("pairs silc", 4, 0)]
    assert recipe["funnel"][3]["dropped"] == {"no sample is incorrect": 3, "no sample is correct": 1}
    rows = exported(node, recipe, tmp_path / "pairs.jsonl", "trl-preference")
    assert len(rows) == 3
    for row in rows:
        assert len(row["chosen"][0]["content"]) < len(row["rejected"][0]["content"])
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl.lineage.jsonl").read_text().splitlines()]
    assert [[sample["use"] for sample in line["samples"]] for line in lines] == [["chosen", "rejected"]] * 3
    assert len({sample["weights_sha256"] for sample in lines[0]["samples"]}) == 2
    to = ("--to", str(tmp_path / "x.jsonl"))
    wrong = node.cli("recipe", "export", recipe["recipe"], "--format", "rwkv", *to, check=False)
    assert wrong.returncode != 0
    assert "has no place for" in wrong.stderr
    assert not (tmp_path / "x.jsonl").exists()


def test_a_problem_of_a_benchmark_is_caught_however_it_is_spelled(node, tmp_path):
    apples, train, shells, _ = PROBLEMS
    held = (apples.upper().replace(" ", "\n "), f"In short: {train} Say it.", "Something else entirely here?")
    lines = (json.dumps({"question": text, "answer": "1"}) + "\n" for text in held)
    (tmp_path / "held.jsonl").write_text("".join(lines))
    node.cli("data", "own", str(tmp_path / "held.jsonl"), "--name", "held")
    try:
        recipe = ran(node, tmp_path, SELECT)
        assert recipe["rows"] == 2
        assert recipe["funnel"][3]["dropped"] == {"near own_held": 4}
        rows = exported(node, recipe, tmp_path / "clean.jsonl")
        assert {row["messages"][0]["content"].split("\n")[0] for row in rows} == {shells}
        lines = node.cli("recipe", "show", recipe["recipe"], "--dropped").stdout.splitlines()
        assert [line.split("\t")[:3] for line in lines[1:]] == [
            ["own_sums/0", "own_held", "own_held/0"], ["own_sums/1", "own_held", "own_held/1"],
        ]  # fmt: skip
        card = (tmp_path / "clean.jsonl.card.md").read_text()
        assert "| own\\_held | all of its rows |" in card
        assert "| gsm8k | not compared: not prepared |" in card
    finally:
        shutil.rmtree(node.home / "data" / "own_held")


def test_the_same_recipe_gives_the_same_bytes_and_samples_nothing_again(node, tmp_path):
    first, second = ran(node, tmp_path, SELECT), ran(node, tmp_path, SELECT)
    assert [source["job"] for source in first["sources"]] == [source["job"] for source in second["sources"]]
    for number, recipe in enumerate((first, second)):
        exported(node, recipe, tmp_path / f"{number}" / "train.jsonl")
    for name in ("train.jsonl", "train.jsonl.lineage.jsonl", "train.jsonl.card.md"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()


def test_the_command_line_pushes_an_export_and_the_daemon_knows_nothing_of_it(node, tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: not installed")
    recipe = ran(node, tmp_path, SELECT)
    words = ["recipe", "export", recipe["recipe"], "--format", "parquet", "--to", str(tmp_path / "sky")]
    with push_hub() as hub:
        given = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": TOKEN,
                 "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}  # fmt: skip
        runs = []
        for more in (["--push-to-hub", "a b/c"], ["--push-to-hub", "lab/sky"], ["--push-to-hub", "lab/sky", "--json"]):
            command = [sys.executable, "-m", "rwkvctl.cli", *words, *more]
            runs.append(
                subprocess.run(command, env=node.environment | given, capture_output=True, text=True, check=False)
            )
        wrong, first, again = runs
        files = hub.repos["lab/sky"].files
    assert (wrong.returncode, wrong.stderr.count("\n"), "no name of a repository" in wrong.stderr) == (2, 1, True)
    assert first.returncode == 0, first.stderr
    assert f"pushed to {hub.url}/datasets/lab/sky (private), commit " in first.stdout
    assert files["lineage.jsonl"].count(b"\n") == recipe["rows"]
    assert json.loads(again.stdout)["pushed"]["changed"] is False
    assert not [one for one in runs if TOKEN in one.stdout + one.stderr]
    written = [path for path in node.home.rglob("*") if path.is_file()]
    assert not [path for path in written if TOKEN.encode() in path.read_bytes()]


def test_a_row_is_shown_with_what_it_comes_from(node, tmp_path):
    recipe = ran(node, tmp_path, SELECT)
    shown = node.cli("recipe", "show", recipe["recipe"], "--row", "0").stdout
    assert "How many apples" in shown
    assert f'"job": {recipe["sources"][0]["job"][1:]}' in shown
    beyond = node.cli("recipe", "show", recipe["recipe"], "--row", "6", check=False)
    assert (beyond.returncode, "no row 6" in beyond.stderr) == (4, True)


def test_what_was_changed_is_found(node, tmp_path):
    recipe = ran(node, tmp_path, SELECT)
    path = tmp_path / "train.jsonl"
    exported(node, recipe, path)
    path.write_text(path.read_text().replace("boxed{5}", "boxed{6}", 1))
    found = node.cli("recipe", "verify", str(path), check=False)
    assert found.returncode == 1
    assert "its sha256 is another" in found.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[select", "no TOML"),
        ('[select]\nrule = "all-correct"', "names no samples"),
        (SELECT + '[pairs]\nrules = ["silc"]', "both [select] and [pairs]"),
        (SELECT.replace("free_response.chat", "free_response"), "not one turn of a conversation"),
        (SELECT.replace("own_sums", "own_nothing"), "unknown own_nothing"),
        (SELECT.replace("builtin", "qwq"), "qwq"),
        (SELECT.replace("models", "modles"), "modles"),
        ('jobs = ["j9999"]\n[select]\nrule = "all-correct"', "no job j9999"),
    ],
)
def test_a_recipe_that_cannot_be_run_ends_in_a_sentence(node, tmp_path, text, says):
    before = node.api.get("/v1/recipes").value["items"]
    found = node.cli("recipe", "run", recipe_file(tmp_path, text), check=False)
    assert found.returncode != 0
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert node.api.get("/v1/recipes").value["items"] == before


@pytest.mark.parametrize(
    "point",
    [
        "rows-after-renaming",
        *(
            pytest.param(point, marks=pytest.mark.slow("kills"))
            for point in ("after-start", "before-done", "rows-before-renaming")
        ),
    ],
)
def test_whatever_is_killed_the_rows_are_the_same(new_node, tmp_path, point):
    node = new_node().start(RWKVCTL_CRASH_AT=f"recipe-{point}")
    with_sums(node, tmp_path)
    node.cli("recipe", "run", recipe_file(tmp_path, SELECT))
    if point.startswith("rows-"):  # its process is killed, and the recipe says so
        node.until(lambda: state(node, "r1") == "failed", "the process of the recipe is gone")
        assert "was killed (signal 9" in node.cli("recipe", "show", "r1", "--json").stdout
    else:
        node.until(lambda: node.daemon.poll() is not None, "the daemon is gone")
    node.kill()
    node.start()
    if point.startswith("rows-"):
        node.cli("recipe", "resume", "r1")
    node.until(lambda: state(node, "r1") == "done", "the rows are made")
    exported(node, {"recipe": "r1"}, tmp_path / "1" / "train.jsonl")
    node.cli("recipe", "run", recipe_file(tmp_path, SELECT), "--wait")
    exported(node, {"recipe": "r2"}, tmp_path / "2" / "train.jsonl")
    assert (tmp_path / "1" / "train.jsonl").read_bytes() == (tmp_path / "2" / "train.jsonl").read_bytes()
    assert [path.name for path in (node.home / "recipes" / "r1").iterdir()] == ["made"]


def test_a_recipe_waits_for_its_jobs_and_keeps_the_grade_that_they_had(node, tmp_path):
    node.engines_do(answers=0)
    text = SELECT.replace("k = 2}", "k = 1, seed = 4711}")
    node.cli("recipe", "run", recipe_file(tmp_path, text))
    (recipe,) = node.api.get("/v1/recipes", limit=1).value["items"]
    name, job = recipe["recipe"], recipe["jobs"][0]
    assert f"{name} sky.toml: waiting, 0 of 4 samples" in node.cli("recipe", "show", name, "-o", "table").stdout
    refused = node.cli("recipe", "export", name, "--format", "rwkv", "--to", str(tmp_path / "x.jsonl"), check=False)
    assert (refused.returncode, "There are no rows" in refused.stderr) == (5, True)
    node.cli("stop", job)
    node.until(lambda: f"{job} is stopped" in node.cli("recipe", "list").stdout, "it says that its job does not go on")
    node.cli("recipe", "stop", name)
    assert node.cli("recipe", "resume", name).returncode == 0
    steer(node)
    node.cli("resume", job)
    node.until(lambda: state(node, name) == "done", "its rows are made")
    assert node.cli("recipe", "resume", name, check=False).returncode == 5
    node.cli("delete", job, "--yes")
    assert len(exported(node, {"recipe": name}, tmp_path / "train.jsonl")) == 3
    assert node.cli("recipe", "verify", str(tmp_path / "train.jsonl"))
    node.cli("recipe", "delete", name)
    assert node.cli("recipe", "show", name, check=False).returncode == 4
    assert not (node.home / "recipes" / name).exists()


def test_samples_in_a_database_server_become_the_same_rows(new_node, postgres_server, node, tmp_path):
    other = new_node(store=postgres_server.database()).start()
    with_sums(other, tmp_path)
    files = [
        exported(one, ran(one, tmp_path, SELECT), tmp_path / str(at) / "t.jsonl")
        for at, one in enumerate((node, other))
    ]
    assert files[0] == files[1]
    assert other.cli("recipe", "verify", str(tmp_path / "1" / "t.jsonl"))


def test_a_file_agrees_with_a_store_that_was_rebuilt_from_its_runs(new_node, tmp_path):
    node = new_node().start()
    with_sums(node, tmp_path)
    (pruned,) = node.dispatch(limit=3)
    node.wait_for_state(pruned, "done")
    recipe = ran(node, tmp_path, SELECT)
    exported(node, recipe, tmp_path / "train.jsonl")
    node.cli("delete", pruned, "--yes")
    node.api.post("/v1/prune", {"jobs": [pruned]})
    (job,) = recipe["jobs"]
    before = [one["number"] for one in node.samples(job)]
    node.terminate()
    (node.home / "store.sqlite").unlink()
    node.cli("rebuild")
    node.start()
    assert [one["number"] for one in node.samples(job)] != before
    assert "6 samples compared" in node.cli("recipe", "verify", str(tmp_path / "train.jsonl")).stderr


def test_a_copy_of_a_checkpoint_and_tables_that_overlap_give_each_sample_once(new_node, tmp_path):
    node = new_node().start()
    with_sums(node, tmp_path)
    shutil.copy(node.add_model(OTHER), node.home / "weights" / f"{COPY}.pth")
    both = SELECT.replace('"builtin"', f'"{OTHER}", "{COPY}"').partition("[select]")
    node.cli("recipe", "run", recipe_file(tmp_path, "".join(both)))  # it may not be known yet that they are one
    node.until(lambda: state(node, "r1") == "done", "its rows are made")
    again = both[0] + both[0] + both[1] + both[2]
    hashed = ran(node, tmp_path, again.replace("k = 2}", "k = 2, seed = 7}"))
    for recipe in (node.api.get("/v1/recipes/r1").value["recipe"], hashed):
        assert len(recipe["sources"]) == 1, recipe
        assert [(stage["rows_in"], stage["rows_out"]) for stage in recipe["funnel"][:2]] == [(8, 8), (8, 6)]
        assert recipe["rows"] == 6
    jobs = node.api.get("/v1/jobs").value["items"]
    assert sum(job.get("done", 0) for job in jobs) == 16, "nothing was sampled twice"


def test_a_recipe_without_a_row_says_so(node, tmp_path):
    text = SELECT.partition("[select]")[0].replace("k = 2}", "k = 1}") + '[pairs]\nrules = ["silc"]\n'
    recipe = ran(node, tmp_path, text)
    shown = node.cli("recipe", "show", recipe["recipe"], "-o", "table").stdout
    assert f"{recipe['recipe']} sky.toml: done, 0 rows" in shown
    found = node.cli("recipe", "export", recipe["recipe"], "--format", "rwkv", "--to", "x.jsonl", check=False)
    assert (found.returncode, "There are no rows" in found.stderr) == (5, True)


def test_samples_of_an_earlier_form_of_a_kind_are_refused(new_node, tmp_path):
    node = new_node()
    node.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    own = tmp_path / "config" / "rwkvctl" / "benchmarks" / "capitals.py"
    own.parent.mkdir(parents=True)
    own.write_text(CAPITALS)
    node.start()
    node.engines_do(texts={"capital": " Paris."})
    (job,) = node.dispatch(only_datasets=["capitals"])
    assert node.wait_for_state(job, "done", "failed")["state"] == "done"
    text = f'jobs = ["{job}"]\n[select]\nrule = "all-correct"\n'
    assert ran(node, tmp_path, text)["rows"] == 1
    own.write_text(CAPITALS.replace("What is the capital", "Which town is the capital"))
    node.cli("reload")
    node.cli("recipe", "run", recipe_file(tmp_path, text))
    node.until(lambda: state(node, "r2") == "failed", "it is refused")
    assert "in the form of an earlier version" in node.cli("recipe", "show", "r2", "--json").stdout
