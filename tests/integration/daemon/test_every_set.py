"""Every benchmark whose rows are among the real ones, in every kind, through the whole product.

One daemon and one stub engine, which cannot answer any of this: what counts is that rows,
prompts, stages, graders, sandbox, judge and scores of each kind fit together, so that no sample ends in an error.
Ways of asking and grading that only other sets have run on the rows of those sets' own examples.
"""

import csv
import dataclasses
import io
import json
from collections import defaultdict

import fake_judge
import pytest
from live_node import LiveNode

from rwkv_data.definition import registry
from rwkv_data.definition.rows import canonical
from rwkv_data.prepare.prepare import prepare

pytestmark = [pytest.mark.timeout(1500), pytest.mark.slow("golds")]

FOLDERS = {"hendrycks_math": "math", "math_minerva": "math", "minerva_ocw": "minerva_math", "mbpp_sanitized": "mbpp"}
"""Where the folder of real rows has another name than the benchmark."""
WITHOUT_TESTS = {"livecodebench", "taco"}
"""Sets of which only questions lie among the real rows, without the tests that grade them."""
LIMIT = 2
SHORT = {"cot.max_tokens": "8", "final.max_tokens": "4", "max_tokens": "8", "workers": "1"}
FEW_POINTS = {"grid.temperature": "0,1", "grid.top_p": "0.3", "grid.presence": "0.5", "grid.frequency": "0.1"}
SEARCHED = {"gsm8k"}
"""All maths sets have the same searches; one of them shows that they run."""


def verdict(asked):
    """What the judge of each rule may say, in that rule's form: no."""
    forms = {
        "checker_cot": json.dumps({"checker_cot": "", "answer_correct": False, "reason": "none"}),
        "[[A>>B]]": "[[A=B]]",
        "extracted_final_answer": "extracted_final_answer: None\nreasoning: none given\ncorrect: no\nconfidence: 100%",
        "NOT_ATTEMPTED": "INCORRECT",
    }
    return fake_judge.Do(next((reply for mark, reply in forms.items() if mark in asked.prompt), "False"))


def manner(kind):
    """What makes a kind another piece of machinery than the same-named kind of another set."""
    rule = kind.grader.judge
    return kind.name, kind.profile, kind.grader.name, rule.name if rule else ""


def kinds_of(name):
    """The kinds of a set that this test runs."""
    return [kind for kind in registry.load(name).kinds.values() if not kind.search or name in SEARCHED]


def prepare_examples(home, name, seen):
    """Prepare the rows of a set's own examples, if it has a manner of asking that no real set has; whether it has."""
    benchmark = registry.load(name)
    new = {manner(kind) for kind in kinds_of(name)} - seen
    seen |= new
    if new and not benchmark.built_in:
        lines = dict.fromkeys(canonical(example.row) for example in benchmark.examples)
        raw = home / f"{name}.jsonl"
        raw.write_bytes(b"".join(lines))
        prepare(dataclasses.replace(benchmark, from_source=dict, expand=None), home / "data", raw)
    return bool(new)


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """A node with a judge, and the names of the sets that are prepared on it."""
    sets = {name: FOLDERS.get(name, name) for name in registry.names()}
    there = [name for name, at in sets.items() if (real_rows / at).is_dir() and name not in WITHOUT_TESTS]
    assert len(there) >= 28
    home = tmp_path_factory.mktemp("every") / "h"
    home.mkdir()
    with fake_judge.in_thread(fake_judge.FakeJudge(verdict)) as judge:
        settings = {"JUDGE_MODEL": "fake-judge-1", "JUDGE_BASE_URL": judge.url, "JUDGE_API_KEY": "k" * 20}
        node = LiveNode(home, settings)
        try:
            under_their_names = [name for name in there if sets[name] == name]
            node.cli("data", "prepare", *under_their_names, "--from", str(real_rows))
            for name in set(there) - set(under_their_names):
                node.cli("data", "prepare", name, "--from", str(real_rows / sets[name]))
            seen = {manner(kind) for name in there for kind in kinds_of(name)}
            others = [name for name in sets if name not in there and prepare_examples(home, name, seen)]
            yield node.start(), there, others
        finally:
            node.close()


def groups(names):
    """(kind, settings) -> benchmarks: what one dispatch can ask for."""
    found = defaultdict(list)
    for name in names:
        for kind in kinds_of(name):
            short = SHORT | (FEW_POINTS if kind.search else {"k": "1"})
            settings = {key: text for key, text in short.items() if key in kind.settings()}
            found[kind.name, tuple(settings.items())].append(name)
    return found


def dispatch(node, names):
    """Every kind of these benchmarks, as (benchmark, kind) -> job."""
    jobs = {}
    for (kind, settings), benchmarks in groups(names).items():
        queued = node.dispatch(
            only_datasets=benchmarks, only_jobs=[kind], limit=LIMIT, settings=dict(settings), disable_checker=True
        )
        jobs |= {(job["benchmark"], job["kind"]): name for name in queued for job in [node.job(name)]}
    assert set(jobs) == {(name, kind.name) for name in names for kind in kinds_of(name)}
    return jobs


@pytest.fixture(scope="module")
def ended(prepared):
    """(benchmark, kind) -> job, once all have ended."""
    node, there, others = prepared
    jobs = dispatch(node, there + others)
    for name in jobs.values():  # the limit is that of one job, however many there are
        node.wait_for_state(name, "done", "failed", "held", "stopped")
    return {pair: node.job(name) for pair, name in jobs.items()}


def faults(jobs):
    """What is wrong with each job."""
    said = {}
    for pair, job in jobs.items():
        score = job.get("score") or {}
        values = [metric["value"] for metric in score.get("metrics", {}).values()]
        whole = score.get("n") == score.get("scored") == job["total"]
        if job["state"] != "done" or not whole or not values or None in values:
            said[pair] = {name: job.get(name) for name in ("state", "reason", "detail", "total", "score")}
    return said


def test_every_kind_of_every_set_gets_a_score_without_an_error(prepared, ended):
    _, there, others = prepared
    assert not faults(ended)
    assert len(there) >= 28
    assert {"lambada", "held_out_text", "arena_hard", "livecodebench", "simpleqa", "hle"} <= set(others)
    judged = [pair for pair in ended if registry.load(pair[0]).kinds[pair[1]].grader.judge]
    assert len(judged) >= 15
    assert len(ended) - len(judged) >= 119


def test_what_was_asked_is_said_with_every_score(prepared, ended):
    node, *_ = prepared
    for (name, kind), job in ended.items():
        known = job["score"]["provenance"]
        asked = registry.load(name).kinds[kind]
        assert (known["grader"], known["configuration"]["profile"]) == (asked.grader.name, asked.profile)
        assert job["score"].get("partial") or name in prepared[2], "so few rows of a real set are a part of it"
    rows = list(csv.DictReader(io.StringIO(node.cli("export").stdout)))
    assert {(row["benchmark"], row["kind"]) for row in rows} == set(ended)
    table = node.cli("scores", "--limit", "1000", "--output", "tsv").stdout
    assert all(job["id"] in table for job in ended.values())


def test_a_model_compared_with_itself_differs_nowhere(prepared, ended):
    node, *_ = prepared
    found = node.cli("compare", "builtin", "builtin", "--json", check=False)
    items = {(item["benchmark"], item["kind"]): item for item in json.loads(found.stdout)["items"]}
    assert set(items) >= set(ended) - searches(ended)
    compared = [item for pair, item in items.items() if pair not in searches(ended)]
    assert {item["difference"]["value"] for item in compared} == {0}
    assert {item["verdict"] for item in compared} == {"no difference shown"}


def searches(ended):
    """The jobs that are searches, which are no measurement of a model."""
    return {pair for pair in ended if registry.load(pair[0]).kinds[pair[1]].search}
