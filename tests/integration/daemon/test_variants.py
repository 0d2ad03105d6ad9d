"""Pairs of thoughts on a live node: a scripted writer splits the shortest right completions, and is paid once."""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fake_judge
import pytest
from sums_recipes import ATTEMPT, BOX, EXCERPT, REASONING, SUMS, configure_writer, grades, prepare, recipe_run, shown

from rwkv_data.writers.split_thoughts import MARK

pytestmark = pytest.mark.slow("recipes")

SOLUTION = re.compile(r"<solution-[0-9a-f]+>\n(.*)\n</solution-", re.DOTALL)
ANNA, TRAIN, SHELLS, SPIDERS = SUMS
BLANK = "\n\n"
WRONG = "I add first. That makes \\boxed{1000}."
UNSURE = "Now I try to picture it, but I lose count."
CHECK = "I count it backwards, which gives the same number."


def right(answer):
    return f"I take it step by step, and find \\boxed{{{answer}}}."


def thoughts(question):
    """The thoughts of the shortest right completion of each problem."""
    answer = SUMS[question]
    return {
        ANNA: [WRONG, UNSURE, right(answer), CHECK, f"Once more: {right(answer)}"],
        TRAIN: [right(answer), UNSURE],
        SHELLS: [UNSURE, WRONG],
        SPIDERS: [WRONG],
    }[question]


def tagged(some, answer):
    return f"<think>{BLANK.join(some)}</think>\n\nSo it is \\boxed{{{answer}}}."


def completions(question):
    """What the model says of a problem: two texts, the second much longer; of the spiders both are wrong."""
    answer, some = SUMS[question], thoughts(question)
    long = [*some, *(f"For the {number}th time: {UNSURE}" for number in range(9))]
    said = "6" if question == SPIDERS else answer
    return [tagged(some, said), tagged(long, said)]


def splits(asked):
    """What an obedient writer replies: a mark behind each paragraph, and of an excerpt what is so."""
    if found := REASONING.search(asked.prompt):
        text = found[1].replace("\n\n", f"\n{MARK}\n")
        return fake_judge.Do(text, usage={"prompt_tokens": 100, "completion_tokens": len(text)})
    if found := EXCERPT.search(asked.prompt):
        return fake_judge.Do(str(found[1] == CHECK))
    if found := ATTEMPT.search(asked.prompt):
        answer = BOX.findall(found[1])[-1]
        text = (
            f"<|begin_of_thought|>\n\n{found[1]}\n\n<|end_of_thought|>\n\n"
            f"<|begin_of_solution|>\n\nIn short \\boxed{{{answer}}}.\n\n<|end_of_solution|>"
        )
        return fake_judge.Do(text, usage={"prompt_tokens": 100, "completion_tokens": len(text)})
    return fake_judge.Do("seven, eight")


@pytest.fixture
def server() -> Iterator[fake_judge.FakeJudge]:
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=splits)) as fake:
        yield fake


@pytest.fixture
def own(new_node, server, tmp_path):
    """A node with a writer, and a training set of four problems, of which the model gets one wrong."""
    node = new_node()
    node.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    configure_writer(node, server)
    node.start()
    prepare(node, tmp_path, "sums", SUMS)
    node.engines_do(texts={question[:30]: completions(question) for question in SUMS})
    return node


SAMPLE = """
[[sample]]
models = ["builtin"]
datasets = ["own_sums"]
kinds = ["free_response.chat"]
settings = {k = 6, temperature = 1.0}
"""
PAIRS = '[pairs]\nrules = ["fcs", "fcs+1", "fcs+reflection"]\n'


def sampled(node):
    """The name of a job that has sampled the problems."""
    (name,) = node.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"],
        settings={"k": "6", "temperature": "1.0"},
    )  # fmt: skip
    node.wait_for_state(name, "done")
    return name


def split(node, source, *states):
    """The job of the variants of a job, once it is done or in one of these states."""
    (item,) = json.loads(node.cli("rewrite", source, "--rule", "split-thoughts", "--json").stdout)["items"]
    return node.wait_for_state(item["job"], *(states or ("done",)))


def exported(node, recipe, path):
    """The rows of a recipe, and a line of lineage for each."""
    node.cli("recipe", "export", recipe["recipe"], "--format", "trl-preference", "--to", str(path))
    node.cli("recipe", "verify", str(path))
    return tuple(
        [json.loads(line) for line in place.read_text().splitlines()] for place in (path, Path(f"{path}.lineage.jsonl"))
    )


def questions(server):
    """What the writer was asked of completions and thoughts, and how often each."""
    return Counter(
        asked.prompt for asked in server.asked if REASONING.search(asked.prompt) or EXCERPT.search(asked.prompt)
    )


def funnel(recipe):
    return {
        stage["name"]: (stage["rows_in"], stage["rows_out"], stage.get("dropped", {})) for stage in recipe["funnel"]
    }


def kept(question, count):
    return tagged(thoughts(question)[:count], SUMS[question])


def test_shortest_right_completions_are_split_and_their_variants_graded(own, server):
    source = sampled(own)
    job = split(own, source)
    assert (job["model"], job["source_job"], job["total"], job["done"]) == ("writer", source, 12, 12)
    samples = grades(own, job)
    found = {place: one["stages"][0]["completion"] for place, one in samples.items() if one.get("stages")}
    assert found == {
        (0, 0): kept(ANNA, 3), (0, 1): kept(ANNA, 4), (0, 2): kept(ANNA, 4),
        (1, 0): kept(TRAIN, 1), (1, 1): kept(TRAIN, 2),
    }  # fmt: skip
    others = {place for place, one in samples.items() if one["reason"] == "dropped"}
    assert others == samples.keys() - found.keys()
    assert "no thought of the shortest correct sample states the right answer" in samples[2, 0]["detail"]
    assert "only one thought" in samples[1, 2]["detail"]
    assert "no two right samples of different lengths" in samples[3, 0]["detail"]
    assert "of 5 variants 5 are right after it" in job["score"]["why_null"]
    asked = questions(server)
    assert sum(1 for prompt in asked if REASONING.search(prompt)) == 3  # not of the spiders
    # What the grader finds an answer in the writer is not asked about, nor what follows the second right thought.
    assert sorted(EXCERPT.search(prompt)[1] for prompt in asked if EXCERPT.search(prompt)) == sorted(
        [UNSURE, CHECK, UNSURE, UNSURE]
    )
    assert set(asked.values()) == {1}


def test_pairs_of_a_recipe_are_traced_to_the_variant_and_to_what_it_is_of(own, server, tmp_path):
    recipe = recipe_run(own, tmp_path, SAMPLE + PAIRS, "--wait")
    assert (recipe["state"], recipe["rows"]) == ("done", 5)
    stages = funnel(recipe)
    assert stages["verdicts"] == (24, 24, {})
    assert stages["split"] == (3, 3, {})
    assert stages["pairs fcs"] == (
        4, 2, {"no sample is correct": 1, "no thought of the shortest correct sample states the right answer": 1},
    )  # fmt: skip
    assert stages["pairs fcs+reflection"][1] == 1
    assert (
        "only one thought of the shortest correct sample states the right answer" in stages["pairs fcs+reflection"][2]
    )
    rows, lineage = exported(own, recipe, tmp_path / "pairs.jsonl")
    assert [row["chosen"][0]["content"] for row in rows] == [
        kept(ANNA, 3), kept(ANNA, 4), kept(ANNA, 4), kept(TRAIN, 1), kept(TRAIN, 2),
    ]  # fmt: skip
    assert {row["rejected"][0]["content"] for row in rows} == {completions(ANNA)[1], completions(TRAIN)[1]}
    source, variants = (int(one["job"][1:]) for one in recipe["sources"])
    line = lineage[0]
    assert line["selector"] == "fcs"
    assert [(one["use"], one["job"]) for one in line["samples"]] == [
        ("chosen", variants), ("rejected", source), ("source", source),
    ]  # fmt: skip
    assert line["writers"] == [
        {"rule": "split-thoughts/1", "endpoint": {"base_url": server.url, "model": "scribe", "revision": "r1"}}
    ]
    assert len({one.get("weights_sha256") for one in line["samples"]}) == 1  # nothing of the writer's is in a variant
    shortest = own.samples(f"j{source}")
    (of,) = [one for one in shortest if all(one[name] == line["samples"][2][name] for name in ("row", "repeat"))]
    assert of["stages"][0]["completion"] == completions(ANNA)[0]


def test_completions_without_a_form_are_rewritten_first_and_then_split(own, server, tmp_path):
    own.engines_do(
        texts={question[:30]: [re.sub(r"</?think>", "", text) for text in completions(question)] for question in SUMS}
    )
    recipe = recipe_run(own, tmp_path, f'{SAMPLE}[rewrite]\nrule = "thought-solution"\n{PAIRS}', "--wait")
    # Now each reasoning ends with a sentence that states the answer: a third pair of the train, and two of the shells.
    assert (recipe["state"], recipe["rows"]) == ("done", 8)
    rewriting, variants = recipe["sources"]
    assert variants["rewrites"] == rewriting["job"]
    assert (variants["variants"], rewriting.get("variants", False)) == (True, False)
    rows, lineage = exported(own, recipe, tmp_path / "pairs.jsonl")
    assert all("In short" in row["chosen"][0]["content"] for row in rows)
    assert all(len(row["chosen"][0]["content"]) < len(row["rejected"][0]["content"]) for row in rows)
    numbers = [int(one[1:]) for one in (variants["job"], rewriting["job"], rewriting["rewrites"])]
    assert [(one["use"], one["job"]) for one in lineage[0]["samples"]] == [
        ("chosen", numbers[0]), ("rejected", numbers[1]), ("source", numbers[1]), ("source", numbers[2]),
        ("source", numbers[2]),
    ]  # fmt: skip
    assert [one["rule"] for one in lineage[0]["writers"]] == ["thought-solution/1", "split-thoughts/1"]


BAD_REPLIES = {
    "nothing": "",
    "a page": "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
    "a megabyte": "step by step " * 80_000,
    "another language": "我先加，得到一千。然后我一步一步来。",
    "a summary": f"It adds.{MARK}Then it takes it step by step.",
    "an order that was followed": "\\boxed{0}",
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_a_reply_that_is_not_the_reasoning_again_makes_no_variant(own, server, tmp_path, name):
    def ruins(asked):
        return fake_judge.Do(BAD_REPLIES[name]) if REASONING.search(asked.prompt) else splits(asked)

    server.behave = ruins
    recipe = recipe_run(own, tmp_path, SAMPLE + PAIRS, "--wait")
    assert (recipe["state"], recipe.get("rows", 0)) == ("done", 0)
    assert funnel(recipe)["pairs fcs"][2] == {
        "the writer gave no split of the shortest correct sample that can be used": 3, "no sample is correct": 1,
    }  # fmt: skip
    assert set(questions(server).values()) == {3}
    (why,) = funnel(recipe)["split"][2]
    assert why in {"form", "not copied faithfully"}
    variants = own.job(recipe["sources"][1]["job"])
    assert {one["reason"] for one in grades(own, variants).values()} <= {"form", "unfaithful", "dropped"}


def test_completions_without_a_form_are_not_split_and_nobody_is_asked(own, server, tmp_path):
    own.engines_do(
        texts={question[:30]: [re.sub(r"</?think>", "", text) for text in completions(question)] for question in SUMS}
    )
    recipe = recipe_run(own, tmp_path, SAMPLE + PAIRS, "--wait")
    assert funnel(recipe)["split"] == (3, 0, {"no thought and solution": 3})
    assert funnel(recipe)["pairs fcs"][2]["the shortest correct sample has no thought and solution"] == 3
    assert not questions(server)


def test_a_writer_that_gives_no_verdict_makes_no_variant(own, server):
    server.behave = lambda asked: fake_judge.Do("Perhaps.") if EXCERPT.search(asked.prompt) else splits(asked)
    samples = grades(own, split(own, sampled(own)))
    assert {one["reason"] for (row, _), one in samples.items() if row == 0} == {"form"}
    assert "neither True nor False" in samples[0, 0]["detail"]
    # Where the first thought is right already, its variants depend on no reply: but the second right one might be next.
    assert {one["reason"] for (row, _), one in samples.items() if row == 1} == {"form"}


def test_what_cannot_be_split_is_refused_with_the_reason(own, server, tmp_path):
    source = sampled(own)
    variants = split(own, source)["id"]
    refused = own.cli("rewrite", variants, "--rule", "split-thoughts", check=False)
    assert f"{variants} holds shorter variants of the samples of {source}" in refused.stdout
    (tmp_path / "of_variants.toml").write_text(f'jobs = ["{variants}"]\n[select]\nrule = "all-correct"\n')
    refused = own.cli("recipe", "run", str(tmp_path / "of_variants.toml"), check=False)
    assert (refused.returncode, f"name {source}, and fcs in [pairs]" in refused.stderr) == (5, True)
    own.engines_do(texts={question[:30]: completions(question)[0] for question in SUMS})
    (same,) = own.dispatch(
        models=["builtin"], only_datasets=["own_sums"], only_jobs=["free_response.chat"], settings={"seed": "5"}
    )
    own.wait_for_state(same, "done")
    refused = own.cli("rewrite", same, "--rule", "split-thoughts", check=False)
    assert "has two right samples of different lengths: there is nothing to split" in refused.stdout
    asked = len(server.asked)
    recipe = recipe_run(own, tmp_path, f'jobs = ["{same}"]\n{PAIRS}', "--wait")
    assert (recipe.get("rows", 0), len(server.asked)) == (0, asked)
    assert funnel(recipe)["pairs fcs"][2] == {"only one sample is correct": 3, "no sample is correct": 1}
    (tmp_path / "rewrites.toml").write_text(f'jobs = ["{same}"]\n[rewrite]\nrule = "split-thoughts"\n{PAIRS}')
    refused = own.cli("recipe", "check", str(tmp_path / "rewrites.toml"), check=False)
    assert "split-thoughts rewrites no completion; there are: thought-solution" in refused.stderr


def test_check_says_what_splitting_costs_and_the_second_recipe_costs_nothing(own, server, tmp_path):
    configure_writer(own, server, prompt_price=1.0, completion_price=1.0)
    own.api.post("/v1/reload", {})
    path = tmp_path / "sky.toml"
    path.write_text(SAMPLE + PAIRS)
    (paid,) = json.loads(own.cli("recipe", "check", str(path), "--json").stdout)["paid"]
    assert (paid["role"], paid["calls"], paid["cost"] > 0) == ("writer", 4 * 9, True)  # of four problems
    sampled(own)
    (paid,) = json.loads(own.cli("recipe", "check", str(path), "--json").stdout)["paid"]
    assert paid["calls"] == 3 * 9
    rewrites = tmp_path / "rewrites.toml"
    rewrites.write_text(f'{SAMPLE}[rewrite]\nrule = "thought-solution"\n{PAIRS}')
    before = [one["calls"] for one in json.loads(own.cli("recipe", "check", str(rewrites), "--json").stdout)["paid"]]
    assert before == [18, 4 * 9]  # what is to be rewritten first counts with every problem
    assert "with 8 thoughts in each" in own.cli("recipe", "check", str(path)).stderr
    first = recipe_run(own, tmp_path, SAMPLE + PAIRS, "--wait")
    asked = len(server.asked)
    assert (
        "paid" not in (found := json.loads(own.cli("recipe", "check", str(path), "--json").stdout)) or not found["paid"]
    )
    recipe_run(own, tmp_path, rewrites.read_text(), "--wait")
    assert not json.loads(own.cli("recipe", "check", str(rewrites), "--json").stdout).get("paid")
    asked = len(server.asked)
    again = recipe_run(own, tmp_path, SAMPLE + PAIRS.replace('"fcs+1", ', ""), "--wait")
    assert (first["rows"], again["rows"], len(server.asked)) == (5, 3, asked)


def test_a_source_that_is_deleted_meanwhile_changes_nothing(own, server, tmp_path):
    held = {"back": True}
    server.behave = lambda asked: dataclasses.replace(splits(asked), until=lambda: not held["back"])
    recipe = recipe_run(own, tmp_path, SAMPLE + PAIRS)["recipe"]
    sources = own.until(
        lambda: len(found := own.api.get(f"/v1/recipes/{recipe}").value["recipe"]["sources"]) == 2 and found,
        "the variants are queued",
    )
    source = sources[0]["job"]
    own.cli("delete", source, "--yes")
    held["back"] = False
    own.until(lambda: shown(own, recipe)["state"] == "done", "the recipe is done")
    assert shown(own, recipe)["rows"] == 5


def test_variants_are_no_measurement_and_are_graded_again_alike(own, server):
    job = split(own, sampled(own))
    before = {place: one["reason"] for place, one in grades(own, job).items()}
    own.cli("regrade", job["id"])
    again = own.wait_for_state(job["id"], "done")
    assert {place: one["reason"] for place, one in grades(own, again).items()} == before
    assert again["score"]["repeats"] == 3
    assert "measures nothing" in own.api.get(f"/v1/jobs/{job['id']}/so-far").value["note"]
    repeated = own.cli("show", job["id"], "--repro").stdout
    assert f"rwkvctl rewrite {job['source_job']} --rule split-thoughts" in repeated
