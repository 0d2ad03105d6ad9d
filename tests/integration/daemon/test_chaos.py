"""A short night of chaos on a real node, and the proof that its rules notice what they are there to notice."""

import importlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from waiting import LIMIT_S

CHAOS = Path(__file__).resolve().parents[2] / "chaos"
pytestmark = pytest.mark.timeout(900)


def short_night(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, str(CHAOS), "--stub", "--seconds", "15", "--jobs", "9", *words],
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "every rule holds" in done.stdout


def test_every_rule_holds_after_a_short_night() -> None:
    short_night("--seed", "5")


@pytest.mark.slow("kills")
@pytest.mark.usefixtures("postgres_server")
def test_every_rule_holds_where_the_database_crashes_too() -> None:
    short_night("--seed", "8", "--postgres")


HARM = {
    "UPDATE job SET state = 'grading' WHERE id = 1": "j1 is grading: no end",
    "DELETE FROM job WHERE id = 1": "j1 was acknowledged and is not in the store",
    "UPDATE job SET done = done - 1 WHERE id = 1": "j1 is done with 23 of 24 samples",
    "DELETE FROM score WHERE job = 1": "j1 is done and has 0 scores",
    "DELETE FROM grade WHERE sample = 1": "has 24 and 23 grades",
    "UPDATE attempt SET state = 'running' WHERE job = 1": "attempt 1 of j1 is stored as running",
    "UPDATE engine SET state = 'ready' WHERE id = 1": "e1 is stored as ready",
}


def test_the_rules_notice_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHAOS))
    worlds, invariants = importlib.import_module("world"), importlib.import_module("invariants")
    with worlds.world(real_engine=False) as here:
        here.start()
        (name,) = here.node.dispatch(limit=24)
        here.node.wait_for_state(name, "done")
        invariants.wait_until_settled(here, LIMIT_S)
        assert invariants.violated(here, {name: 24}) == []
        for sql, sentence in HARM.items():
            assert any(sentence in said for said in harmed(here, invariants, name, sql)), sql
        (samples,) = here.home.glob(f"runs/{name}/samples-1.jsonl")
        stage = next(line for line in samples.read_text().splitlines() if json.loads(line)["type"] == "stage")
        (samples.parent / "samples-2.jsonl").write_text(stage + "\n")
        assert any("more than once" in said for said in invariants.violated(here, {name: 24}))


def harmed(here, invariants, name: str, sql: str) -> list[str]:
    """What the rules say of a copy of the store with this done to it."""
    path = here.home / "store.sqlite"
    with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(":memory:")) as kept:
        store.backup(kept)
        store.execute("PRAGMA foreign_keys = OFF")
        store.execute(sql)
        store.commit()
        try:
            return list(invariants.violated(here, {name: 24}))
        finally:
            kept.backup(store)
