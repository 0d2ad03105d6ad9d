"""Periodic maintenance of the store: checking all of a large file, and deleting replies that nobody asks for again."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.bulk import forget_orders
from rwkv_daemon.store.queries.jobs import forget_replies
from rwkv_daemon.store.queries.verdicts import forget_texts

EVERY_S: Final = 3600.0
REPLIES_KEPT: Final = dt.timedelta(days=7)
"""A client repeats a request within minutes; a week is ample."""


async def keep_house(records: Records, engines: Engines) -> None:
    """Check once, then tidy up every hour, until cancelled."""
    if not records.store.checked:
        await look_for_damage(records)
    while True:
        try:
            await tidy(records)
            await remove_torn(records, engines)
        except StoreError as error:
            log.warning("the store is not tidied up: %s", error)
        except OSError as error:
            log.warning("the runs are not tidied up: %s", error)
        await asyncio.sleep(EVERY_S)


async def look_for_damage(records: Records) -> None:
    """Report if the file is damaged. What runs goes on, and what can still be stored is."""
    try:
        problem = await records.store.damage()
    except StoreError as error:
        problem = str(error)
    if problem:
        text = (
            f"the store is damaged ({problem}); stop the daemon and run `rwkvctl rebuild`, which sets it aside, or "
            "`rwkvctl restore`"
        )
        log.error("%s", text)
        records.notes.append(text)


async def remove_torn(records: Records, engines: Engines) -> None:
    """Remove temporary files of engines that are gone, left by a daemon or a shim that was killed while it replaced a
    file."""
    living = {f"e{number}" for number in (*engines.live, *engines.leasing.launching)}

    def remove() -> list[Path]:
        torn = [path for path in records.config.runs_dir.glob("engines/e*/*.tmp") if path.parent.name not in living]
        for path in torn:
            path.unlink(missing_ok=True)
        return torn

    if torn := await asyncio.to_thread(remove):
        log.info(
            "%d files that were never finished were removed below %s", len(torn), records.config.runs_dir / "engines"
        )


async def tidy(records: Records, at: dt.datetime | None = None) -> None:
    """Delete replies that are older than a week, the daemon's own and those of endpoints."""
    before = (at or dt.datetime.now(dt.UTC)) - REPLIES_KEPT
    async with records.store.write() as db:
        await forget_replies(db, before.strftime("%Y-%m-%dT%H:%M:%SZ"))
        await forget_orders(db, before.strftime("%Y-%m-%dT%H:%M:%SZ"))
        await forget_texts(db, before.strftime("%Y-%m-%dT%H:%M:%SZ"))
