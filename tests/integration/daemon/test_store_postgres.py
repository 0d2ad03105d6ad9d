"""What is PostgreSQL's own: the lock against a second daemon, a server that goes and comes, schemas, a daemon on it."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkv_daemon.changes import event_bus
from rwkv_daemon.store import Store, StoreDamagedError, StoreError, migrations, open_store
from rwkv_daemon.store.postgres import PostgresStore

ASYNCPG = pytest.importorskip("asyncpg", reason="needs asyncpg: not installed")


@pytest.fixture
def url(postgres_server: Any) -> str:
    return str(postgres_server.database())


async def add_event(store: Store, text: str) -> None:
    async with store.write() as db:
        await event_bus.record(db, "daemon", text=text)


async def add_events_while(store: Store, happening: Callable[[], None]) -> None:
    """Two in one transaction, and something happens between them."""
    async with store.write() as db:
        await event_bus.record(db, "daemon", text="lost")
        happening()
        await event_bus.record(db, "daemon", text="lost too")


async def texts(store: Store) -> list[str]:
    return [event.text for event in await event_bus.stored(store, 0)]


async def test_one_store_serves_one_daemon(url: str) -> None:
    first = await open_store(url, "rwkvctl on a")
    with pytest.raises(StoreDamagedError, match=r"in use by rwkvctl on a, and one .*Nothing was changed"):
        await open_store(url, "rwkvctl on b")
    await add_event(first, "one")
    await first.close()
    second = await open_store(url, "rwkvctl on b")
    assert await texts(second) == ["one"]
    await second.close()


async def test_what_is_left_of_the_same_daemon_does_not_lock_it_out(url: str) -> None:
    ghost = await open_store(url, "rwkvctl on a")
    await add_event(ghost, "one")
    store = await open_store(url, "rwkvctl on a")
    await add_event(store, "two")
    assert await texts(store) == ["one", "two"]
    await store.close()
    await ghost.close()


async def test_a_failure_that_is_passed_over_does_not_look_like_a_commit(url: str) -> None:
    store = await open_store(url)
    with pytest.raises(StoreError, match="nothing of it is stored"):
        await pass_over(store)
    assert not await texts(store)
    await add_event(store, "one")
    await store.close()


async def pass_over(store: Store) -> None:
    """Go on after a statement that failed."""
    async with store.write() as db:
        await event_bus.record(db, "daemon", text="lost")
        with contextlib.suppress(StoreError):
            await db.execute("no SQL at all")


async def test_a_server_that_goes_and_comes_back(url: str, postgres_server: Any) -> None:
    store = await open_store(url)
    await add_event(store, "one")
    with pytest.raises(StoreError):
        await add_events_while(store, postgres_server.stop)
    try:
        for _ in range(2):
            with pytest.raises(StoreError, match=r"the PostgreSQL database rwkvctl_\d+ at /"):
                await texts(store)
            with pytest.raises(StoreError):
                await add_event(store, "nobody hears it")
    finally:
        postgres_server.start()
    await add_event(store, "two")
    assert await texts(store) == ["one", "two"]
    await store.close()


async def test_a_store_that_another_daemon_took_meanwhile_is_not_written(url: str) -> None:
    store = await open_store(url, "rwkvctl on a")
    assert isinstance(store, PostgresStore)
    store.writer.terminate()
    other = await open_store(url, "rwkvctl on b")
    with pytest.raises(StoreError, match="in use by rwkvctl on b"):
        await add_event(store, "mine")
    await other.close()
    await add_event(store, "mine again")
    assert await texts(store) == ["mine again"]
    await store.close()


async def test_a_server_that_is_not_there_is_said_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreDamagedError) as refused:
        await open_store("postgresql://me:hunter2@127.0.0.1:1/rwkv")
    assert "the PostgreSQL database rwkv at 127.0.0.1:1" in str(refused.value)
    assert "Nothing was changed" in str(refused.value)
    assert "hunter2" not in str(refused.value) + repr(refused.value.__cause__)


async def test_an_older_schema_is_migrated_and_a_newer_one_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = migrations.migrations()
    monkeypatch.setattr(migrations, "migrations", lambda: every[:2])
    store = await open_store(url)
    async with store.write() as db:
        await db.execute("INSERT INTO event (at, kind, text) VALUES ('2026', 'daemon', 'old')")
    await store.close()
    monkeypatch.setattr(migrations, "migrations", lambda: every)
    store = await open_store(url)
    assert await texts(store) == ["old"]
    rows = await store.all(f"{migrations.APPLIED} ORDER BY version")
    assert [row["version"] for row in rows] == [one.version for one in every]
    await store.close()
    monkeypatch.setattr(migrations, "migrations", lambda: every[:-1])
    with pytest.raises(StoreDamagedError, match="written by a newer rwkvctl"):
        await open_store(url)


async def test_a_migration_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = migrations.migrations()
    bad = migrations.Migration(99, "DELETE FROM event; CREATE TABLE event (x TEXT);")
    store = await open_store(url)
    await add_event(store, "kept")
    await store.close()
    monkeypatch.setattr(migrations, "migrations", lambda: [*every, bad])
    with pytest.raises(StoreDamagedError, match="already exists"):
        await open_store(url)
    monkeypatch.setattr(migrations, "migrations", lambda: every)
    store = await open_store(url)
    assert await texts(store) == ["kept"]
    await store.close()


def test_a_job_goes_on_while_the_server_is_away(
    new_node: Callable[..., Any], url: str, postgres_server: Any, tools: Any
) -> None:
    node = new_node(store=url).start()
    assert url.rpartition("/")[2].partition("?")[0] in node.cli("config", "show").stdout
    node.engines_do(answers=20)
    (name,) = node.dispatch(settings={"k": "8", "temperature": "1.0"}, limit=10)
    node.wait_until_some(name, 20)
    postgres_server.stop()
    node.engines_do()
    try:
        tools.wait_for(lambda: "the store cannot be used since" in node.log(), "the daemon notices", node.log)
        shown = node.cli("status")
        assert "the store has not answered since" in shown.stderr
        assert "the PostgreSQL database" in shown.stderr
        assert node.daemon.poll() is None
    finally:
        postgres_server.start()
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == 80
    places = node.stage_lines(name)
    assert len(set(places)) == len(places), "nothing was generated twice"
    other = new_node(store=url)
    other.start()
    assert other.daemon.wait(LIMIT_S) == 1
    assert "one store serves one daemon" in other.log()
