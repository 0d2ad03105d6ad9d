"""Who gets the next connection: users take turns."""

import asyncio

from rwkv_daemon.store.read_lanes import Turns


async def test_a_user_who_asks_for_much_does_not_delay_another() -> None:
    turns, order = Turns(["c"]), list[str]()

    async def ask(who: str) -> None:
        thing = await turns.take(who)
        order.append(who)
        await asyncio.sleep(0)
        turns.give(thing)

    async with asyncio.TaskGroup() as tasks:
        for who in ("a", "a", "a", "a", "b", "c", "b"):
            tasks.create_task(ask(who))
    assert "".join(order) == "aabcaba"
    assert (turns.free, turns.waiting) == (["c"], {})


async def test_who_gives_up_waiting_loses_nothing() -> None:
    turns = Turns(["c"])
    held = await turns.take("a")
    waiting = [asyncio.ensure_future(turns.take(who)) for who in ("a", "b", "b")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    turns.give(held)  # to the first of b, who gives up in the same moment
    waiting[1].cancel()
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    assert waiting[2].result() == "c"
