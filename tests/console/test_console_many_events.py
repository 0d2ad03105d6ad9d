"""Events, logs and the audit trail where there are very many of them, or where what they say is hostile."""

from pathlib import Path
from typing import Any

from rwkvctl.protocol.audit import AuditView
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.replies import ErrorReply
from rwkvctl.protocol.service import SettingView
from rwkvctl.tui.options import Options
from rwkvctl.tui.widgets.table import VTable

MANY = 20_000


def event(seq: int, text: str = "") -> Event:
    at = f"2026-11-{1 + seq // 86400:02d}T{seq // 3600 % 24:02d}:{seq // 60 % 60:02d}:{seq % 60:02d}.000Z"
    return Event(kind="job.state", at=at, seq=seq, job=f"j{seq % 997}", text=text or f"event {seq}",
                   data={"state": "failed" if seq % 1000 == 0 else "done"})  # fmt: skip


async def test_very_many_events_are_paged_searched_and_stay_bounded(node: Any, socket_path: Path, driving: Any) -> None:
    node.events = [event(seq) for seq in range(1, MANY + 1)]
    node.events[41] = event(42, "the needle")
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("E")
        await driving.until(app, f"{MANY} · ", "back to")
        table = app.query_one("#view-events #events", VTable)
        book = app.frame.view.book
        book.held = MANY
        assert len(book.rows) == 1000, "one page, until more is wanted"
        await pilot.press("G")
        await driving.until(app, f"{MANY - 999} · ")
        await driving.settled(app)
        assert len(book.rows) <= 3000
        await pilot.press("slash", *"needle", "enter")
        await driving.until(app, "the needle", f"/needle  1 of {MANY}")
        assert len(book.rows) == MANY
        assert table.count == 1
        await pilot.press("escape")
        await pilot.press("v", "v")
        await driving.until(app, f"failures  {MANY // 1000} of {MANY:,}")
        node.tell("daemon", None, "the last straw")
        await pilot.press("v")
        await driving.until(app, "the last straw")
        assert len(book.rows) == MANY, "the oldest is given up"


async def test_hostile_words_in_events_logs_and_the_audit_are_only_seen(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    evil = fake_daemon.EVIL
    node.events = [Event(kind=f"a{evil}", at="2026-11-22T10:00:00.000Z", seq=1, session=evil, text=evil, engine="e1")]
    node.audits = [AuditView(id=1, at=evil, uid=0, gid=0, pid=1, user=evil, verb=evil, target=evil, outcome=evil,
                               data={evil: evil})]  # fmt: skip
    node.settings = [SettingView(name=evil, value=evil, origin=evil, help=evil)]
    node.log = f"{evil}\n"
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        for keys in ("E", "a", "comma", "5"):
            await pilot.press(keys)
            text = await driving.until(app, "]52;c;")
            assert not [char for char in text if char < " " and char != "\n"]
            assert "\u202e" not in text
            assert "[bold]E[/bold]" in text or keys == "comma", "markup is text"


async def test_the_audit_comes_also_while_the_past_of_the_events_is_fetched(
    node: Any, socket_path: Path, driving: Any
) -> None:
    node.audits = [AuditView(id=1, at="2026-11-22T10:00:00.000Z", uid=0, gid=0, pid=1, user="alice", verb="stop",
                               target="j1", outcome="done", data={})]  # fmt: skip
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("E")
        await driving.until(app, "Events, newest first")
        app.frame.view.fetching = True  # as it is while a page is on its way
        await pilot.press("a")
        await driving.until(app, "loading…")
        app.frame.view.fetching = False
        await driving.until(app, "alice")


async def test_a_viewer_is_told_that_the_audit_is_not_for_him(node: Any, socket_path: Path, driving: Any) -> None:
    refusal = ErrorReply(code="role", detail="eve is a viewer here.", hint="Ask who runs it.", status=403)
    node.on_audit = lambda *_: refusal
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("E", "a")
        await driving.until(app, "eve is a viewer here.")


async def test_a_console_that_was_told_to_save_nothing_saves_nothing(
    node: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path, options=Options(read_only=True, files=False)) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("5")
        await driving.until(app, "following")
        for key in ("S", "x"):
            await pilot.press(key)
            await driving.until(app, "writes no files on the node")
            app.frame.hush()
        await pilot.press("E", "x")
        await driving.until(app, "writes no files on the node")
