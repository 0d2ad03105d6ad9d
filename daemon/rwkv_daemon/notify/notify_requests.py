"""Answers to requests about notifications: the targets, and a test notice."""

import asyncio
import secrets
import time
from typing import Final
from urllib.parse import urlsplit

from rwkv_daemon.changes.records import Records
from rwkv_daemon.notify.delivery import send
from rwkv_daemon.notify.rules import Notice
from rwkv_daemon.notify.targets import Notifications
from rwkv_daemon.store.queries.notifications import last_error, notice_counts
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.notify import NotifyReply, NotifyTest, NotifyTestReply, NotifyView, TriedView
from rwkvctl.settings.notify import EVENTS, NotifyTarget

NOBODY: Final = "There are no notification targets: the configuration has no table [[notify]]."
REMEDY: Final = "See rwkvctl.toml(5), or docs/notifications.md."


async def targets(records: Records, notifications: Notifications) -> NotifyReply:
    """Answer `GET /v1/notify`: every target with its numbers of notices and its last error."""
    counted = await notice_counts(records.store)
    return NotifyReply(
        items=tuple([await view(records, one, counted.get(one.name, {})) for one in notifications.targets])
    )


async def view(records: Records, target: NotifyTarget, counted: dict[str, int]) -> NotifyView:
    """Return a target as clients see it, without secrets, with the number of its notices by state and its last
    error."""
    return NotifyView(
        name=target.name,
        kind=target.kind,
        to=shown(target),
        events=target.events or tuple(EVENTS),
        signed=bool(target.secret_file),
        waiting=counted.get("waiting", 0),
        sent=counted.get("sent", 0),
        given_up=counted.get("given-up", 0),
        last_error=await last_error(records.store, target.name),
    )


def shown(target: NotifyTarget) -> str:
    """Return where notices go, without secrets."""
    if target.command:
        return target.command[0]
    return urlsplit(target.url).hostname or "" if target.url else f"the address in {target.url_file}"


async def test(records: Records, notifications: Notifications, request: NotifyTest) -> NotifyTestReply:
    """Send a test notice and report the result. Raises RefusedError for an unknown target."""
    chosen = [target for target in notifications.targets if request.target in {"", target.name}]
    if not notifications.targets:
        raise RefusedError("no-notify", NOBODY, REMEDY, Exit.NOT_FOUND)
    if not chosen:
        names = ", ".join(target.name for target in notifications.targets)
        raise RefusedError(
            "no-notify", f"There is no [[notify]] {request.target}; there are: {names}.", "", Exit.NOT_FOUND
        )
    async with asyncio.TaskGroup() as tasks:
        tried = [tasks.create_task(test_one(records, target)) for target in chosen]
    return NotifyTestReply(items=tuple(task.result() for task in tried))


async def test_one(records: Records, target: NotifyTarget) -> TriedView:
    """Send one test notice to a target, once, and return how long that took and its error, if any."""
    notice = Notice(
        id=f"{records.hostname}-test-{secrets.token_hex(4)}", event="test", at=now(), node=records.hostname,
        text=f"this is a test of the notifications of {records.hostname}",
    )  # fmt: skip
    before = time.monotonic()
    outcome = await send(target, notice)
    return TriedView(name=target.name, seconds=round(time.monotonic() - before, 3), error=outcome.error)
