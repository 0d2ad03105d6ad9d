"""Feedback on the checkpoints of a training run whose best one is known, on a live node."""

import json
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from measured_run import (
    Verdicts,
    feedback,
    holm,
    item,
    mcnemar,
    refused,
    states,
    stored_events,
    until_states,
    until_written,
    write_suite,
)
from training_run import TrainingRun

from rwkvctl.protocol.errors import Exit

SUITE = """[suites.nightly]
benchmarks = ["demo_arith", "demo_choice"]
objective = ["demo_arith"]
"""
RIGHT = {"rwkv-1.pth": 60, "rwkv-2.pth": 130, "rwkv-3.pth": 230, "rwkv-4.pth": 228, "rwkv-5.pth": 90}
COPY = "best.pth"
BENCHMARKS = ("demo_arith", "demo_choice")


@pytest.fixture(scope="module")
def measured(module_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A node that has measured a run: it gets better up to the third checkpoint, stays, and falls. The last one gives
    no number for some sums, and does not end at others. One more is a copy."""
    node = module_node()
    write_suite(node, tmp_path_factory.mktemp("config"), SUITE)
    node.start()
    run = TrainingRun(tmp_path_factory.mktemp("runs") / "g1x")
    node.cli("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite", "nightly")
    *earlier, last = RIGHT
    for name in earlier:
        run.write(name, right=RIGHT[name])
    until_states(node, dict.fromkeys(earlier, "done"))
    node.engines_do(texts={"11+": "no sum", "22+": "x" * 5000})
    run.write(last, right=RIGHT[last])
    until_states(node, dict.fromkeys(RIGHT, "done"))
    node.engines_do()
    shutil.copy(run.folder / "rwkv-1.pth", run.folder / COPY)
    until_states(node, dict.fromkeys(RIGHT, "done") | {COPY: "superseded"})
    until_written(node, *RIGHT)
    node.run = run
    return node


def jobs(node: Any, name: str) -> dict[str, Verdicts]:
    """The samples of a checkpoint by benchmark."""
    found = node.api.get("/v1/watches/w1", checkpoint=name).value["items"][0]["jobs"]
    return {node.job(job)["benchmark"]: Verdicts(node, job) for job in found}


@contextmanager
def pinned(node: Any, model: str) -> Iterator[None]:
    """A baseline for all checkpoints of the run, as long as the block runs."""
    node.cli("baseline", "pin", model, "--for", "g1x-*")
    try:
        yield
    finally:
        node.cli("baseline", "unpin", "g1x-*")


def test_the_known_best_is_found_and_what_fell_is_worse_than_it(measured: Any) -> None:
    found = feedback(measured)
    assert (found["checkpoint"]["name"], found["best"], found["best_model"]) == (
        "rwkv-5.pth",
        "rwkv-3.pth",
        "g1x-rwkv-3",
    )
    assert found["objective"] == ["demo_arith free_response"]
    why = "it is better by demo_arith free_response than rwkv-2.pth, and no later one is shown to be better"
    assert found["best_why"] == why
    assert [one["name"] for one in found["checkpoints"]] == list(RIGHT)
    assert [one["name"] for one in found["checkpoints"] if one.get("best")] == ["rwkv-3.pth"]
    assert (found["asked"], found["done"], found["missing"], found["part"]) == (2, 2, [], "all")
    verdicts = {name: item(feedback(measured, name))["best"] for name in RIGHT if name != "rwkv-3.pth"}
    assert {name: one["verdict"] for name, one in verdicts.items()} == {
        "rwkv-1.pth": "worse",
        "rwkv-2.pth": "worse",
        "rwkv-4.pth": "no difference shown",
        "rwkv-5.pth": "worse",
    }
    best = jobs(measured, "rwkv-3.pth")
    for name, one in verdicts.items():
        own = jobs(measured, name)
        assert one["p"] == pytest.approx(mcnemar(best["demo_arith"], own["demo_arith"]), rel=1e-9)
        ps = [mcnemar(best[key], own[key]) for key in BENCHMARKS]
        assert one["p_holm"] == pytest.approx(holm(ps)[0], rel=1e-9)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_values_and_counts_are_those_of_the_samples(measured: Any, benchmark: str) -> None:
    best = jobs(measured, "rwkv-3.pth")[benchmark]
    for name in RIGHT:
        found, own = item(feedback(measured, name), benchmark), jobs(measured, name)[benchmark]
        value = found["value"]
        assert (value["value"], found["rows"], found["samples"]) == (own.value, len(own.rows), len(own.samples))
        assert (value["ci_low"], value["ci_high"]) == pytest.approx(own.wilson, rel=1e-6)
        assert found.get("truncated", 0) == (own.truncated if benchmark == "demo_arith" else 0)
        assert found.get("no_answer", 0) == own.reasons["no_answer"]
        assert found["wrong"] == len(own.wrong)
        if name != "rwkv-3.pth":
            assert (found["lost_against"], found["lost"]) == ("rwkv-3.pth", len(own.lost_from(best)))
            assert (found["best"]["only_a"], found["best"]["only_b"]) == (
                len(best.right - own.right),
                len(own.right - best.right),
            )
        assert not found.get("collapsed")
    last = item(feedback(measured), "demo_arith")
    assert last["truncated"] > 0 < last["no_answer"]


def test_error_samples_are_wrong_and_what_was_right_comes_first(measured: Any) -> None:
    found, best = feedback(measured), jobs(measured, "rwkv-3.pth")
    for benchmark in BENCHMARKS:
        own, shown = item(found, benchmark), item(found, benchmark)["errors"]
        verdicts = jobs(measured, "rwkv-5.pth")[benchmark]
        stored = {one["row"]: one for one in verdicts.samples}
        lost = verdicts.lost_from(best[benchmark])
        assert len(shown) == min(10, own["wrong"]) == len({one["row"] for one in shown})
        assert [one.get("was_right", False) for one in shown] == [True] * min(10, len(lost)) + [False] * max(
            0, 10 - len(lost)
        )
        for one in shown:
            sample = stored[one["row"]]
            assert one["row"] in verdicts.wrong
            assert one.get("was_right", False) == (one["row"] in lost)
            assert (one["reason"], one.get("answered"), one["expected"], one["row_id"]) == (
                sample["reason"], sample.get("extracted"), sample["expected"], sample["row_id"],
            )  # fmt: skip
            stage = sample["stages"][-1]
            assert stage["completion"].endswith(one.get("output", ""))
            assert stage["prompt"].endswith(one["question"])
            assert one.get("cut", False) == (benchmark == "demo_arith" and stage["stop"] == "length")
    assert len({one["reason"] for one in item(found)["errors"]}) > 1, "one of each reason comes first"


def test_the_command_of_an_error_sample_shows_that_row(measured: Any) -> None:
    for one in [shown for each in feedback(measured)["items"] for shown in (each["errors"][0], each["errors"][-1])]:
        program, *words = shlex.split(one["command"])
        assert program == "rwkvctl"
        (sample,) = json.loads(measured.cli(*words, "--json").stdout)["items"]
        assert (sample["row"], sample["repeat"], sample["expected"]) == (one["row"], 0, one["expected"])
    page = measured.cli("feedback", "w1").stdout
    assert all(one["command"] in page for one in item(feedback(measured))["errors"])


def test_a_checkpoint_is_found_by_each_of_its_names(measured: Any) -> None:
    path = str(measured.run.folder / "rwkv-2.pth")
    for words in (("--step", "2"), ("rwkv-2.pth",), ("g1x-rwkv-2",), (path,)):
        assert feedback(measured, *words)["checkpoint"]["name"] == "rwkv-2.pth"
    best = feedback(measured, "--best")
    assert best["checkpoint"]["name"] == best["best"] == "rwkv-3.pth"
    assert all(one.get("best") is None for one in best["items"]), "it is not compared with itself"
    for watch in ("g1x", str(measured.run.folder)):
        assert feedback(measured, watch=watch)["checkpoint"]["name"] == "rwkv-5.pth"


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "says"),
    [
        (("w1", "rwkv-9.pth"), Exit.NOT_FOUND, "no-such-checkpoint", "w1 has no checkpoint rwkv-9.pth"),
        (("w1", "--step", "77"), Exit.NOT_FOUND, "no-such-checkpoint", "step 77"),
        (("w1", "--step", "0"), Exit.NOT_FOUND, "no-such-checkpoint", "step 0"),
        (("w1", "rwkv-1.pth", "--step", "2"), Exit.USAGE, "bad-request", "Name a checkpoint, or a step"),
        (("w1", "--step", "2", "--best"), Exit.USAGE, "bad-request", "or the best one"),
        (("w1", "rwkv-2.pth", "--best"), Exit.USAGE, "bad-request", "or the best one"),
        (("w1", COPY), Exit.NOT_FOUND, "not-measured", f"{COPY} is superseded: it is a copy of rwkv-1.pth"),
        (("w7",), Exit.NOT_FOUND, "no-such-watch", "w7"),
        (("w1", "--reveal"), Exit.REFUSED, "nothing-held-back", "its feedback is of all rows"),
    ],
)
def test_what_is_not_there_is_refused_with_a_sentence(
    measured: Any, words: tuple[str, ...], exit_code: int, code: str, says: str
) -> None:
    found, refusal = refused(measured, "feedback", *words)
    assert (found, refusal["code"]) == (exit_code, code)
    assert says in refusal["detail"]


def test_a_watch_without_a_measured_checkpoint_says_where_to_look(measured: Any, tmp_path: Any) -> None:
    (tmp_path / "g1y").mkdir()
    measured.cli("watch", "add", str(tmp_path / "g1y"), "--suite", "nightly")
    try:
        code, refusal = refused(measured, "feedback", "g1y")
    finally:
        measured.cli("watch", "remove", "g1y")
    assert (code, refusal["code"]) == (Exit.NOT_FOUND, "not-measured")
    assert "rwkvctl watch show" in refusal["hint"]


def test_differences_to_a_pinned_baseline_are_tested_in_one_family(measured: Any) -> None:
    with pinned(measured, "g1x-rwkv-1"):
        found = feedback(measured, "rwkv-2.pth")
        page = measured.cli("feedback", "w1", "rwkv-2.pth").stdout
    base, own = jobs(measured, "rwkv-1.pth"), jobs(measured, "rwkv-2.pth")
    assert found["baseline"] == "g1x-rwkv-1"
    compared = {one["benchmark"]: one["baseline"] for one in found["items"]}
    ps = [mcnemar(base[key], own[key]) for key in BENCHMARKS]
    assert [compared[key]["p"] for key in BENCHMARKS] == pytest.approx(ps, rel=1e-9)
    assert [compared[key]["p_holm"] for key in BENCHMARKS] == pytest.approx(holm(ps), rel=1e-9)
    for key in BENCHMARKS:
        assert compared[key]["difference"]["value"] == pytest.approx(own[key].value - base[key].value, abs=1e-12)
    assert compared["demo_arith"]["verdict"] == "better"
    assert "Against the baseline g1x-rwkv-1: 1 better" in page
    assert found["best"] == "rwkv-3.pth"
    assert "baseline" not in item(feedback(measured, "rwkv-2.pth"))


def test_the_files_are_private_and_say_what_the_reply_says(measured: Any) -> None:
    top = measured.home / "feedback" / "g1x"
    names = {f"g1x-{name.removesuffix('.pth')}" for name in RIGHT}
    assert {path.name for path in top.iterdir()} == names | {"feedback.md", "feedback.json"}
    for path in [top.parent, *top.parent.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert sorted(stored_events(measured)).count(("done", "rwkv-5.pth")) == 1
    last, reply = top / "g1x-rwkv-5", feedback(measured)
    written = json.loads((last / "feedback.json").read_text())
    assert written["as_of"] <= reply["as_of"]
    assert written | {"as_of": ""} == reply | {"as_of": ""}
    shown = measured.cli("feedback", "w1").stdout
    page = (last / "feedback.md").read_text()
    assert re.sub("- As of .*Z on", "", page) == re.sub("- As of .*Z on", "", shown)
    assert page.count("- As of 2") == 1
    for name in ("feedback.md", "feedback.json"):
        assert (top / name).read_bytes() == (last / name).read_bytes(), "the newest lies above"
    second = json.loads((top / "g1x-rwkv-2" / "feedback.json").read_text())
    later = {"as_of", "best", "best_model", "best_why", "checkpoints", "items"}
    known = feedback(measured, "rwkv-2.pth")
    assert {key: second[key] for key in second if key not in later} == {key: known[key] for key in known.keys() - later}
    assert [one["value"] for one in second["items"]] == [one["value"] for one in known["items"]]


def test_an_overview_tells_the_states_of_all(measured: Any) -> None:
    assert states(measured) == dict.fromkeys(RIGHT, "done") | {COPY: "superseded"}
    found = feedback(measured)["checkpoints"]
    values = {one["name"]: one["values"][0]["value"] for one in found}
    assert values == {name: jobs(measured, name)["demo_arith"].value for name in RIGHT}
    assert [one["step"] for one in found] == [1, 2, 3, 4, 5]
