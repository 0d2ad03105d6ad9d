"""One job against a real daemon: as it runs, as it is over, and what it writes now. Every key."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import soon

from rwkvctl.http import server
from rwkvctl.protocol.replies import NowReply
from rwkvctl.tui.screens.job import Job


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60)])
async def test_a_job_that_is_over_shows_its_score_beside_the_last_run(
    measured: Any, pressing: Any, size: tuple[int, int]
) -> None:
    async with pressing(measured, size=size) as hands:
        hands.app.go("job", "j5")
        text = await hands.see(
            "j5  rwkv7-g1", "✓ done", "40/40", "first 40 rows only", "same 40 rows in j", "Samples, newest"
        )
        assert all(len(line) <= size[0] for line in text.splitlines())
        assert "Now generating" not in text


async def test_settings_provenance_and_the_command_that_repeats_it(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(120, 60)) as hands:
        hands.app.go("job", "j2")
        await hands.see("✓ done")
        again = "rwkvctl dispatch --models builtin --only-datasets demo_arith"
        await hands.press("c", see=(again, "stages.answer.sampling", "provenance"))
        await hands.press("c", see="Samples, newest first")
        await hands.press("c", see="Settings")
        await hands.press("escape", see="Samples, newest first")
        await hands.press("Y", see="copied by terminal: rwkvctl show j2")


async def test_jobs_samples_and_log_are_reached_from_it(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        hands.app.go("job", "j2")
        await hands.see("✓ done", "Samples, newest first")
        await hands.press("right_curly_bracket")
        await hands.gone("Jobs › j2")
        await hands.press("left_curly_bracket", see="Jobs › j2")
        for key, place in (("a", "samples"), ("l", "logs"), ("enter", "sample")):
            await hands.press(key)
            await hands.settled()
            assert hands.app.places.here.name == place
            assert hands.app.places.here.about.startswith("j2")
            await hands.press("left_square_bracket")
            await hands.settled()
            assert hands.app.places.here[:2] == ("job", "j2")


async def test_the_sample_that_is_being_generated_streams_freezes_and_gives_way_to_the_next(
    fresh: Any, pressing: Any
) -> None:
    fresh.engines_do(answers=30)
    fresh.dispatch(limit=36)  # all of them are rows that the job before has, too
    fresh.wait_until_some("j8", 1)
    async with pressing(fresh, "▸ generating") as hands:
        await hands.press("enter", see=("Jobs › j8", "▸ generating", "Now generating  row", "of at most 8 tokens"))
        await hands.see(" Q  ", "batch ")
        view = hands.app.query_one(Job)
        first = view.now
        assert first is not None
        assert first.count > 1
        await hands.press("f", see="frozen, f continues")
        kept = view.now
        await hands.press("right_parenthesis")
        await hands.settled()
        await soon(lambda: view.now is not kept, "the next sample is shown")
        after = view.now
        await hands.press("left_parenthesis")
        await soon(lambda: view.now is not after, "the sample before is shown")
        await hands.press("f")
        await hands.gone("frozen")
        await hands.see("so far", "same")
        await hands.press("s", see="Stop j8?")
        await hands.press("y", see="j8 stopped · U undoes this: rwkvctl resume j8")
        await hands.see("‖ stopped")


async def test_verbs_act_on_the_job_itself_and_can_be_undone(fresh: Any, pressing: Any) -> None:
    fresh.cli("pause", "--queue")
    (job,) = fresh.dispatch(limit=3)
    async with pressing(fresh, "the queue is paused") as hands:
        hands.app.go("job", job)
        await hands.see("Jobs › j8", "◌ queued", "the queue is paused by")
        await hands.press("plus", see=("priority 1", "U undoes this: rwkvctl priority j8 0"))
        await hands.press("U", see="priority 0")
        await hands.press("minus", see="priority -1")
        await hands.press("H", *"later", "enter", see=("! held", "later"))
        await hands.press("u", see="◌ queued")
        await hands.press("p", "enter", see="j8 paused · U")
        await hands.press("e", see="j8 queued · U undoes this: rwkvctl pause j8")
        await hands.press("U", see="j8 paused")


async def test_a_failed_job_says_what_is_to_blame_and_what_to_do(
    tmp_path: Path, pressing: Any, fake_daemon: Any
) -> None:
    failed = fake_daemon.job(
        4, "failed", failure="infrastructure", detail="the engine ran out of memory twice " + "x" * 90
    )
    node = fake_daemon.Node(
        jobs=[failed, fake_daemon.job(5, "held", reason="data-missing", detail="no rows of ifeval")]
    )
    node.socket = tmp_path / "d.sock"
    with fake_daemon.serving(node.socket, node):
        async with pressing(node, size=(80, 24)) as hands:
            hands.app.go("job", "j4")
            await hands.see("✗ failed", "infrastructure: the engine ran out of memory", "press e to retry", "remedy")
            await hands.press("e", see="j4 queued")
            hands.app.go("job", "j5")
            await hands.see("no rows of ifeval", "data prepare NAME")


async def test_hostile_text_that_is_being_generated_is_shown_and_not_obeyed(
    tmp_path: Path, pressing: Any, fake_daemon: Any
) -> None:
    node = fake_daemon.Node()
    reply = NowReply(count=1, sample="e1/1.1.0.0.0.0/0", prompt=fake_daemon.EVIL, text=fake_daemon.EVIL * 3, tokens=9)
    node.answers["/v1/jobs/j1/now"] = lambda _: server.Response(200, msgspec.json.encode(reply))
    node.socket = tmp_path / "d.sock"
    with fake_daemon.serving(node.socket, node):
        async with pressing(node, size=(80, 24)) as hands:
            hands.app.go("job", "j1")
            text = await hands.see("Now generating", "␛]52;c;")
            assert not set(text) & set("\x1b\x07\x9b\u202e\u200b\r")
