"""`compare` and `gate` over real jobs of a real daemon."""

import json
import math
import sqlite3
from typing import Any

import msgspec
import pytest
import torch

from rwkv_weights.files import builtin_checkpoint_path
from rwkvctl.protocol.messages import CompareReply

HOT = {"temperature": "2.0", "top_k": "0", "top_p": "1.0"}
WORSE = "rwkv7-g1-0.1b-20250101-ctx4096"


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


def test_two_seeds_are_paired_row_by_row_and_flips_are_found(node):
    a, b = (run(node, limit=60, settings=HOT, seed=seed) for seed in (1, 2))
    item = only(compare(node, a, b, "--flips"))
    values = [{s["row"]: s["value"] for s in node.samples(name)} for name in (a, b)]
    flips = {row for row in values[0] if values[0][row] != values[1][row]}
    assert flips, "at this temperature the seeds must differ somewhere"
    assert {flip["row"] for flip in item["flips"]} == flips
    only_a = sum(values[0][row] for row in flips)
    n, k = len(flips), min(only_a, len(flips) - only_a)
    expected = min(1.0, 2 * sum(math.comb(n, i) for i in range(int(k) + 1)) / 2**n)
    assert (item["only_a"], item["only_b"]) == (only_a, n - only_a)
    assert (item["test"], item["rows"], item["p"]) == ("mcnemar", 60, pytest.approx(expected))
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


def test_what_is_not_the_same_is_named_and_refused_unless_forced(node):
    a = run(node, limit=30)
    hot, longer = run(node, limit=30, settings=HOT), run(node, limit=40)
    item = only(compare(node, a, hot, code=5))
    assert item["verdict"] == "not comparable"
    assert any(text.startswith("stages.") and ".temperature: " in text for text in item["differs"]), item["differs"]
    forced = only(compare(node, a, hot, "--force"))
    assert forced["forced"]
    assert (forced["rows"], forced["differs"]) == (30, item["differs"])
    short = run(node, limit=30, settings={"max_tokens": "1"})
    flips = only(compare(node, a, short, "--force", "--flips"))["flips"]
    assert flips, "an answer of one token is mostly wrong"
    assert all(flip["cut_b"] and "cut_a" not in flip for flip in flips)
    item = only(compare(node, a, longer, code=5))
    assert item["differs"] == ["limit: 30 in A, 40 in B"]
    forced = only(compare(node, a, longer, "--force"))
    assert (forced["rows"], forced["left_out"]) == (30, 10)
    choice = run(node, only_datasets=["demo_choice"], limit=5)
    found = node.cli("compare", a, choice, check=False)
    assert found.returncode == 5
    assert "no row in common" in found.stderr
    shown = node.cli("compare", a, hot, check=False)
    assert "temperature" in shown.stdout


def test_names_versions_and_their_mistakes(node):
    first, second = run(node, limit=25), run(node, limit=25, overwrite=True)
    item = only(compare(node, "builtin@1", "builtin@2"))
    assert (item["job_a"], item["job_b"]) == (first, second)
    assert (item["verdict"], item["p"], item.get("only_a", 0)) == ("no difference shown", 1.0, 0)
    for words, code, says in (
        (("builtin", "bultin"), 4, "Did you mean builtin?"),
        (("builtin", "builtin@9"), 4, "no score of builtin@9"),
        (("builtin", "j99"), 4, "no job j99"),
        (("builtin", "builtin", "--benchmark", "nonsense"), 2, "unknown nonsense"),
        (("builtin", "builtin", "--alpha", "1.5"), 2, "alpha"),
    ):
        found = node.cli("compare", *words, check=False)
        assert found.returncode == code, found.stderr
        assert says in found.stderr
    item = only(compare(node, "builtin@1", "builtin@2", "--benchmark", "demo_choice", code=5))
    assert item["why"] == "builtin@1 and builtin@2 have no score of it"


def test_a_null_score_is_never_compared(node):
    a, b = run(node, limit=5), run(node, limit=5, overwrite=True)
    node.terminate()
    with sqlite3.connect(node.home / "store.sqlite") as store:
        [text] = store.execute("SELECT view FROM score WHERE job = ?", (int(b[1:]),)).fetchone()
        view = json.loads(text) | {"metrics": {"accuracy": {"value": None}}, "why_null": "1 of 5 samples has no grade"}
        store.execute("UPDATE score SET view = ? WHERE job = ?", (json.dumps(view), int(b[1:])))
    store.close()
    node.start()
    for words in ((a, b), (a, b, "--force")):
        item = only(compare(node, *words, code=5))
        assert item["why"] == "B has no value: 1 of 5 samples has no grade"
    found = node.cli("gate", b, "--baseline", a, "--json", check=False)
    assert found.returncode == 8
    assert json.loads(found.stdout)["verdict"] == "undecided"


@pytest.fixture
def worse_model(node: Any) -> str:
    """A checkpoint that answers worse than the built-in one."""
    tensors = torch.load(builtin_checkpoint_path(), weights_only=True)
    noise = torch.Generator().manual_seed(3)
    for name in ("ln_out.weight", "ln_out.bias"):
        tensors[name] = torch.randn(tensors[name].shape, generator=noise).to(tensors[name].dtype)
    torch.save(tensors, node.home / "weights" / f"{WORSE}.pth")
    return WORSE


def test_the_gate_fails_on_a_regression_and_on_what_was_not_measured(node, worse_model):
    for only_datasets in (["demo_arith"], ["demo_choice"]):
        run(node, only_datasets=only_datasets, limit=40)
    run(node, models=[worse_model], limit=40)
    found = node.cli("gate", worse_model, "--baseline", "builtin", "--json", check=False)
    reply = json.loads(found.stdout)
    assert (found.returncode, reply["verdict"]) == (1, "regression"), found.stderr
    words = {item["benchmark"]: item["gate"] for item in reply["items"]}
    assert words == {"demo_arith": "regression", "demo_choice": "undecided"}
    shown = node.cli("gate", worse_model, "--baseline", "builtin", check=False)
    assert "regression: demo_arith" in shown.stderr
    assert "the model has no score of it" in shown.stderr
    passed = node.cli("gate", "builtin", "--baseline", worse_model, "--json")
    assert json.loads(passed.stdout)["verdict"] == "passed"
    half = node.cli("gate", worse_model, "--baseline", "builtin", "--benchmark", "demo_choice", check=False)
    assert half.returncode == 8
    lenient = node.cli(
        "gate", worse_model, "--baseline", "builtin", "--benchmark", "demo_arith", "--margin", "1", check=False
    )
    assert lenient.returncode == 0
    reply = compare(node, "builtin", worse_model)
    assert (only(reply)["verdict"], reply["only_a"]) == ("worse", ["demo_choice multi_choice_plain"])
