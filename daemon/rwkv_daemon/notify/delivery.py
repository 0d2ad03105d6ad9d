"""Emptying the outbox: one task per target, so that a slow receiver does not delay others.

Notices of a target are sent in order, each until it was delivered, refused for good, or failed too often. A notice may
be delivered twice (if the daemon dies between sending it and storing that); its id is the same then.
"""

import asyncio
import random
from dataclasses import dataclass, field

import msgspec

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.notify import notify_command, webhook
from rwkv_daemon.notify.delivery_outcome import MOST_TRIES, DeliveryOutcome, wait_s
from rwkv_daemon.notify.rules import Notice
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.notifications import first_waiting, tried
from rwkvctl.settings.notify import NotifyTarget

AGAIN_S = 10.0

decoder = msgspec.json.Decoder(Notice)


async def send(target: NotifyTarget, notice: Notice) -> DeliveryOutcome:
    """Try once to deliver a notice, by the target's command or its webhook; a failure is told in the outcome."""
    if target.command:
        return await notify_command.run(target, notice)
    return await webhook.post(target, notice.id, notice.event, notice.body)


@dataclass(slots=True)
class Courier:
    """Delivers to one target until cancelled. `wake` is set when there may be a new notice."""

    records: Records
    target: NotifyTarget
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    dice: random.Random = field(default_factory=random.Random)

    async def run(self) -> None:
        """Deliver until cancelled. A store that cannot be used (disk full) delays notices and loses none."""
        while True:
            self.wake.clear()
            try:
                await self.empty()
            except StoreError:
                await asyncio.sleep(AGAIN_S)
            except Exception:  # noqa: BLE001 - logged; it waits in the outbox, and nothing else suffers
                log.exception("the notification to %s cannot be sent; it is tried again", self.target.name)
                await asyncio.sleep(AGAIN_S)
            else:
                await self.wake.wait()

    async def empty(self) -> None:
        """Deliver all waiting notices. New notices do not shorten the wait before a retry."""
        while (row := await first_waiting(self.records.store, self.target.name)) is not None:
            outcome = await send(self.target, decoder.decode(row["body"]))
            over = outcome.final or row["tries"] + 1 >= MOST_TRIES
            state = "sent" if not outcome.error else "given-up" if over else "waiting"
            async with self.records.store.write() as db:
                await tried(db, row["id"], state=state, error=outcome.error)
            if outcome.error:
                log.warning("notification %s to %s: %s (%s)", row["event"], self.target.name, outcome.error, state)
            if state == "waiting":
                await asyncio.sleep(wait_s(row["tries"] + 1, self.dice))
