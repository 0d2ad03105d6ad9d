"""A suite that holds rows back: the feedback shows the others alone, and who asks for these is written down."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from measured_run import (
    Verdicts,
    checkpoints,
    feedback,
    holm,
    item,
    mcnemar,
    refused,
    until_states,
    until_written,
    write_suite,
)
from other_users import as_user, asked, needs_root
from training_run import TrainingRun

from rwkv_data.definition import registry
from rwkv_data.definition.row_selection import part_of
from rwkv_data.prepare import prepared_sets
from rwkvctl.protocol.errors import Exit

OTHER = """[suites.other]
benchmarks = ["demo_choice"]
"""
SUITE = f"""{OTHER}
[suites.nightly]
benchmarks = ["demo_arith", "demo_choice"]
limit = {{limit}}
objective = ["demo_arith"]
hold_back = true
"""
CUT = """
[suites.cut]
benchmarks = ["demo_arith"]
hold_back = true
[suites.cut.defaults]
max_tokens = 3
"""
"""Sums of three digits are cut off."""
RIGHT = {"rwkv-1.pth": 60, "rwkv-2.pth": 230, "rwkv-3.pth": 130}
BENCHMARKS = ("demo_arith", "demo_choice")
LIMIT = 200


@pytest.fixture(scope="module")
def measured(module_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A node that has measured a run on the first rows of two sets; the second checkpoint is its best and its pinned
    baseline."""
    node, config = module_node(), tmp_path_factory.mktemp("config")
    write_suite(node, config, SUITE.format(limit=LIMIT) + CUT)
    node.start()
    run = TrainingRun(tmp_path_factory.mktemp("runs") / "g1x")
    node.cli("watch", "add", str(run.folder), "--settle", "1", "--policy", "all", "--suite", "nightly")
    for name, right in RIGHT.items():
        run.write(name, right=right)
        until_written(node, name)
        if name == "rwkv-2.pth":
            node.cli("baseline", "pin", "g1x-rwkv-2", "--for", "g1x-*")
    until_states(node, dict.fromkeys(RIGHT, "done"))
    node.run, node.config = run, config
    return node


def rows_of(node: Any, benchmark: str, part: Any) -> set[int]:
    """The rows of a part of a set. The suite asks the first rows, so their numbers are their places in the set."""
    rows = prepared_sets.load_rows(node.home / "data", registry.load(benchmark))
    return set(part_of(range(len(rows)), part, rows))


def parts(node: Any, name: str, part: Any) -> dict[str, Verdicts]:
    """The samples of a checkpoint of a part of the rows, by benchmark."""
    (found,) = (one for one in checkpoints(node) if one["name"] == name)
    named = {node.job(job)["benchmark"]: job for job in found["jobs"]}
    return {key: Verdicts(node, named[key], rows_of(node, key, part)) for key in BENCHMARKS}


def assert_is_of(node: Any, found: dict[str, Any], part: Any) -> None:
    """The feedback on the last checkpoint is of these rows in all that it says."""
    own, best = parts(node, "rwkv-3.pth", part), parts(node, "rwkv-2.pth", part)
    assert found["part"] == part
    ps = [mcnemar(best[key], own[key]) for key in BENCHMARKS]
    for key, p, adjusted in zip(BENCHMARKS, ps, holm(ps), strict=True):
        said = item(found, key)
        assert 0 < len(own[key].rows) < LIMIT
        assert (said["rows"], said["samples"]) == (len(own[key].rows), len(own[key].samples))
        assert said["value"]["value"] == pytest.approx(own[key].value, abs=1e-12)
        assert (said["value"]["ci_low"], said["value"]["ci_high"]) == pytest.approx(own[key].wilson, rel=1e-6)
        assert (said["wrong"], said["lost"]) == (len(own[key].wrong), len(own[key].lost_from(best[key])))
        assert said.get("no_answer", 0) == own[key].reasons["no_answer"]
        assert said.get("warnings", []) == []
        for compared in (said["best"], said["baseline"]):
            assert (compared["rows"], compared["only_a"], compared["only_b"]) == (
                len(own[key].rows), len(best[key].right - own[key].right), len(own[key].right - best[key].right),
            )  # fmt: skip
            assert (compared["a"], compared["b"]) == pytest.approx((best[key].value, own[key].value), abs=1e-12)
            assert compared["p"] == pytest.approx(p, rel=1e-9)
            assert compared["p_holm"] == pytest.approx(adjusted, rel=1e-9)
        assert said["errors"]
        assert {one["row"] for one in said["errors"]} <= own[key].wrong
    values = {one["name"]: one["values"][0]["value"] for one in found["checkpoints"]}
    assert values == {name: pytest.approx(parts(node, name, part)["demo_arith"].value) for name in RIGHT}


def assert_none_of(text: str, node: Any, part: Any) -> None:
    """No row of this part is named, and none of its questions."""
    for key in BENCHMARKS:
        stored = parts(node, "rwkv-3.pth", part)[key]
        assert stored.rows
        for sample in stored.samples:
            assert f'"{sample["row_id"]}"' not in text
            assert f"`{sample['row_id']}`" not in text
            assert json.dumps(sample["stages"][-1]["prompt"]) not in text


def test_all_that_is_shown_is_of_the_rows_for_choosing_settings(measured: Any) -> None:
    found = feedback(measured)
    assert (found["checkpoint"]["name"], found["best"], found["baseline"]) == (
        "rwkv-3.pth",
        "rwkv-2.pth",
        "g1x-rwkv-2",
    )
    assert_is_of(measured, found, "search")
    top = measured.home / "feedback" / "g1x"
    shown = [json.dumps(found), measured.cli("feedback", "w1").stdout]
    written = [path.read_text() for path in top.rglob("feedback.*")]
    assert len(written) == 2 * (len(RIGHT) + 1)
    for text in [*shown, *written]:
        assert_none_of(text, measured, "report")
    assert json.loads((top / "feedback.json").read_text()) | {"as_of": ""} == found | {"as_of": ""}
    assert "the others are held back" in shown[1]


def test_what_watch_wait_says_is_of_the_same_rows(measured: Any) -> None:
    code, found = refused(measured, "watch", "wait", "w1", "--step", "3")
    assert (code, found["verdict"]) == (Exit.FAILED, "regression")
    rows = {one["benchmark"]: one["rows"] for one in found["items"]}
    assert rows == {key: len(part.rows) for key, part in parts(measured, "rwkv-3.pth", "search").items()}


def test_reveal_shows_the_other_rows_and_is_in_the_audit_trail(measured: Any) -> None:
    before = len(measured.api.get("/v1/audit").value["items"])
    found = feedback(measured, "--reveal")
    assert_is_of(measured, found, "report")
    page = measured.cli("feedback", "w1", "rwkv-3.pth", "--reveal").stdout
    for text in (json.dumps(found), page):
        assert_none_of(text, measured, "search")
    every = json.loads(measured.cli("audit", "--json").stdout)["items"]
    items = every[: len(every) - before]
    assert [(one["uid"], one["outcome"]) for one in items] == [(os.getuid(), "done")] * 2
    assert all("reveal" in one["verb"] and "w1" in one["target"] for one in items), items
    assert "rwkv-3.pth" in items[0]["target"]
    best, revealed = feedback(measured, "--best"), feedback(measured, "--best", "--reveal")
    assert revealed["checkpoint"]["name"] == revealed["best"] == best["best"]
    assert revealed["best_why"] == best["best_why"], "it is found on the rows that are shown"
    assert revealed["part"] == "report"
    shown = [path.read_text() for path in (measured.home / "feedback").rglob("feedback.*")]
    assert all('"report"' not in text for text in shown), "what was revealed is not written"


def test_without_its_suite_nobody_knows_what_is_held_back_and_nothing_is_shown(measured: Any) -> None:
    before = sorted((measured.home / "feedback").rglob("*"))
    write_suite(measured, measured.config, OTHER)
    measured.cli("reload")
    try:
        for words in ((), ("--reveal",), ("--best",), ("rwkv-1.pth",)):
            code, refusal = refused(measured, "feedback", "w1", *words)
            assert (code, refusal["code"]) == (Exit.REFUSED, "no-such-suite")
            assert "cannot be told" in refusal["detail"]
        assert refused(measured, "watch", "wait", "w1", "--step", "3")[0] == Exit.REFUSED
    finally:
        write_suite(measured, measured.config, SUITE.format(limit=LIMIT) + CUT)
        measured.cli("reload")
    assert feedback(measured)["part"] == "search"
    assert sorted((measured.home / "feedback").rglob("*")) == before


def test_a_warning_is_of_the_rows_that_are_shown(measured: Any) -> None:
    run = TrainingRun(measured.run.folder.with_name("cut"), written=50)
    measured.cli("watch", "add", str(run.folder), "--settle", "1", "--suite", "cut")
    run.write("rwkv-1.pth", right=230)
    until_states(measured, {"rwkv-1.pth": "done"}, "cut")
    shares = set()
    for flags, part in (((), "search"), (("--reveal",), "report")):
        (said,) = feedback(measured, *flags, watch="cut")["items"]
        assert said["rows"] == len(rows_of(measured, "demo_arith", part))
        share = 100 * said["truncated"] / said["samples"]
        assert said["warnings"] == [f"{share:.1f} % of the samples were cut off at the token limit: raise max_tokens"]
        shares.add(share)
    assert len(shares) == 2
    measured.cli("watch", "remove", "cut")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user of the machine may pass; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvctl-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_a_viewer_reads_feedback_and_may_not_reveal(new_node: Any, place: Path) -> None:
    (place / "rwkvctl").mkdir()
    (place / "rwkvctl" / "config.toml").write_text('socket_group = "64100"\n[roles]\noperator = [64002]\n')
    node = new_node(socket=str(place / "run" / "daemon.sock"))
    node.settings["XDG_CONFIG_HOME"] = str(place)
    node.start()
    viewer, operator = 64001, 64002
    reveal = asked(node.socket, "/v1/watches/reveal", {"watch": "w1"})
    look = asked(node.socket, "/v1/watches/w1/feedback")
    assert as_user(viewer, [64100], reveal)["error"] == "role"
    assert as_user(operator, [64100], reveal)["error"] == "no-such-watch"
    assert as_user(viewer, [64100], look)["error"] == "no-such-watch"
    trail = [(one["uid"], one["outcome"]) for one in node.api.get("/v1/audit").value["items"]]
    assert trail == [(operator, "refused: no-such-watch"), (viewer, "refused: role")]
