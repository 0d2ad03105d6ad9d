"""The task that fills the outbox as events come, and runs one courier for each target."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.notify.delivery import Courier
from rwkv_daemon.notify.outbox import OutboxPosition, begin, fill
from rwkv_daemon.notify.targets import Notifications
from rwkv_daemon.store import StoreError
from rwkv_daemon.store.queries.notifications import abandon, prune
from rwkvctl.settings.notify import NotifyTarget

KEPT: Final = timedelta(days=7)
PRUNE_S: Final = 86400.0
LOOK_S: Final = 1.0
AGAIN_S: Final = 10.0


@dataclass(slots=True)
class OutboxTask:
    """The position in the events, and the couriers."""

    records: Records
    catalogue: NodeCatalogue
    comparisons: Comparisons
    notifications: Notifications
    tasks: asyncio.TaskGroup
    place: OutboxPosition | None = None
    couriers: dict[NotifyTarget, tuple[Courier, asyncio.Task[None]]] = field(default_factory=dict)
    pruned: float = -PRUNE_S

    async def look(self) -> None:
        """Put notices of new events into the outbox; before that, follow changed targets and delete old notices."""
        notify = self.notifications
        if notify.changed.is_set():
            self.place = await begin(self.records, notify.targets, notify.since)
            await self.only_for(notify.targets)
            notify.changed.clear()
        if time.monotonic() - self.pruned > PRUNE_S:
            before = (datetime.now(UTC) - KEPT).isoformat(timespec="seconds")
            async with self.records.store.write() as db:
                await prune(db, before)
            self.pruned = time.monotonic()
        if self.place is None or self.records.bus.last <= self.place.seq:
            return
        if await fill(self.records, self.catalogue, self.comparisons, notify.targets, self.place):
            for courier, _ in self.couriers.values():
                courier.wake.set()

    async def only_for(self, targets: tuple[NotifyTarget, ...]) -> None:
        """Run one courier for each target; notices for other targets are given up. A target whose table has changed
        gets a new courier, which sends again what was in progress."""
        async with self.records.store.write() as db:
            await abandon(db, [target.name for target in targets])
        for target in self.couriers.keys() - set(targets):
            self.couriers.pop(target)[1].cancel()
        for target in targets:
            if target not in self.couriers:
                courier = Courier(self.records, target)
                task = self.tasks.create_task(courier.run(), name=f"notify {target.name}")
                self.couriers[target] = courier, task


async def notify_forever(
    records: Records, catalogue: NodeCatalogue, comparisons: Comparisons, notifications: Notifications
) -> None:
    """Send notices until cancelled. An error never ends the daemon; what could not be done is done later."""
    notifications.changed.set()
    async with asyncio.TaskGroup() as tasks:
        service = OutboxTask(records, catalogue, comparisons, notifications, tasks)
        while True:
            try:
                await service.look()
            except StoreError:  # the supervisor reports it; events wait in the store
                await asyncio.sleep(AGAIN_S)
            except Exception:  # noqa: BLE001 - logged, and tried again
                log.exception("notifications cannot be made; it is tried again")
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(LOOK_S)
