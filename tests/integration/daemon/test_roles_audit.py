"""The audit trail of a real daemon: with the change or not at all, and never rewritten."""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_daemon.changes import audit
from rwkv_daemon.rules.roles import Actor
from rwkv_daemon.store import Store
from rwkvctl.protocol.audit import AuditRequest
from rwkvctl.protocol.errors import RwkvctlError

ALICE = Actor(1001, 1001, 4711, "alice")


def rows(home: Path, sql: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(home / "store.sqlite", timeout=LIMIT_S)) as store:
        return store.execute(sql).fetchall()


async def test_entries_come_back_newest_first_page_by_page_and_narrowed(store: Store) -> None:
    async with store.write() as db:
        for number in range(5):
            await audit.record(db, ALICE, "stop", f"j{number}", "done", {"n": number})
        await audit.record(db, Actor(-1, -1, 0, "ci"), "dispatch", "s1", "refused: role")
    first = await audit.trail(store, AuditRequest(limit=4))
    assert [item.target for item in first.items] == ["s1", "j4", "j3", "j2"]
    second = await audit.trail(store, AuditRequest(limit=4, before=first.next))
    assert ([item.target for item in second.items], second.next) == (["j1", "j0"], 0)
    assert second.items[1].data == {"n": 0}
    for narrowed in (AuditRequest(user="ci"), AuditRequest(user="-1"), AuditRequest(verb="dispatch")):
        assert [item.target for item in (await audit.trail(store, narrowed)).items] == ["s1"]
    assert len((await audit.trail(store, AuditRequest(user="1001", since=first.items[-1].at))).items) >= 3
    assert not (await audit.trail(store, AuditRequest(since="9999"))).items


async def test_an_entry_is_rolled_back_with_its_change(store: Store) -> None:
    async def fail() -> None:
        async with store.write() as db:
            await audit.record(db, ALICE, "stop", "j1", "done")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not (await audit.trail(store, AuditRequest())).items


@pytest.mark.parametrize(("point", "there"), [("before-dispatch-commit", 0), ("after-dispatch-commit", 1)])
def test_a_dispatch_and_its_entry_are_there_together(new_node: Callable[..., Any], point: str, there: int) -> None:
    node = new_node().start(RWKVCTL_CRASH_AT=point)
    with pytest.raises(RwkvctlError):
        node.dispatch(limit=1)
    assert node.daemon.wait(LIMIT_S) < 0
    sessions = [row[0] for row in rows(node.home, "SELECT id FROM session")]
    assert len(sessions) == there
    entries = rows(node.home, "SELECT target, uid, pid, verb, outcome FROM audit")
    assert entries == [(session, os.getuid(), os.getpid(), "dispatch", "done") for session in sessions]


def test_whenever_the_daemon_is_killed_each_change_has_its_entry(node: Any) -> None:
    node.api.post("/v1/pause", {"queue": True})  # nothing is run: what is asked for is the point
    done = threading.Event()

    def sessions() -> int:
        return len(rows(node.home, "SELECT id FROM session"))

    def keep_asking() -> None:
        while not done.is_set():
            with contextlib.suppress(RwkvctlError, OSError):
                node.dispatch(limit=1, overwrite=True)
            done.wait(0.005)  # the daemon may be away for a while

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        for _ in range(3):
            known = sessions()
            wait_for(lambda known=known: sessions() >= known + 2, "two more dispatches are stored", node.log)
            node.kill()
            node.start()
    finally:
        done.set()
        asking.join()
    stored = {row[0] for row in rows(node.home, "SELECT id FROM session")}
    entries = [
        row[0] for row in rows(node.home, "SELECT target FROM audit WHERE verb = 'dispatch' AND outcome = 'done'")
    ]
    assert len(entries) == len(set(entries))
    assert set(entries) == stored


def test_the_trail_is_not_rewritten(node: Any) -> None:
    node.api.post("/v1/stop", {"jobs": ["j1"], "request_id": "r1"})
    node.api.post("/v1/stop", {"jobs": ["j1"], "request_id": "r1"})
    items = node.api.get("/v1/audit").value["items"]
    assert [item["outcome"] for item in items] == ["repeated", "unchanged"]
    with contextlib.closing(sqlite3.connect(node.home / "store.sqlite", timeout=LIMIT_S)) as store:
        for sql in ("UPDATE audit SET uid = 0", "DELETE FROM audit"):
            with pytest.raises(sqlite3.IntegrityError, match="the audit trail is only added to"):
                store.execute(sql)
    shown = json.loads(node.cli("audit", "--verb", "stop", "--json").stdout)["items"]
    assert shown == items
    assert node.cli("audit", "--since", "yesterday", check=False).returncode == 2
