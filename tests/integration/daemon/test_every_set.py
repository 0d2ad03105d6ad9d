"""Every benchmark whose rows are among the real ones, in every kind, through the whole product.

One daemon and one engine with the built-in checkpoint, which cannot answer any of this: what counts is that rows,
prompts, stages, graders, sandbox, judge and scores of each kind fit together, so that no sample ends in an error.
"""

import csv
import importlib.util
import io
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from rwkv_data import registry


def beside(path: str, name: str):
    """A module of the tests, which are no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fake_judge = beside("judge/fake_judge.py", "fake_judge_of_every_set")
nodes = beside("conftest.py", "nodes_of_every_set")

FOLDERS = {"hendrycks_math": "math", "math_minerva": "math", "minerva_ocw": "minerva_math", "mbpp_sanitized": "mbpp"}
"""Where the folder of real rows has another name than the benchmark."""
WITHOUT_TESTS = {"livecodebench", "taco"}
"""Sets of which only questions lie among the real rows, without the tests that grade them."""
SHORT = {"cot.max_tokens": "8", "final.max_tokens": "4", "max_tokens": "8"}
LIMIT = 2
CHECK = json.dumps(
    {
        "checker_cot": "", "answer_correct": False, "instruction_following_error": False, "world_knowledge_error": False,
        "math_error": True, "reasoning_logic_error": False, "thought_contains_correct_answer": False, "reason": "none",
    }
)  # fmt: skip


def verdict(asked):
    """What each rule's judge may say, in its own form: wrong, with certainty."""
    if "checker_cot" in asked.prompt:
        return fake_judge.Do(CHECK)
    return fake_judge.Do("False")


pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """A node on which every set is prepared, with a judge; and the names of the sets."""
    sets = {name: FOLDERS.get(name, name) for name in registry.names()}
    there = [name for name, folder in sets.items() if (real_rows / folder).is_dir() and name not in WITHOUT_TESTS]
    home = tmp_path_factory.mktemp("every") / "h"
    home.mkdir()
    with fake_judge.in_thread(fake_judge.FakeJudge(verdict)) as judge:
        settings = {"JUDGE_MODEL": "fake-judge-1", "JUDGE_BASE_URL": judge.url, "JUDGE_API_KEY": "k" * 20}
        node = nodes.LiveNode(home, settings)
        for name in there:
            node.cli("data", "prepare", name, "--from", str(real_rows / sets[name]))
        node.start()
        yield node, there, judge
        node.close()


def groups(names, *, judged):
    """(kind, settings) -> benchmarks: what one dispatch can ask for."""
    found = defaultdict(list)
    for name in names:
        for kind in registry.load(name).kinds.values():
            if bool(kind.grader.judge) is judged and not kind.search:
                settings = {key: text for key, text in SHORT.items() if key in kind.settings()}
                found[kind.name, tuple(settings.items())].append(name)
    return found


def dispatch(node, names, *, judged):
    """Every kind of these benchmarks, as (benchmark, kind) -> job."""
    jobs = {}
    for (kind, settings), benchmarks in groups(names, judged=judged).items():
        queued = node.dispatch(
            only_datasets=benchmarks, only_jobs=[kind], limit=LIMIT,
            settings=dict(settings) | {"k": "1"}, disable_checker=True,
        )  # fmt: skip
        jobs |= {(job["benchmark"], job["kind"]): name for name in queued for job in [node.job(name)]}
    wanted = {(name, kind) for (kind, _), there in groups(names, judged=judged).items() for name in there}
    assert set(jobs) == wanted
    return jobs


def finished(node, jobs):
    """All jobs, once they have ended. Asking seldom leaves the processors to them."""
    deadline, ends = time.monotonic() + 400, {"done", "failed", "held", "stopped"}
    while True:
        found = {job["id"]: job for job in node.api.get("/v1/jobs", limit=1000).value["items"]}
        if all(found[name]["state"] in ends for name in jobs.values()):
            return {pair: node.job(name) for pair, name in jobs.items()}
        assert time.monotonic() < deadline, node.log()
        time.sleep(0.5)


def faults(jobs):
    """What is wrong with each job, in a sentence."""
    said = {}
    for pair, job in jobs.items():
        score = job.get("score") or {}
        if job["state"] != "done":
            said[pair] = f"{job['state']}: {job.get('reason')} {job.get('detail')}"
        elif score["scored"] != score["n"] or score["n"] != LIMIT or score.get("errors") or score.get("why_null"):
            said[pair] = {key: score.get(key) for key in ("n", "scored", "errors", "unjudged", "why_null")}
    return said


def test_every_kind_that_needs_no_judge_gets_a_score(prepared):
    node, names, _ = prepared
    jobs = finished(node, dispatch(node, names, judged=False))
    assert not faults(jobs)
    assert len(jobs) > 80
    assert {pair[0] for pair in jobs} == set(names), "every set has a kind that needs no judge"
