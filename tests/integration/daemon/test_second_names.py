"""Checkpoints under several names, and names as lists show them; a real daemon and stub engines."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.api import router
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.protocol.routes import ROUTES

WORK: dict[str, Any] = {"limit": 6, "only_datasets": ["demo_arith"]}
WHOLE, SHOWN = "rwkv7-g1-0.1b-20260910-ctx4096", "g1-0.1b-20260910"


def copied(original: Path, name: str) -> Path:
    """A whole copy of a checkpoint under another name."""
    path = original.with_name(f"{name}.pth")
    shutil.copyfile(original, path.with_suffix(".new"))
    return path.with_suffix(".new").replace(path)


def hashed(node: Any, name: str) -> None:
    """Until the daemon knows what is in it."""
    node.until(
        lambda: any(item["name"] == name and item.get("sha256") for item in node.api.get("/v1/models").value["items"]),
        f"{name} is hashed",
    )


def scores(node: Any, **query: Any) -> list[tuple[str, str, str]]:
    """(model, job, measured as) of each score."""
    items = node.api.get("/v1/scores", **query).value["items"]
    return [(item["model"], item["job"], item.get("measured_as", "")) for item in items]


def test_a_copy_shows_the_scores_of_its_original_and_is_done(node: Any) -> None:
    original = node.add_model(WHOLE)
    (first,) = node.dispatch(models=[WHOLE], **WORK)
    node.wait_for_state(first, "done")
    copied(original, "copy")
    hashed(node, "copy")

    (row,) = node.api.post("/v1/plan", {"selection": {"models": ["copy"], **WORK}}).value["rows"]
    assert (row["action"], row["reason"], row["job"]) == ("skip", "done", first)
    assert scores(node) == [(WHOLE, first, ""), ("copy", first, WHOLE)]
    assert scores(node, model="copy") == [("copy", first, WHOLE)]
    assert scores(node, model=WHOLE) == [(WHOLE, first, "")]
    assert "measured as" in node.cli("scores", "--model", "copy", "-o", "tsv").stdout
    exported = json.loads(node.cli("export", "--format", "jsonl", "--model", "copy").stdout)
    assert (exported["model"], exported["job"], exported["measured_as"]) == ("copy", first, WHOLE)
    compared = json.loads(node.cli("compare", "copy", SHOWN, "--json").stdout)
    assert (compared["a"], compared["b"], len(compared["items"])) == ("copy", WHOLE, 1)

    (own,) = node.dispatch(models=["copy"], **WORK, overwrite=True)
    node.wait_for_state(own, "done")
    (both,) = json.loads(node.cli("compare", WHOLE, "copy", "--json").stdout)["items"]
    assert (both["job_a"], both["job_b"]) == (first, own)
    assert scores(node) == [("copy", own, ""), (WHOLE, first, "")], "what was measured under a name is that name's"
    copied(node.add_model("another"), WHOLE)
    hashed(node, WHOLE)
    assert scores(node, model="copy") == [("copy", own, "")]


def test_a_job_whose_work_turns_out_to_be_done_is_done_with_that_score(node: Any) -> None:
    original = node.add_model(WHOLE)
    (first,) = node.dispatch(models=[WHOLE], **WORK)
    node.wait_for_state(first, "done")
    path = copied(original, "copy")
    waited = node.cli(
        "dispatch", "--models", str(path), "--only-datasets", "demo_arith", "--limit", "6", "--wait", "--json"
    )
    reply = json.loads(waited.stdout)
    assert [(score["model"], score["job"]) for score in reply["items"]] == [("copy", first)]
    (second,) = reply["jobs"]
    assert (second["state"], second["reason"]) == ("done", "done")
    assert second["detail"] == f"uses the score of {first} ({WHOLE}), which did the same work"
    for refused in (node.cli("samples", second["id"], check=False), node.cli("regrade", second["id"], check=False)):
        assert refused.returncode != 0
        assert f"of its own: it uses the score of {first} ({WHOLE})" in refused.stderr + refused.stdout
    session = node.job(second["id"])["session"]
    assert scores(node, session=session) == [("copy", first, WHOLE)]
    assert node.cli("regrade", "--session-id", session).returncode == 0
    assert len(json.loads(node.cli("compare", second["id"], first, "--json").stdout)["items"]) == 1

    node.cli("delete", second["id"], "--yes")
    node.cli("undelete", second["id"])
    assert (node.job(second["id"])["reason"], node.job(second["id"])["score"]["job"]) == ("done", first)
    node.cli("delete", first, "--yes")
    lost = node.job(second["id"])
    assert (lost["detail"], "score" in lost) == (
        "the job whose score it used is deleted; dispatch again to measure it",
        False,
    )
    assert node.dispatch(models=["copy"], **WORK) != []


def test_a_name_that_has_other_weights_by_now_shows_no_score_of_the_former_ones(node: Any) -> None:
    original = node.add_model(WHOLE)
    (first,) = node.dispatch(models=[WHOLE], **WORK)
    node.wait_for_state(first, "done")
    copied(original, "copy")
    (second,) = node.dispatch(models=["copy"], **WORK)
    node.wait_for_state(second, "done")
    assert scores(node, model="copy") == [("copy", first, WHOLE)]
    copied(node.add_model("another"), "copy")
    hashed(node, "copy")
    assert scores(node, model="copy") == []


def test_a_job_of_the_same_work_waits_until_the_other_is_over_and_runs_if_that_was_stopped(node: Any) -> None:
    original = node.add_model(WHOLE)
    node.engines_do(answers=2)
    (first,) = node.dispatch(models=[WHOLE], **WORK)
    node.wait_until_some(first, 2)
    names = {}
    for name in ("copy", "late"):
        copied(original, name)
        (names[name],) = node.dispatch(models=[name], **WORK)
    for job in names.values():
        node.until(lambda job=job: node.job(job).get("reason") == "queued", f"{job} waits for {first}")
    waits = f"waits for {first} ({WHOLE}), which does the same work, and will use its score"
    assert node.job(names["copy"])["detail"] == waits
    node.cli("stop", first)
    node.engines_do()
    assert node.wait_for_state(names["copy"], "done")["score"]["model"] == "copy"
    assert node.wait_for_state(names["late"], "done")["score"]["job"] == names["copy"]


@pytest.mark.parametrize("put_aside", ["pause", "hold"])
def test_nobody_waits_for_work_that_does_not_go_on_by_itself(node: Any, put_aside: str) -> None:
    original = node.add_model(WHOLE)
    hashed(node, WHOLE)
    node.cli("pause", "--queue")
    (first,) = node.dispatch(models=[WHOLE], **WORK)
    node.cli(put_aside, first)
    node.cli("resume", "--queue")
    copied(original, "copy")
    (second,) = node.dispatch(models=["copy"], **WORK)
    assert node.wait_for_state(second, "done")["score"]["job"] == second


def test_a_name_is_taken_as_lists_show_it(node: Any) -> None:
    node.add_model(WHOLE)
    (name,) = node.dispatch(models=[SHOWN], **WORK)
    assert node.wait_for_state(name, "done")["model"] == WHOLE
    assert scores(node, model=SHOWN) == [(WHOLE, name, "")]
    assert scores(node, model="rwkv7-g1…ctx4096") == [(WHOLE, name, "")]
    assert [item["job"] for item in node.api.get("/v1/job-log", model=SHOWN).value["items"]] == [name]
    node.cli("pause", "--model", SHOWN)
    assert [pause["name"] for pause in node.api.get("/v1/status").value["pauses"]] == [WHOLE]
    node.cli("resume", "--model", SHOWN)
    assert node.cli("report", str(node.home / "page.html"), "--model", SHOWN).returncode == 0

    node.add_model(WHOLE.replace("4096", "8192"))
    refused = node.cli("scores", "--model", SHOWN, check=False)
    assert refused.returncode == Exit.USAGE
    assert f"{SHOWN} may be {WHOLE}, {WHOLE.replace('4096', '8192')}" in refused.stderr
    both = node.api.post("/v1/plan", {"selection": {"models": [SHOWN], **WORK}}).value
    assert both["models"] == 2, "a pattern may mean several"


def test_paths_and_globs_are_measured_wherever_they_lie_and_two_of_one_name_are_refused(node: Any) -> None:
    outside = node.home.parent / "runs"
    for run in ("one", "two"):
        path = outside / run / "rwkv-final.pth"
        path.parent.mkdir(parents=True)
        shutil.copyfile(node.add_model(run), path)
    words = ["--only-datasets", "demo_arith", "--limit", "6", "--json"]
    reply = json.loads(node.cli("dispatch", "--models", f"{outside}/*/*.pth", "builtin", *words).stdout)
    assert {row["model"] for row in reply["plan"]["rows"]} == {"one-rwkv-final", "two-rwkv-final", "builtin"}
    for job in reply["jobs"]:
        node.wait_for_state(job, "done")
    (one,) = (job for job in reply["jobs"] if node.job(job)["model"] == "one-rwkv-final")
    assert f"--models {outside}/one/rwkv-final.pth" in node.cli("show", one, "--repro").stdout
    (outside / "one.pth").write_bytes(b"another")
    elsewhere = outside / "elsewhere" / "one" / "rwkv-final.pth"
    elsewhere.parent.mkdir(parents=True)
    shutil.copyfile(outside / "two" / "rwkv-final.pth", elsewhere)
    for path, name in ((outside / "one.pth", "runs-one"), (elsewhere, "one-rwkv-final")):
        refused = node.cli("queue", "--models", str(path), *words, check=False)
        taken = name == "one-rwkv-final"
        assert (refused.returncode == Exit.USAGE) is taken
        assert (f"are both called {name}: their scores could not be told apart" in refused.stderr) is taken
    (outside / "one" / "rwkv-final.pth").unlink()
    assert node.cli("queue", "--models", str(elsewhere), *words).returncode == 0, "the other one is gone"
    gone = str(outside / "gone.pth")
    with pytest.raises(RwkvctlError, match="is no checkpoint that can be read"):
        node.api.post("/v1/plan", {"selection": {"models": [gone], "files": [{"path": gone}]}})


def test_every_request_that_names_a_model_takes_a_name_as_lists_show_it() -> None:
    naming = {kind for kind in ROUTES if "model" in kind.__struct_fields__}
    assert naming == set(router.NAMES_A_MODEL)
