"""Backup, restore, migrate and rebuild, on a real daemon's store, in each database."""

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_node import kill_worker


@pytest.fixture
def make(new_node: Callable[..., Any], store_at: Path | str) -> Callable[[], Any]:
    """Makes a node whose store lies in the database of this test."""
    settings = {} if isinstance(store_at, Path) else {"store": store_at}
    return lambda: new_node(**settings)


def results(node: Any) -> dict[str, Any]:
    """Every score and every sample, without what a second computation of the same score may change."""
    found = {}
    for job in node.api.get("/v1/jobs", limit=1000).value["items"]:
        score = dict(job.get("score") or {})
        provenance = score.pop("provenance", {})
        answers = node.answers_of(job["id"])
        samples = [
            (s["row"], s["repeat"], s["value"], s["reason"], s.get("extracted")) for s in node.samples(job["id"])
        ]
        found[job["id"]] = (job["state"], score, sorted(samples), answers, provenance.get("engines"))
    return found


def tool(node: Any, *words: str) -> dict[str, Any]:
    """Run one of the programs; its result."""
    done = node.cli(*words, "--json")
    return dict(json.loads(done.stdout))


def refused(node: Any, *words: str) -> str:
    """Run one that is refused; what it says."""
    done = node.cli(*words, check=False)
    assert done.returncode == 5, (done.returncode, done.stderr)
    return str(done.stderr)


def two_jobs(node: Any) -> list[str]:
    names = [*node.dispatch(limit=12), *node.dispatch(only_datasets=["demo_choice"], limit=8)]
    for name in names:
        node.wait_for_state(name, "done")
    return list(names)


def test_a_backup_of_a_working_daemon_is_put_back(make: Callable[[], Any], tmp_path: Path) -> None:
    node, file = make().start(), tmp_path / "backup.sqlite"
    two_jobs(node)
    before = results(node)
    node.engines_do(answers=25)  # five more than the two jobs had
    (busy,) = node.dispatch(limit=20)
    node.wait_until_some(busy, 5)
    made = tool(node, "backup", str(file))
    assert (made["jobs"], made["bytes"]) == (3, file.stat().st_size)
    assert "is there already" in refused(node, "backup", str(file))
    node.engines_do()
    node.wait_for_state(busy, "done")
    (late,) = node.dispatch(limit=3)
    node.wait_for_state(late, "done")
    assert "Stop it first" in refused(node, "restore", str(file))
    node.terminate()
    assert "holds 4 jobs. `rwkvctl restore --yes`" in refused(node, "restore", str(file))
    put_back = tool(node, "restore", str(file), "--yes")
    assert put_back["jobs"] == 3
    assert Path(put_back["set_aside"]).exists()
    node.start()
    assert node.wait_for_state(busy, "done", "failed")["state"] == "done"
    after = results(node)
    assert {name: after[name] for name in before} == before
    (again,) = node.dispatch(only_datasets=["demo_choice"], limit=5)
    assert again == late, "its number is free"
    assert node.wait_for_state(again, "done")["score"]["n"] == 5
    node.terminate()


def test_a_file_that_is_no_backup_changes_nothing(make: Callable[[], Any], tmp_path: Path) -> None:
    node, file = make(), tmp_path / "b.sqlite"
    file.write_bytes(b"no database" * 1000)
    done = node.cli("restore", str(file), check=False)
    assert done.returncode == 1
    assert "is no whole backup" in done.stderr
    with contextlib.closing(sqlite3.connect(tmp_path / "other.sqlite")) as db:
        db.execute("CREATE TABLE x (y)")
    assert "is no backup of a store" in node.cli("restore", str(tmp_path / "other.sqlite"), check=False).stderr
    assert "there is no file" in node.cli("restore", str(tmp_path / "nothing"), check=False).stderr
    assert not (node.home / "store.sqlite").exists()


def test_a_store_moves_to_postgresql_and_back(new_node: Callable[..., Any], postgres_server: Any) -> None:
    node, url = new_node().start(), postgres_server.database()
    two_jobs(node)
    before = results(node)
    assert "Stop it first" in refused(node, "migrate", "--to", url)
    node.terminate()
    moved = tool(node, "migrate", "--to", url)
    assert moved["rows"]["sample"] == 20
    assert "holds rows already" in refused(node, "migrate", "--to", url)
    assert "give --to or --from" in node.cli("migrate", check=False).stderr
    for file in node.home.glob("store.sqlite*"):
        file.unlink()
    node.settings["RWKVCTL_STORE"] = url
    node.start()
    assert results(node) == before
    (more,) = node.dispatch(limit=4)
    node.wait_for_state(more, "done")
    before = results(node)
    node.terminate()
    del node.settings["RWKVCTL_STORE"]
    tool(node, "migrate", "--from", url)
    node.start()
    assert results(node) == before


def test_a_password_is_not_taken_on_the_command_line(new_node: Callable[..., Any]) -> None:
    done = new_node().cli("migrate", "--to", "postgresql://me:hunter2@db/x", check=False)
    assert done.returncode == 2
    assert "must not hold a password" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_pages(path: Path) -> None:
    content, draw = bytearray(path.read_bytes()), random.Random(1)
    for page in draw.sample(range(1, len(content) // 4096), 8):
        content[page * 4096 : page * 4096 + 64] = draw.randbytes(64)
    path.write_bytes(content)


def delete(path: Path) -> None:
    path.unlink()


def test_a_damaged_store_is_rebuilt_from_its_runs(new_node: Callable[..., Any]) -> None:
    node = new_node().start()
    names = two_jobs(node)
    node.api.post("/v1/regrade", {"jobs": [names[0]]})
    before = results(node)
    for damage in (truncate, flip_pages, delete):
        node.terminate()
        damage(node.home / "store.sqlite")
        if damage is not delete:
            refusing = node.refused_start()
            assert refusing.returncode == 1
            assert "`rwkvctl rebuild` sets it aside" in refusing.stderr
        made = tool(node, "rebuild")
        assert (made["jobs"], made["scores"], made["unfinished"], made["problems"]) == (2, 2, [], [])
        assert (made["set_aside"] != "") == (damage is not delete)
        node.start()
        assert results(node) == before
    (more,) = node.dispatch(limit=3)
    assert more not in names
    node.wait_for_state(more, "done")


def test_a_rebuilt_store_goes_on_where_the_runs_stood(new_node: Callable[..., Any]) -> None:
    node = new_node().start()
    unscored, torn = two_jobs(node)
    before = results(node)
    node.engines_do(answers=40)  # twenty more than the two jobs had
    (busy,) = node.dispatch(limit=50)
    node.wait_until_some(busy, 20)
    node.terminate()
    kill_worker(node.runner_record(busy))  # it goes on without a daemon
    node.engines_do()
    assert "is whole and holds 3 jobs" in refused(node, "rebuild")
    runs = node.home / "runs"
    for file in (*(runs / unscored).glob("score-*.json"), *(runs / torn).glob("row-*.json")):
        file.unlink()
    (runs / "j99").mkdir()
    made = tool(node, "rebuild", "--yes")
    assert (made["jobs"], made["unscored"], made["unfinished"]) == (2, [unscored], [busy])
    assert [problem.split(":")[0] for problem in made["problems"]] == [str(runs / torn), str(runs / "j99")]
    node.start()
    node.wait_for_state(unscored, "done")
    (state, score, *rest), (old_state, old_score, *old_rest) = results(node)[unscored], before[unscored]
    assert (state, rest) == (old_state, old_rest)
    assert score | {"finished": ""} == old_score | {"finished": ""}
    assert node.job(busy)["state"] == "stopped"
    stages = node.job(busy)["stages_done"]
    assert stages == 20
    node.api.post("/v1/resume", {"jobs": [busy]})
    assert node.wait_for_state(busy, "done", "failed")["score"]["n"] == 50
    lines = node.stage_lines(busy)
    assert len(lines) > stages
    assert len(set(lines)) == len(lines), "nothing was generated twice"
