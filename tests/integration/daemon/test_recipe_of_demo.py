"""A whole recipe on sums like those of demo_arith: the built-in checkpoint in the real engine is the teacher, a
scripted writer rewrites what is right, and a sum that demo_arith measures never becomes a training row."""

import hashlib
import json
from collections import Counter
from itertools import pairwise

import fake_judge
import pytest
from sums_recipes import ATTEMPT, configure_writer, ran

from rwkv_data.prepare.demo_rows import arith_rows
from rwkv_data.writers.thought_form import normal_form
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path

pytestmark = pytest.mark.slow("recipes")

UNSEEN = {"69+52=": "121", "51+43=": "94", "36+54=": "90", "72+45=": "117", "29+66=": "95"}
"""Neither rows of demo_arith nor trained on. Both numbers of a sum have two digits: blanks and signs do not count where
a problem is compared with a benchmark, so `3+86=` would be equal to the row `38+6=`."""
MEASURED, MISPRINTED = {"26+71=": "97"}, {"30+27=": "75"}
"""A row of demo_arith, word for word, and a sum whose answer is wrong in the set, as happens in real ones."""
SUMS = UNSEEN | MEASURED | MISPRINTED
RIGHT = UNSEEN | MEASURED
K = 2
ARITH_TRAIN = f"""
import dataclasses

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as DEMO
from rwkv_data.graders.maths import number

BARE = DEMO.kinds["free_response"]
BOXED = dataclasses.replace(BARE, name="free_response.boxed", profile="boxed", grader=number.TEXT, default=False)
ROWS = [dict(question=question, answer=answer) for question, answer in {SUMS!r}.items()]
BENCHMARK = dataclasses.replace(
    DEMO, name="arith_train", title="Sums to train on", split="train", rows=len(ROWS), generate_rows=lambda: ROWS,
    kinds=by_name([BARE, BOXED]), training=True,
)
"""
"""A benchmark of one's own: prompts, sampling and grader of demo_arith. Its second kind asks the same and is graded by
the last box or the last number of the whole answer."""
SAMPLE = f"""
[[sample]]
models = ["builtin"]
datasets = ["arith_train"]
kinds = ["KIND"]
settings = {{k = {K}}}
"""
REWRITE = '[rewrite]\nrule = "thought-solution"\n'
SELECT = '[select]\nrule = "first-correct"\n'
BOXED, BARE = (SAMPLE.replace("KIND", kind) for kind in ("free_response.boxed", "free_response"))


def rewrites(asked):
    """What an obedient writer replies: the teacher's words are the thought, its sum is boxed; a trial gets words."""
    found = ATTEMPT.search(asked.prompt)
    if found is None:
        return fake_judge.Do("seven, eight")
    return fake_judge.Do(written(found[1].strip()))


def written(answer):
    return normal_form(answer, f"The sum is \\boxed{{{answer}}}.")


def questions(server):
    """What the writer was asked to rewrite, and how often each."""
    return Counter(found[1].strip() for asked in server.asked if (found := ATTEMPT.search(asked.prompt)))


@pytest.fixture
def server():
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=rewrites)) as fake:
        yield fake


@pytest.fixture
def node(new_node, server, tmp_path):
    """A node with a writer and the benchmark of sums to train on. Nothing steers its engine: it is the real one."""
    found = new_node()
    found.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    configure_writer(found, server, prompt_price=2.0, completion_price=6.0)
    own = tmp_path / "config" / "rwkvctl" / "benchmarks" / "arith_train.py"
    own.parent.mkdir()
    own.write_text(ARITH_TRAIN)
    return found.start()


def funnel(recipe):
    """The stages of a recipe as (name, in, out, why some were dropped): what goes into one came out of the one before,
    and what did not come out of it was dropped for a reason."""
    stages = recipe["funnel"]
    for before, stage in pairwise(stages):
        assert stage["rows_in"] == before["rows_out"], stages
    for stage in stages:
        assert stage["rows_in"] - stage["rows_out"] == sum(stage.get("dropped", {}).values()), stages
    return [(stage["name"], stage["rows_in"], stage["rows_out"], stage.get("dropped", {})) for stage in stages]


def run_to_its_end(node, folder, text):
    """What `recipe show --json` says of a recipe that was run with `--wait`."""
    name = ran(node, folder, text)["recipe"]
    return json.loads(node.cli("recipe", "show", name, "--json").stdout)["recipe"]


def answers(node, recipe, path):
    """Export a recipe and verify it; returns the answers by their questions, and the lineage of each row."""
    node.cli("recipe", "export", recipe["recipe"], "--format", "messages", "--to", str(path))
    rows = [json.loads(line)["messages"] for line in path.read_text().splitlines()]
    assert {tuple(message["role"] for message in row) for row in rows} == {("user", "assistant")}
    lines = path.with_name(f"{path.name}.lineage.jsonl").read_text().splitlines()
    verified = node.cli("recipe", "verify", str(path))
    assert "all is as lineage and card say" in verified.stderr
    return {row[0]["content"]: row[1]["content"] for row in rows}, list(map(json.loads, lines))


def dropped(node, recipe):
    """The questions that cleaning dropped, each as (place in the set, benchmark, row there, rule)."""
    lines = node.cli("recipe", "show", recipe["recipe"], "--dropped").stdout.splitlines()
    return [tuple(line.split("\t")[:4]) for line in lines[1:]]


def near_demo_arith():
    """How cleaning names the sum that demo_arith measures."""
    measured = [row["question"] for row in arith_rows()]
    (question,) = MEASURED
    assert not set(measured) & (UNSEEN | MISPRINTED).keys(), "every other sum is none of demo_arith"
    return (
        f"arith_train/{list(SUMS).index(question)}",
        "demo_arith",
        f"demo_arith/{measured.index(question)}",
        "equal",
    )


@pytest.mark.real_engine
def test_what_the_checkpoint_gets_right_is_rewritten_cleaned_exported_and_agrees_with_the_store(node, server, tmp_path):
    recipe = run_to_its_end(node, tmp_path, BOXED + REWRITE + SELECT)
    assert (recipe["state"], recipe["rows"]) == ("done", 5)
    assert funnel(recipe) == [
        ("sample", 14, 14, {}),
        ("right", 14, 12, {"wrong": 2}),
        ("rewrite", 12, 12, {}),
        ("check again", 12, 12, {}),
        ("select first-correct k=1", 12, 6, {"more of the same problems": 6}),
        ("clean", 6, 5, {"near demo_arith": 1}),
        ("rows", 5, 5, {}),
    ]
    assert dropped(node, recipe) == [near_demo_arith()]
    rows, lineage = answers(node, recipe, tmp_path / "train.jsonl")
    assert rows == {question: written(answer) for question, answer in UNSEEN.items()}
    (source,) = recipe["sources"]
    used = [[(f"j{one['job']}", one["use"], one["right"]) for one in line["samples"]] for line in lineage]
    assert used == [[(source["job"], "answer", True), (source["rewrites"], "source", True)]] * 5
    weights = hashlib.sha256(builtin_checkpoint_path().read_bytes()).hexdigest()
    assert {line["samples"][1]["weights_sha256"] for line in lineage} == {weights}, "the teacher is the real checkpoint"
    assert [one["rule"] for line in lineage for one in line["writers"]] == ["thought-solution/1"] * 5
    assert questions(server) == Counter(RIGHT.values()), "the writer was asked once about each right answer"
    (paid,) = recipe["paid"]
    assert (paid["to"], paid["tokens"]) == ("writer", 6 * 110)
    assert paid["cost"] == pytest.approx(6 * (100 * 2.0 + 10 * 6.0) / 1e6)
    assert "\npaid to writer: " in node.cli("recipe", "show", recipe["recipe"], "-o", "table").stdout
    assert "paid to writer" in (tmp_path / "train.jsonl.card.md").read_text()


@pytest.mark.real_engine
def test_under_the_grader_of_demo_arith_bare_answers_become_rows_and_boxed_ones_are_wrong(node, server, tmp_path):
    """That grader wants the number and nothing else. So no rewriting can be right by it, and this recipe goes without
    one; with one it ends in its funnel, without a row, instead of training on what nothing has graded as right."""
    recipe = run_to_its_end(node, tmp_path, BARE + SELECT)
    assert funnel(recipe) == [
        ("sample", 14, 14, {}),
        ("right", 14, 12, {"wrong": 2}),
        ("select first-correct k=1", 12, 6, {"more of the same problems": 6}),
        ("clean", 6, 5, {"near demo_arith": 1}),
        ("rows", 5, 5, {}),
    ]
    assert dropped(node, recipe) == [near_demo_arith()]
    rows, lineage = answers(node, recipe, tmp_path / "bare.jsonl")
    assert rows == UNSEEN
    assert [line["writers"] for line in lineage] == [[]] * 5
    assert not recipe.get("paid")
    assert not questions(server)
    boxed = run_to_its_end(node, tmp_path, BARE + REWRITE + SELECT)
    assert funnel(boxed)[2:4] == [("rewrite", 12, 12, {}), ("check again", 12, 0, {"no answer": 12})]
    assert (boxed["state"], boxed.get("rows", 0), boxed["paid"][0]["to"]) == ("done", 0, "writer")
