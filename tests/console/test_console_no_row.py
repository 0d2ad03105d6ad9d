"""Keys that act on a row, pressed before there is one: they say why they do nothing, and nothing is changed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.http import server
from rwkvctl.protocol.replies import JobsReply

LOADING = "still loading: press the key again"


class HeldBack:
    """Holds the answers of one route back until `free` is set."""

    def __init__(self, node: Any, route: str) -> None:
        self.node, self.route, self.free = node, route, False
        node.answers[route] = self.answer

    def answer(self, request: server.Request) -> server.Response:
        return server.Response(body=self.later(request))

    async def later(self, request: server.Request) -> AsyncIterator[bytes]:
        while not self.free and not request.gone.is_set():
            await asyncio.sleep(0.01)
        yield msgspec.json.encode(self.node.reply(request, None))


async def said(app: Any, pilot: Any, driving: Any, key: str, words: str) -> None:
    """Press a key and wait for what is said; then it is taken away, so that the next key has to say it again."""
    await pilot.press(key)
    await driving.until(app, words)
    app.frame.hush()
    await driving.gone(app, words)


def changes(node: Any) -> list[Any]:
    """The requests so far that change something."""
    return [asked for asked in node.asked if asked[0] == "POST" and asked[1] != "/v1/plan"]


async def test_jobs_that_are_counted_and_not_yet_listed(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.jobs.append(fake_daemon.job(3, "held", reason="held", detail="wait"))
    page = HeldBack(node, "/v1/jobs")
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("3")
        await driving.until(app, "! held 1", "loading…")
        for key in ("u", "s", "p", "e", "H", "plus", "minus", "l", "a", "enter", "space", "y"):
            await said(app, pilot, driving, key, LOADING)
        assert app.places.here.name == "jobs"
        assert not changes(node)
        page.free = True
        await driving.until(app, "j3 ! held")
        await pilot.press("u")
        await driving.until(app, "j3 queued")
        assert [asked[1] for asked in changes(node)] == ["/v1/release"]


@pytest.mark.parametrize(
    ("screen", "route", "keys"),
    [
        ("6", "/v1/zombies", "Kc"),
        ("7", "/v1/benchmarks", "pDf"),
        ("8", "/v1/models", "vD"),
        ("9", "/v1/judge", "e"),
        ("4", "/v1/scores", "cbR"),
    ],
)
async def test_the_keys_of_other_screens(
    node: Any, socket_path: Path, driving: Any, screen: str, route: str, keys: str
) -> None:
    HeldBack(node, route)
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press(screen)
        await driving.until(app, "loading")
        for key in (*keys, "enter"):
            await said(app, pilot, driving, key, LOADING)
        assert not changes(node)


@pytest.mark.parametrize(
    ("where", "route", "keys"),
    [("job j1", "samples", ["enter"]), ("samples j1", "outline", ["enter", "right_curly_bracket"]),
     ("sample j1:0", "outline", ["right_curly_bracket"])],
)  # fmt: skip
async def test_samples_are_not_said_to_be_none_before_they_are_read(
    node: Any, socket_path: Path, driving: Any, where: str, route: str, keys: list[str]
) -> None:
    HeldBack(node, f"/v1/jobs/j1/{route}")
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        app.go(*where.split(" "))
        text = await driving.until(app, "The answer is 8." if "sample " in where else "loading…")
        assert "no samples" not in text
        for key in keys:
            await said(app, pilot, driving, key, "still loading: press the key again")


async def test_keys_with_nothing_to_go_to_or_to_compare(node: Any, socket_path: Path, driving: Any) -> None:
    node.jobs = []
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        app.go("job")
        await said(app, pilot, driving, "right_curly_bracket", "There is no other job")
        app.go("compare")
        await said(app, pilot, driving, "B", "Nothing is compared yet")


async def test_an_empty_list_and_a_filter_that_leaves_nothing(node: Any, socket_path: Path, driving: Any) -> None:
    node.jobs = node.jobs[:1]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("3")
        await driving.until(app, "─ all 1", "j1 ▸")
        await pilot.press("slash", *"job:=j9", "enter")
        await driving.until(app, "0 of 1")
        await said(app, pilot, driving, "s", "Nothing is selected: no row passes the filter job:=j9.")
        await pilot.press("1", "tab")
        await driving.until(app, "Queue 0")
        await said(app, pilot, driving, "s", "Nothing is selected: no jobs are waiting.")
        await pilot.press("p")
        await driving.until(app, "pause the whole queue")


async def test_a_job_that_only_the_list_knows_is_acted_on(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    """The state has the jobs that ended last; the list has all."""
    old = fake_daemon.job(9, "failed", detail="out of memory")
    node.answers["/v1/jobs"] = lambda _: server.Response(
        200, msgspec.json.encode(JobsReply(items=(old, *node.jobs), counts=node.counts(), node="fake"))
    )
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("3")
        await driving.until(app, "j9 ✗ failed")
        await pilot.press("e")
        await driving.until(app, "j9 queued")
