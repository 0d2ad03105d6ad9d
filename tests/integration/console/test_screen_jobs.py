"""The list of jobs against a real daemon, every key; and against one that plays a hundred thousand."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.http import server
from rwkvctl.protocol.replies import JobsReply
from rwkvctl.tui.widgets.table import VTable


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60)])
async def test_every_job_is_listed_newest_first(measured: Any, pressing: Any, size: tuple[int, int]) -> None:
    async with pressing(measured, size=size) as hands:
        text = await hands.press("3", see=("all 7", "j7", "j1", "! held", "✓ done", "demo_choice"))
        assert all(len(line) <= size[0] for line in text.splitlines())
        assert text.index(" j7") < text.index(" j6") < text.index(" j1")


async def test_groups_words_and_expressions_narrow_it(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("3", see=("all 7", "✓ done 6", "! held 1"))
        await hands.press("f", "f", "f", see=("─ held 1", "wait for the new rows"))
        await hands.gone("demo_choice")
        await hands.press("F", "F", "F", see=("─ all 7", "demo_choice"))
        await hands.press("slash", *"own_quiz", see="/own_quiz  2 of 7")
        await hands.press("escape")
        await hands.gone("/own_quiz")
        hands.app.go("jobs", "done own_quiz")
        await hands.see("─ done 2", "with own_quiz")
        await hands.press("slash", "ctrl+u", *"demo_choice", "enter", see=("─ done 1", "with demo_choice"))
        await hands.press("escape", see="─ done 6")
        await hands.press("Y", see="copied by terminal: rwkvctl jobs --state done")


async def test_a_job_its_samples_and_its_log_are_one_key_away(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await hands.press("3", see="j6")
        await hands.press("down", "enter", see=("Jobs › j6", "✓ done"))
        await hands.press("escape")
        await hands.settled()
        assert hands.app.query_one("#jobs", VTable).chosen == "j6"
        await hands.press("a", see="j6 › samples")
        await hands.press("escape", "l", see="j6 · following")
        await hands.press("escape", "D", see="New dispatch")


async def test_what_was_put_aside_is_released_from_here(fresh: Any, measured: Any, pressing: Any) -> None:
    async with pressing(fresh) as hands:
        await hands.press("3", see="─ all 7")  # the counts in the path come before the rows
        await hands.press("u", see="j7 queued · U undoes this: rwkvctl hold j7 --reason 'wait for the new rows'")
        await hands.see("✓ done 7")
        await hands.press("e", see="none is selected")
    assert measured.job("j7")["state"] == "held", "a node of one's own may be changed"


class Many:
    """A hundred thousand jobs, of which a request makes as many as it asks for."""

    def __init__(self, fake: Any, count: int) -> None:
        self.fake, self.count, self.asked = fake, count, list[dict[str, str]]()

    def page(self, request: server.Request) -> server.Response:
        self.asked.append(request.query)
        last = int(request.query.get("before", 0)) or self.count + 1
        wanted = request.query.get("words", "")
        numbers = [n for n in range(last - 1, 0, -1) if not wanted or wanted in f"bench{n % 1000}"]
        found = [self.fake.job(n, "done", benchmark=f"bench{n % 1000}") for n in numbers[: int(request.query["limit"])]]
        more = int(found[-1].id[1:]) if len(found) < len(numbers) else 0
        return server.Response(
            200, msgspec.json.encode(JobsReply(items=tuple(found), counts={"done": self.count}, next=more))
        )


async def test_a_hundred_thousand_jobs_are_read_as_far_as_they_are_looked_at(
    tmp_path: Path, pressing: Any, fake_daemon: Any
) -> None:
    many, node = Many(fake_daemon, 100_000), fake_daemon.Node(jobs=[])
    node.answers["/v1/jobs"] = many.page
    node.socket = tmp_path / "d.sock"
    with fake_daemon.serving(node.socket, node):
        async with pressing(node, size=(80, 24)) as hands:
            await hands.press("3", see=("j100000 ✓ done", "500 read, more below"))
            await hands.press("G", see="1,000 read")
            assert len(many.asked) == 2
            await hands.press("slash", *"bench77", see="of 1000")
            await hands.press("enter", see=("500 read, more below", "bench77"))
            assert many.asked[-1]["words"] == "bench77"
            table = hands.app.query_one("#jobs", VTable)
            assert {row.job.benchmark for row in table.listing.rows} <= {"bench77", *(f"bench77{n}" for n in range(10))}
