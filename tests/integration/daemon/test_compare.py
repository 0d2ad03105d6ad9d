"""`compare` and `gate` over real jobs of a real daemon."""

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S

from rwkvctl.protocol.replies import CompareReply

HOT = {"temperature": "2.0", "top_k": "0", "top_p": "1.0"}
WORSE = "rwkv7-g1-0.1b-20250101-ctx4096"


@pytest.fixture(scope="module")
def node(module_node: Any) -> Any:
    """A node whose jobs stay."""
    return module_node().start()


def run(node: Any, **selection: Any) -> str:
    """A finished job."""
    (name,) = node.dispatch(**selection)
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    return str(name)


def compare(node: Any, *words: str, code: int = 0) -> dict[str, Any]:
    """The reply, which must be the message that the protocol says."""
    found = node.cli("compare", *words, "--json", check=False)
    assert found.returncode == code, found.stdout + found.stderr
    msgspec.json.decode(found.stdout.encode(), type=CompareReply)
    return dict(json.loads(found.stdout))


def only(reply: dict[str, Any]) -> dict[str, Any]:
    [item] = reply["items"]
    return dict(item)


@dataclass(frozen=True)
class Measured:
    """Jobs of the node, each other than `a` in one thing."""

    a: str
    seed: str
    again: str
    cold: str
    longer: str
    short: str
    choice: str


@pytest.fixture(scope="module")
def jobs(node: Any) -> Measured:
    """Measured once; tests change none of it."""
    hot: dict[str, Any] = {"limit": 30, "settings": HOT, "seed": 1}
    return Measured(
        a=run(node, **hot),
        seed=run(node, **hot | {"seed": 2}),
        again=run(node, **hot, overwrite=True),
        cold=run(node, **hot | {"settings": {}}),
        longer=run(node, **hot | {"limit": 40}),
        short=run(node, **hot | {"settings": HOT | {"max_tokens": "1"}}),
        choice=run(node, only_datasets=["demo_choice"], limit=5),
    )


def test_two_seeds_are_paired_row_by_row_and_flips_are_found(node, jobs):
    a, b = jobs.a, jobs.seed
    item = only(compare(node, a, b, "--flips"))
    values = [{s["row"]: s["value"] for s in node.samples(name)} for name in (a, b)]
    flips = {row for row in values[0] if values[0][row] != values[1][row]}
    assert flips, "at this temperature the seeds must differ somewhere"
    assert {flip["row"] for flip in item["flips"]} == flips
    only_a = sum(values[0][row] for row in flips)
    n, k = len(flips), min(only_a, len(flips) - only_a)
    expected = min(1.0, 2 * sum(math.comb(n, i) for i in range(int(k) + 1)) / 2**n)
    assert (item["only_a"], item["only_b"]) == (only_a, n - only_a)
    assert (item["test"], item["rows"], item["p"]) == ("mcnemar", 30, pytest.approx(expected))
    assert item["difference"]["value"] == pytest.approx(item["b"] - item["a"])
    assert item["differs"] == [] if "differs" in item else True
    assert "seed: 1 in A, 2 in B" in item["noted"]
    reasons = [{s["row"]: s["reason"] for s in node.samples(name)} for name in (a, b)]
    assert [(flip["reason_a"], flip["reason_b"]) for flip in item["flips"]] == [
        (reasons[0][flip["row"]], reasons[1][flip["row"]]) for flip in item["flips"]
    ]
    flip = item["flips"][-1]
    for job, sample in ((a, flip["sample_a"]), (b, flip["sample_b"])):
        found = node.cli("samples", job, "--after", str(flip["after"]), "--limit", "1", "--json")
        [seen] = json.loads(found.stdout)["items"]
        assert (seen["row"], seen["number"], seen["expected"]) == (flip["row"], sample, flip["expected"])
    table = node.cli("compare", a, b, "--flips")
    assert f"{a} {b}" in table.stdout
    assert "note: seed: 1 in A, 2 in B" in table.stderr


def test_repeats_are_compared_by_the_bootstrap(node):
    a, b = (run(node, limit=20, settings=HOT | {"k": "3"}, seed=seed) for seed in (1, 2))
    item = only(compare(node, a, b))
    assert (item["test"], item["rows"], item["repeats_a"]) == ("bootstrap", 20, 3)
    assert item["difference"]["ci_low"] <= item["difference"]["value"] <= item["difference"]["ci_high"]
    assert 0 < item["p"] <= 1
    assert item == only(compare(node, a, b)), "the same samples give the same answer"


def test_what_is_not_the_same_is_named_and_refused_unless_forced(node, jobs):
    a, cold = jobs.a, jobs.cold
    item = only(compare(node, a, cold, code=5))
    assert item["verdict"] == "not comparable"
    assert any(text.startswith("stages.") and ".temperature: " in text for text in item["differs"]), item["differs"]
    forced = only(compare(node, a, cold, "--force"))
    assert forced["forced"]
    assert (forced["rows"], forced["differs"]) == (30, item["differs"])
    flips = only(compare(node, a, jobs.short, "--force", "--flips"))["flips"]
    assert flips, "an answer of one token is mostly wrong"
    assert all(flip["cut_b"] and "cut_a" not in flip for flip in flips)
    item = only(compare(node, a, jobs.longer, code=5))
    assert item["differs"] == ["limit: 30 in A, 40 in B"]
    forced = only(compare(node, a, jobs.longer, "--force"))
    assert (forced["rows"], forced["left_out"]) == (30, 10)
    found = node.cli("compare", a, jobs.choice, check=False)
    assert found.returncode == 5
    assert "no row in common" in found.stderr
    shown = node.cli("compare", a, cold, check=False)
    assert "temperature" in shown.stdout


def test_names_versions_and_their_mistakes(node, jobs):
    first, second = (f"builtin@{node.job(name).get('version', 1)}" for name in (jobs.a, jobs.again))
    item = only(compare(node, first, second))
    assert (item["job_a"], item["job_b"]) == (jobs.a, jobs.again)
    assert (item["verdict"], item["p"], item.get("only_a", 0)) == ("no difference shown", 1.0, 0)
    for words, code, says in (
        (("builtin", "bultin"), 4, "Did you mean builtin?"),
        (("builtin", "builtin@99"), 4, "no score of builtin@99"),
        (("builtin", "j99"), 4, "no job j99"),
        (("builtin", "builtin", "--benchmark", "nonsense"), 2, "unknown nonsense"),
        (("builtin", "builtin", "--alpha", "1.5"), 2, "alpha"),
    ):
        found = node.cli("compare", *words, check=False)
        assert found.returncode == code, found.stderr
        assert says in found.stderr
    other = f"builtin@{node.job(jobs.seed)['version']}"
    item = only(compare(node, other, second, "--benchmark", "demo_choice", code=5))
    assert item["why"] == f"{other} and {second} have no score of this benchmark"


@contextlib.contextmanager
def without_value(node: Any, job: str) -> Iterator[None]:
    """The score of a job has no value as long as the block runs."""
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite", timeout=LIMIT_S)) as store:
        [before] = store.execute("SELECT view FROM score WHERE job = ?", (int(job[1:]),)).fetchone()
        null = {
            "metrics": {"accuracy": {"value": None}},
            "why_null": "1 of 5 samples has no grade",
            "finished": "later",
        }

        def put(view: str) -> None:
            with store:
                store.execute("UPDATE score SET view = ? WHERE job = ?", (view, int(job[1:])))

        put(json.dumps(json.loads(before) | null))
        try:
            yield
        finally:
            put(before)


def test_a_null_score_is_never_compared(node, jobs):
    a, b = jobs.a, jobs.again
    with without_value(node, b):
        for words in ((a, b), (a, b, "--force")):
            item = only(compare(node, *words, code=5))
            assert item["why"] == "B has no value: 1 of 5 samples has no grade"
        found = node.cli("gate", b, "--baseline", a, "--json", check=False)
    assert found.returncode == 8
    assert json.loads(found.stdout)["verdict"] == "undecided"


def test_the_gate_fails_on_a_regression_and_on_what_was_not_measured(node, jobs):
    node.add_model(WORSE)
    node.engines_do(texts={"=": "no sum"})
    run(node, models=[WORSE], limit=30, settings=HOT, seed=1)
    node.engines_do()
    found = node.cli("gate", WORSE, "--baseline", "builtin", "--json", check=False)
    reply = json.loads(found.stdout)
    assert (found.returncode, reply["verdict"]) == (1, "regression"), found.stderr
    words = {item["benchmark"]: item["gate"] for item in reply["items"]}
    assert words == {"demo_arith": "regression", "demo_choice": "undecided"}
    shown = node.cli("gate", WORSE, "--baseline", "builtin", check=False)
    assert "regression: demo_arith" in shown.stderr
    assert "the model has no score for it" in shown.stderr
    passed = node.cli("gate", "builtin", "--baseline", WORSE, "--json")
    assert json.loads(passed.stdout)["verdict"] == "passed"
    half = node.cli("gate", WORSE, "--baseline", "builtin", "--benchmark", "demo_choice", check=False)
    assert half.returncode == 8
    lenient = node.cli(
        "gate", WORSE, "--baseline", "builtin", "--benchmark", "demo_arith", "--margin", "1", check=False
    )
    assert lenient.returncode == 0
    reply = compare(node, "builtin", WORSE)
    assert (only(reply)["verdict"], reply["only_a"]) == ("worse", ["demo_choice multi_choice_plain"])
