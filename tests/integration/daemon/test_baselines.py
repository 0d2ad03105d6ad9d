"""Baselines at a real daemon: given scores, which are compared unpaired and stand for no work of ours; pinned ones."""

import contextlib
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from other_users import as_user, asked, needs_root
from receiving import receiving

from rwkv_data.scoring.paired_tests import holm
from rwkv_data.scoring.unpaired_tests import fisher
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.baselines import BaselineReply, BaselinesReply

HEADER = "benchmark,kind,metric,value,n\n"


def csv(folder: Path, *rows: str) -> str:
    path = folder / "scores.csv"
    path.write_text(HEADER + "".join(row + "\n" for row in rows))
    return str(path)


def add(node: Any, name: str, path: str, *words: str, code: int = 0) -> dict[str, Any]:
    found = node.cli("baseline", "add", name, "--from", path, *words, "--json", check=False)
    assert found.returncode == code, found.stdout + found.stderr
    if not code:
        msgspec.json.decode(found.stdout.encode(), type=BaselineReply)
    return dict(json.loads(found.stdout))


def give(node: Any, name: str, *scores: tuple[str, str, str, float, int], **more: Any) -> dict[str, Any]:
    """Add scores through the socket."""
    given = [dict(zip(("benchmark", "kind", "metric", "value", "n"), one, strict=True)) for one in scores]
    body = {"baseline": name, "program": "csv", "source": "x.csv", "sha256": "0" * 64, "scores": given} | more
    return dict(node.api.post("/v1/baselines", body).value)


def pins(node: Any) -> list[tuple[str, str]]:
    return [(pin["pattern"], pin["model"]) for pin in baselines(node)["pins"]]


def baselines(node: Any) -> dict[str, Any]:
    reply = node.api.get("/v1/baselines").value
    msgspec.convert(reply, BaselinesReply)
    return dict(reply)


def given_models(node: Any) -> dict[str, int]:
    return {one["model"]: one["scores"] for one in baselines(node)["items"]}


def unpin(node: Any, *patterns: str) -> None:
    for pattern in patterns:
        node.api.post("/v1/baselines/pin", {"pattern": pattern})


def stored(node: Any) -> dict[str, int]:
    """How many rows the store has, by table."""
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite")) as db:
        tables = ("job", "score", "session", "pin")
        return {table: db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables}


class Measured(NamedTuple):
    """The whole sets, as the built-in checkpoint answers them, and some rows of one."""

    arith: dict[str, Any]
    choice: dict[str, Any]
    part: dict[str, Any]

    def row(self, name: str, value: float) -> tuple[str, str, str, float, int]:
        """A score of the same kind and rows, with another value."""
        score = getattr(self, name)["score"]
        return score["benchmark"], score["kind"], score["primary"], value, score["rows"]


@pytest.fixture(scope="module")
def node(module_node: Any) -> Any:
    """A node whose measured jobs stay; each test gives scores to models of its own and removes its pins."""
    return module_node().start()


@pytest.fixture(scope="module")
def measured(node: Any) -> Measured:
    def done(**selection: Any) -> dict[str, Any]:
        (name,) = node.dispatch(**selection)
        return dict(node.wait_for_state(name, "done"))

    return Measured(done(), done(only_datasets=["demo_choice"]), done(limit=20))


def line(row: tuple[Any, ...]) -> str:
    return ",".join(map(str, row))


def test_scores_are_added_once_and_shown_with_an_interval_of_their_own(
    node: Any, measured: Measured, tmp_path: Path
) -> None:
    path = csv(tmp_path, line(measured.row("arith", 0.25)), line(measured.row("choice", 0.5)))
    before = stored(node)
    checked = add(node, "added", path, "--check")
    assert ({one["outcome"] for one in checked["items"]}, stored(node)) == ({"would-add"}, before)

    reply = add(node, "added", path)
    assert [one["outcome"] for one in reply["items"]] == ["added", "added"]
    assert {one["session"] for one in map(node.job, (one["job"] for one in reply["items"]))} == {reply["session"]}
    now = stored(node)
    assert (now["job"], now["score"]) == (before["job"] + 2, before["score"] + 2)

    again = add(node, "added", path)
    assert [(one["outcome"], one["job"]) for one in again["items"]] == [("there", one["job"]) for one in reply["items"]]
    assert again.get("session", "") == ""
    assert stored(node) | {"session": 0} == now | {"session": 0}, "the same numbers again are no new score"
    assert {one["outcome"] for one in add(node, "added", path, "--check")["items"]} == {"there"}

    score = node.job(reply["items"][0]["job"])["score"]
    assert score["metrics"]["accuracy"]["value"] == 0.25
    assert score["metrics"]["accuracy"]["ci_low"] < 0.25 < score["metrics"]["accuracy"]["ci_high"]
    assert (score["rows"], score["provenance"]["given"]) == (measured.arith["score"]["rows"], True)
    assert score["warnings"] == ["given without samples: its interval is from N alone"]
    assert given_models(node)["added"] == 2
    [second] = add(node, "added", csv(tmp_path, line(measured.row("arith", 0.26))))["items"]
    assert node.job(second["job"])["version"] == score["version"] + 1
    assert "2 scores of added added" not in node.cli("baseline", "add", "added", "--from", path).stdout


def test_the_same_numbers_again_leave_no_session_without_jobs(node: Any, measured: Measured) -> None:
    give(node, "again", measured.row("arith", 0.41))
    before = stored(node)
    give(node, "again", measured.row("arith", 0.41))
    assert stored(node) == before


def test_one_bad_score_stores_none_of_the_file(node: Any, measured: Measured, tmp_path: Path) -> None:
    before = stored(node)
    path = csv(tmp_path, line(measured.row("arith", 0.25)), "demo_choice,nothing,accuracy,0.5,10")
    refused = add(node, "bad", path, code=Exit.USAGE)
    assert refused["code"] == "bad-score"
    assert refused["detail"].startswith(f"{path}:3: demo_choice has no kind 'nothing'")
    assert add(node, "bad", path, "--check", code=Exit.USAGE)["code"] == "bad-score"
    assert (
        add(node, "builtin", csv(tmp_path, line(measured.row("arith", 0.2))), code=Exit.USAGE)["code"] == "bad-request"
    )
    assert stored(node) == before
    assert "bad" not in given_models(node)


def test_a_change_that_is_asked_for_again_is_made_once(node: Any, measured: Measured) -> None:
    first = give(node, "once", measured.row("arith", 0.31), request_id="give-once")
    now = stored(node)
    again = give(node, "once", measured.row("arith", 0.31), request_id="give-once")
    assert (again["items"], again["session"]) == (first["items"], first["session"])
    assert stored(node) == now
    assert [one["outcome"] for one in first["items"]] == ["added"]


def test_given_and_measured_are_compared_unpaired_in_one_family_with_what_is_paired(
    node: Any, measured: Measured, tmp_path: Path
) -> None:
    arith = measured.arith["score"]
    value, rows = arith["metrics"]["accuracy"]["value"], arith["rows"]
    theirs = 0.0 if value > 0.5 else 1.0
    alike = measured.choice["score"]["metrics"]["accuracy"]["value"]
    add(node, "far", csv(tmp_path, line(measured.row("arith", theirs)), line(measured.row("choice", alike))))
    reply = json.loads(node.cli("compare", "far", "builtin", "--json").stdout)
    items = {item["benchmark"]: item for item in reply["items"]}
    item = items["demo_arith"]
    assert (item["unpaired"], item["test"], item["rows"], item["job_b"]) == (True, "fisher", rows, measured.arith["id"])
    assert item["p"] == fisher(round(theirs * rows), rows, round(value * rows), rows)
    assert item["verdict"] == ("better" if value > theirs else "worse")
    same = items["demo_choice"]
    assert (same["p"], same["verdict"]) == (1.0, "no difference shown")
    adjusted = holm([one["p"] for one in reply["items"]])
    assert [one["p_holm"] for one in reply["items"]] == adjusted
    table = node.cli("compare", "far", "builtin", "-o", "table").stdout
    assert "(unpaired)" in table
    part = json.loads(node.cli("compare", "far", measured.part["id"], "--json", check=False).stdout)["items"][0]
    assert part["verdict"] == "not comparable"
    assert any(text.startswith("rows: ") for text in part["differs"])


def test_a_given_score_makes_no_work_of_ours_done(node: Any, measured: Measured) -> None:
    [given] = give(node, "worked", measured.row("arith", 0.5))["items"]
    node.add_model("worked")
    with pytest.raises(RefusedError, match="worked is a model of this node"):
        give(node, "worked", measured.row("arith", 0.4))
    (job,) = node.dispatch(models=["worked"])
    assert job != given["job"]
    assert len(node.samples(node.wait_for_state(job, "done")["id"])) == measured.arith["score"]["rows"]
    plan = node.api.post("/v1/plan", {"selection": {"models": ["worked"], "only_datasets": ["demo_arith"]}}).value
    assert [(row["action"], row.get("job", job)) for row in plan["rows"]] == [("skip", job)], "now it is"
    both = node.api.post("/v1/compare", {"a": "worked", "b": "builtin", "benchmarks": ["demo_arith"]}).value["items"]
    assert [(one["job_a"], one.get("unpaired", False)) for one in both] == [(job, False)], "what has samples counts"


def test_pins_are_set_shown_and_removed(node: Any, measured: Measured) -> None:
    give(node, "other", measured.row("arith", 0.5))
    try:
        assert "builtin" in node.cli("baseline", "pin", "builtin").stdout
        node.cli("baseline", "pin", "other", "--for", "built*")
        assert pins(node) == [("built*", "other"), ("*", "builtin")]
        models = {one["name"]: one for one in node.api.get("/v1/models", scored=True).value["items"]}
        assert (models["builtin"].get("baseline"), models["other"].get("baseline")) == ("other", "builtin")
        node.cli("baseline", "pin", "builtin", "--for", "built*")
        assert pins(node) == [("built*", "builtin"), ("*", "builtin")], "a pattern has one pin"
    finally:
        unpin(node, "*", "built*")
    assert pins(node) == []
    gone = node.cli("baseline", "unpin", "--json", check=False)
    assert (gone.returncode, json.loads(gone.stdout)["code"]) == (Exit.NOT_FOUND, "no-such-pin")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "nobody"}, "no-such-score"),
        ({"model": "{job}"}, "bad-request"),
        ({"model": "builtin@1"}, "bad-request"),
        ({"model": "builtin", "pattern": "builtin"}, "bad-request"),
        ({"model": "builtin", "pattern": " "}, "bad-request"),
        ({"model": "builtin", "pattern": "a\x1b[2J"}, "bad-request"),
        ({"model": "builtin", "pattern": "x" * 256}, "bad-request"),
    ],
)
def test_what_is_no_model_or_no_pattern_is_not_pinned(
    node: Any, measured: Measured, body: dict[str, str], code: str
) -> None:
    named = {name: text.replace("{job}", measured.arith["id"]) for name, text in body.items()}
    with pytest.raises(RefusedError) as told:
        node.api.post("/v1/baselines/pin", named)
    assert told.value.code == code
    assert pins(node) == []


def test_gate_takes_the_pinned_baseline_and_refuses_without_one(node: Any, measured: Measured) -> None:
    refused = node.cli("gate", "builtin", "--json", check=False)
    assert refused.returncode not in {Exit.OK, Exit.FAILED, Exit.PARTLY}, "no verdict without a baseline"
    assert "baseline" in json.loads(refused.stdout)["detail"]
    give(node, "poor", measured.row("arith", 0.0))
    give(node, "rich", measured.row("arith", 1.0))
    try:
        node.cli("baseline", "pin", "poor")
        passed = json.loads(node.cli("gate", "builtin", "--benchmark", "demo_arith", "--json").stdout)
        assert (passed["baseline"], passed["verdict"]) == ("poor", "passed")
        worse = node.cli("gate", "poor", "--baseline", "rich", "--json", check=False)
        assert (worse.returncode, json.loads(worse.stdout)["verdict"]) == (Exit.FAILED, "regression")
    finally:
        unpin(node, "*")


def test_a_given_score_is_deleted_like_any_and_counts_no_more(node: Any, measured: Measured) -> None:
    rows = measured.row("arith", 0.11), measured.row("choice", 0.11)
    first, second = (item["job"] for item in give(node, "gone", *rows)["items"])
    assert given_models(node)["gone"] == 2
    node.cli("baseline", "pin", "gone")
    assert "no scores any more" not in node.cli("baseline", "-o", "table").stdout
    node.cli("delete", first, "--yes")
    assert given_models(node)["gone"] == 1
    assert first not in {score["job"] for score in node.api.get("/v1/scores").value["items"]}
    node.cli("delete", second, "--yes")
    assert "gone" not in given_models(node)
    assert "gone (no scores any more)" in node.cli("baseline", "-o", "table").stdout
    models = {one["name"]: one for one in node.api.get("/v1/models", scored=True).value["items"]}
    assert not models["builtin"].get("baseline"), "it is not used"
    unpin(node, "*")
    assert [item["outcome"] for item in give(node, "gone", *rows)["items"]] == ["added", "added"]


def test_so_far_prefers_a_run_of_the_pinned_baseline(new_node: Any) -> None:
    node = new_node()
    for name in ("mine", "pinned"):
        node.add_model(name)
    node.start()

    def done(model: str, **more: Any) -> str:
        (name,) = node.dispatch(models=[model], limit=20, **more)
        node.wait_for_state(name, "done")
        return str(name)

    base, before = done("pinned"), done("mine")
    last = done("mine", overwrite=True)
    assert node.api.get(f"/v1/jobs/{last}/so-far").value["other"] == before
    give(node, "given", ("demo_arith", "free_response", "accuracy", 0.5, 20))
    node.cli("baseline", "pin", "pinned", "--for", "mine")
    assert node.api.get(f"/v1/jobs/{last}/so-far").value["other"] == base
    node.cli("baseline", "pin", "given", "--for", "mine")
    assert node.api.get(f"/v1/jobs/{last}/so-far").value["other"] == before, "a given one has no rows"


def test_a_watch_with_a_baseline_pins_it_for_its_checkpoints_in_the_same_step(
    node: Any, measured: Measured, tmp_path: Path
) -> None:
    folder = tmp_path / "g1x"
    folder.mkdir()
    words = ("watch", "add", str(folder), "--only-datasets", "demo_choice", "--baseline")
    refused = node.cli(*words, "nobody", "--json", check=False)
    assert (refused.returncode, json.loads(refused.stdout)["code"]) == (Exit.NOT_FOUND, "no-such-score")
    assert "compared with those of builtin" in node.cli(*words, "builtin", "--check", "-o", "table").stderr
    assert (pins(node), node.api.get("/v1/watches").value["items"]) == ([], [])
    node.cli(*words, "builtin")
    assert pins(node) == [("g1x-*", "builtin")]
    node.cli("watch", "remove", "g1x")
    assert pins(node) == [("g1x-*", "builtin")], "its scores stay, and what they are compared with"
    unpin(node, "g1x-*")


def test_a_regression_is_told_against_the_pinned_baseline_and_never_for_a_given_score(
    new_node: Any, tmp_path: Path, tools: Any
) -> None:
    with receiving() as (url, told):
        node = new_node()
        node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        (tmp_path / "config" / "rwkvctl").mkdir(parents=True)
        (tmp_path / "config" / "rwkvctl" / "config.toml").write_text(
            f'[[notify]]\nurl = "{url}"\nevents = ["regression"]\n'
        )
        for name in ("mine", "pinned"):
            node.add_model(name)
        node.start()
        (base,) = node.dispatch(models=["pinned"], limit=40)
        node.wait_for_state(base, "done")
        node.cli("baseline", "pin", "pinned")
        give(node, "published", ("demo_arith", "free_response", "accuracy", 0.0, 40))
        node.engines_do(texts={"=": "no sum"})
        (job,) = node.dispatch(models=["mine"], limit=40)
        node.wait_for_state(job, "done")
        tools.wait_for(lambda: told, "it is told", node.log)
        assert [(one["data"]["job"], one["data"]["baseline"]) for one in told] == [(job, "pinned")]


def test_a_backup_keeps_pins_and_given_scores(new_node: Any, tmp_path: Path) -> None:
    node, file = new_node().start(), str(tmp_path / "backup.sqlite")
    give(node, "kept", ("demo_arith", "free_response", "accuracy", 0.5, 20))
    node.cli("baseline", "pin", "kept", "--for", "g1x-*")
    before = baselines(node)
    node.cli("backup", file)
    unpin(node, "g1x-*")
    node.terminate()
    node.cli("restore", file, "--yes")
    node.start()
    after = baselines(node)
    assert (after["pins"], after["items"]) == (before["pins"], before["items"])


@needs_root
def test_a_viewer_sees_baselines_and_changes_none(new_node: Any) -> None:
    place = Path(tempfile.mkdtemp(prefix="rwkvctl-", dir="/tmp"))
    try:
        place.chmod(0o755)
        (place / "rwkvctl").mkdir()
        (place / "rwkvctl" / "config.toml").write_text('socket_group = "64100"\n[roles]\noperator = [64002]\n')
        node = new_node(socket=str(place / "run" / "daemon.sock"))
        node.settings["XDG_CONFIG_HOME"] = str(place)
        node.start()
        score = {"benchmark": "demo_arith", "kind": "free_response", "metric": "accuracy", "value": 0.5, "n": 20}
        body = {"baseline": "m", "program": "csv", "source": "x", "sha256": "", "scores": [score]}
        give_it = asked(node.socket, "/v1/baselines", body)
        pin = asked(node.socket, "/v1/baselines/pin", {"model": "m"})
        look = asked(node.socket, "/v1/baselines")
        viewer, operator = 64001, 64002
        assert as_user(viewer, [64100], give_it)["error"] == "role"
        assert as_user(operator, [64100], give_it)["schema"] == "rwkvctl.baseline/1"
        assert as_user(viewer, [64100], pin)["error"] == "role"
        assert as_user(operator, [64100], pin)["schema"] == "rwkvctl.baselines/1"
        seen = as_user(viewer, [64100], look)
        assert [(one["pattern"], one["model"], one["who"] != "") for one in seen["pins"]] == [("*", "m", True)]
        assert [(one["model"], one["scores"]) for one in seen["items"]] == [("m", 1)]
    finally:
        shutil.rmtree(place)
