"""Too little free space: jobs are paused, and go on when there is room again."""

import asyncio

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host import disk
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.jobs.stop_intents import apply
from rwkv_daemon.scheduling.running_jobs import RunningJobs
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs


async def look_at_disk(records: Records, waiting: WaitingJobs, running: RunningJobs) -> None:
    """Pause all jobs while there is too little free space, and resume them afterwards."""
    settings, home = records.config.settings, records.config.home
    free = await asyncio.to_thread(disk.free, home)
    floor, ballast = settings.min_free_disk_bytes, home / "ballast"
    room = disk.judge(free, floor, settings.ballast_bytes, was_low=bool(waiting.pauses.disk))
    if room.give_ballast and disk.give_ballast(ballast):
        log.error("the disk is all but full (%d bytes): the ballast file is removed, so that work can end", free)
    if room.take_ballast:
        await asyncio.to_thread(disk.take_ballast, ballast, settings.ballast_bytes)
    if room.low == bool(waiting.pauses.disk):
        return
    waiting.pauses.disk = disk.sentence(floor, home) if room.low else ""
    await apply(records, waiting.pauses, running)
    text = f"jobs are paused: {waiting.pauses.disk}" if room.low else f"there is room under {home} again: jobs go on"
    async with records.change() as change:
        await change.note("disk", text=text, data={"low": room.low, "free_bytes": free})
