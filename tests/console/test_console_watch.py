"""Watched folders on the console: their checkpoints, scores over the steps, and what the keys change."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.http import server
from rwkvctl.protocol.replies import ErrorReply
from rwkvctl.protocol.states import WatchedState
from rwkvctl.protocol.training.watches import FINAL_STEP
from rwkvctl.protocol.views import MetricView, SuiteView
from rwkvctl.scoreboard.book import Book, Value, score_of
from rwkvctl.tui.options import Options
from rwkvctl.tui.screens.watch import Watch
from rwkvctl.tui.watches import checkpoint_source, score_rows, watch_rows
from rwkvctl.tui.watches.score_rows import ScoreRow

STEPS = (100, 200, 300, 400)


@pytest.fixture
def run(node: Any, fake_daemon: Any) -> Any:
    """The node, which has measured a run of four checkpoints on gsm8k, of which the last is parked and unmeasured."""
    values = (0.25, 0.5, 0.45)
    node.scores = [
        fake_daemon.score(
            step, model=f"g1x-rwkv-{step}", benchmark="gsm8k", kind="cot", primary="accuracy",
            metrics={"accuracy": MetricView(value=value, ci_low=value - 0.05, ci_high=value + 0.05)},
        )
        for step, value in zip(STEPS, values, strict=False)
    ]  # fmt: skip
    parked = fake_daemon.checkpoint(400, "parked", model="", reason="it is not complete")
    node.checkpoints["w1"] = [parked, *(fake_daemon.checkpoint(step) for step in reversed(STEPS[:3]))]
    node.watches = [
        fake_daemon.watch(1, {"done": 3, "parked": 1}),
        fake_daemon.watch(2, {}, name="g2", root="/runs/g2", state="paused"),
    ]
    return node


@asynccontextmanager
async def on_watch(
    driving: Any, socket_path: Path, *words: str, read_only: bool = False
) -> AsyncIterator[tuple[Any, Any]]:
    """The console on the screen Watch, on which these words are seen."""
    async with driving.console(socket_path, (140, 45), Options(read_only=read_only)) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("W")
        await driving.until(app, *words)
        yield app, pilot


def posted(node: Any, path: str) -> list[Any]:
    """The bodies that were posted to a route."""
    return [body for method, asked, _, body in node.asked if (method, asked) == ("POST", path)]


# -- rows


def test_every_state_of_a_checkpoint_has_a_sign_and_is_counted_once() -> None:
    states = set(WatchedState.__args__)  # type: ignore[attr-defined]
    assert states == set(watch_rows.MARKS)
    assert states == watch_rows.OPEN | watch_rows.LEFT_OUT | {"done", "parked"}


def test_what_needs_an_operator_is_counted(fake_daemon: Any) -> None:
    one = fake_daemon.watch(1, {"done": 1_200, "parked": 2})
    two = fake_daemon.watch(2, {}, detail="cannot be read")
    assert watch_rows.tally([one]) == "1 folder, 2 parked"
    assert watch_rows.tally([one, two]) == "2 folders, 2 parked, 1 unreadable"
    assert watch_rows.watch_state_cell(two).text == "unreadable"
    assert watch_rows.title_of(one, 300, "") == "w1 g1x: 300 of 1,202 checkpoints, no baseline is pinned"
    assert watch_rows.title_of(one, 1_202, "qwen") == "w1 g1x: 1,202 checkpoints, baseline qwen"


def test_a_step_is_a_number_final_or_not_known() -> None:
    assert [watch_rows.step_text(step) for step in (1_200, FINAL_STEP, None)] == ["1,200", "final", "–"]


def book_of(*scores: Any) -> Book:
    found = Book()
    found.take(scores)
    return found


def test_scores_stand_in_the_order_of_the_steps_and_other_metrics_are_left_out(fake_daemon: Any) -> None:
    given = {"benchmark": "gsm8k", "kind": "cot"}
    measured = [(300, "accuracy", 0.3), (100, "accuracy", 0.1), (200, "exact", 0.9), (400, "exact", None)]
    scores = [
        fake_daemon.score(
            step, model=f"g1x-rwkv-{step}", primary=metric, metrics={metric: MetricView(value=value)}, **given
        )
        for step, metric, value in measured
    ]
    every = [fake_daemon.checkpoint(step) for step in (100, 300, 200, 400)]
    copy = fake_daemon.checkpoint(500, "superseded", left_out="copy", model="g1x-rwkv-100")
    (row,) = score_rows.rows_of([*every, copy], book_of(*scores).models)
    assert [(one.step, one.read.value) for one in row.scores] == [(100, 0.1), (300, 0.3)]
    assert (row.metric, row.last.step, row.measured) == ("accuracy", 300, 3)
    assert row.curve.title == "gsm8k cot accuracy by checkpoint: 1 by another metric left out"


def test_all_that_is_drawn_is_of_the_same_checkpoints(fake_daemon: Any) -> None:
    values = [5.0] + [40.0] * 45
    known = [
        (
            fake_daemon.checkpoint(step),
            score_of(fake_daemon.score(step, primary="bleu", metrics={"bleu": MetricView(value=value, unit="points")})),
        )
        for step, value in enumerate(values)
    ]
    row = score_rows.row_of(("wmt", "plain"), known)
    assert row is not None
    assert len(row.scores) == len(row.curve.points) == score_rows.DRAWN
    assert (row.scores[0].read.value, score_rows.scale_text(row), row.measured) == (40.0, "39–40", 46)


def test_a_benchmark_without_a_number_has_no_row(fake_daemon: Any) -> None:
    score = fake_daemon.score(1, model="g1x-rwkv-100", metrics={"accuracy": MetricView(value=None)}, primary="accuracy")
    assert score_rows.rows_of([fake_daemon.checkpoint(100)], book_of(score).models) == []


NUMBERS = st.floats(-1e6, 1e6) | st.floats(0, 1) | st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(NUMBERS, min_size=1, max_size=60), st.sampled_from(["share", "points", "perplexity"]))
def test_a_spark_is_drawn_between_the_ends_of_the_scale_that_stands_beside_it(values: list[float], unit: str) -> None:
    scores = tuple(score_rows.CheckpointScore(step, Value(value, unit=unit)) for step, value in enumerate(values))
    row = ScoreRow(("a", "b"), "m", scores, score_rows.curve_of(("a", "b"), "m", scores, 0), len(values))
    low, high = row.curve.scale
    shown = [point.value for point in row.curve.points]
    assert low < high
    assert all(low <= one <= high or math.isclose(one, low) or math.isclose(one, high) for one in shown)
    assert len(score_rows.spark_cell(row).text) == (score_rows.SPARK_CELLS if len(shown) > 1 else 0)
    arrow = " ↓" if unit == "perplexity" else ""
    assert score_rows.scale_text(row) == f"{low:g}–{high:g}{arrow}"


@pytest.mark.parametrize(
    ("more", "text"),
    [({"partial": True}, "50.0~"), ({"errors": 3}, "50.0!"), ({"warnings": ("x",)}, "50.0!"), ({}, "50.0 ")],
)
def test_what_must_be_known_with_a_score_is_marked(fake_daemon: Any, more: Any, text: str) -> None:
    score = fake_daemon.score(1, primary="accuracy", metrics={"accuracy": MetricView(value=0.5)}, **more)
    row = score_rows.row_of(("gsm8k", "cot"), [(fake_daemon.checkpoint(1), score_of(score))])
    assert row is not None
    assert score_rows.score_cell(row.last).text == text


def test_a_command_that_is_shown_can_be_pasted(fake_daemon: Any) -> None:
    (*_, line) = watch_rows.question("w1", "skip", ["a b.pth", "x;rm -rf ~.pth"])
    assert "".join(text for text, _ in line) == "same as  rwkvctl watch skip w1 'a b.pth' 'x;rm -rf ~.pth'"
    many = watch_rows.question("w1", "skip", ["long-name-of-a-checkpoint.pth"] * 20)
    assert not any("same as" in text for line in many for text, _ in line)
    row = fake_daemon.watch(1, {}, name="it's")
    (*_, line) = watch_rows.pin_question(row, fake_daemon.checkpoint(1, model="it's-1"), "other")
    assert "".join(text for text, _ in line).endswith("""--for 'it'"'"'s-*'""")


# -- the screen


async def test_a_folder_shows_its_checkpoints_and_their_scores(run: Any, socket_path: Path, driving: Any) -> None:
    async with on_watch(driving, socket_path) as (app, pilot):
        await driving.until(
            app, "2 folders, 1 parked, 1 paused", "w1 g1x: 4 checkpoints", "✗ parked", "20–60", "45.0 ±5.0"
        )
        assert app.frame.view.command() == "rwkvctl watch show w1"
        await pilot.press("enter")
        await driving.until(app, "gsm8k cot accuracy by checkpoint")
        assert app.frame.view.command() == "rwkvctl feedback w1 rwkv-400.pth"
        await pilot.press("escape", "j")
        await driving.until(app, "no checkpoint is there yet")
        assert app.frame.view.about == "w2"


async def test_keys_retry_skip_and_pin_after_a_question(run: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, (140, 45)) as (app, pilot):
        await driving.until(app, "fake")
        app.go("watch", "w1")
        await driving.until(app, "rwkv-400.pth")
        await pilot.press("enter", "R")
        await driving.until(app, "Retry rwkv-400.pth of w1?", "rwkvctl watch retry w1 rwkv-400.pth")
        await pilot.press("escape")
        await pilot.press("b")
        await driving.until(app, "rwkv-400.pth has no score")
        await pilot.press("R", "y")
        await driving.until(app, "rwkv-400.pth is tried again", "◌ settling")
        await pilot.press("j", "space", "space", "s")
        await driving.until(app, "Skip 2 checkpoints of w1?")
        await pilot.press("y")
        await driving.until(app, "2 checkpoints are left out", "– superseded")
        await pilot.press("backslash", "b")
        await driving.until(app, "Compare the checkpoints of w1 with rwkv-100.pth?")
        await pilot.press("y")
        await driving.until(app, "g1x-*: compared with g1x-rwkv-100")
    asked = [(body["action"], body["checkpoints"]) for body in posted(run, "/v1/watches/change")]
    assert asked == [("retry", ["rwkv-400.pth"]), ("skip", ["rwkv-300.pth", "rwkv-200.pth"])]
    (pin,) = posted(run, "/v1/baselines/pin")
    assert (pin["pattern"], pin["model"]) == ("g1x-*", "g1x-rwkv-100")


async def test_a_folder_is_paused_and_resumed(run: Any, socket_path: Path, driving: Any) -> None:
    async with on_watch(driving, socket_path, "watching") as (app, pilot):
        await pilot.press("p")
        await driving.until(app, "w1 g1x: paused")
        await pilot.press("p")
        await driving.until(app, "w1 g1x: watching")
    assert [body["action"] for body in posted(run, "/v1/watches/change")] == ["pause", "resume"]


async def test_a_read_only_console_changes_nothing(run: Any, socket_path: Path, driving: Any) -> None:
    async with on_watch(driving, socket_path, "rwkv-400.pth", read_only=True) as (app, pilot):
        for keys in (("p",), ("enter", "R"), ("s",), ("j", "b")):
            await pilot.press(*keys)
            await driving.until(app, "read-only")
    assert not posted(run, "/v1/watches/change")


async def test_a_folder_that_is_not_watched_any_more_is_named(run: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, _):
        await driving.until(app, "fake")
        app.go("watch", "w9")
        await driving.until(app, "There is no watch w9.")


async def test_no_folder_is_watched(socket_path: Path, node: Any, driving: Any) -> None:
    async with on_watch(driving, socket_path, "no folder is watched; see `:help watch add`") as (
        app,
        pilot,
    ):
        await pilot.press("R")
        await driving.until(app, "This key acts on checkpoints")


# -- what belongs together


async def test_the_matrix_shows_its_scores_after_this_screen_has_read_them(
    run: Any, socket_path: Path, driving: Any
) -> None:
    async with on_watch(driving, socket_path, "45.0 ±5.0") as (app, pilot):
        await pilot.press("4")
        await driving.until(app, "4 models × 1 · newest first")


async def test_marks_stay_with_their_folder(run: Any, fake_daemon: Any, socket_path: Path, driving: Any) -> None:
    run.checkpoints["w2"] = [fake_daemon.checkpoint(step, id=1_000 + step) for step in (300, 200)]
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("j")
        await driving.until(app, "w2 g2")
        await pilot.press("k", "enter", "j", "space", "escape", "escape", "j", "enter", "s")
        await driving.until(app, "Skip rwkv-300.pth of w2?")
        await pilot.press("y")
        await driving.until(app, "rwkv-300.pth is left out")
    (body,) = posted(run, "/v1/watches/change")
    assert (body["watch"], body["checkpoints"]) == ("w2", ["rwkv-300.pth"])


async def test_keys_in_one_go_act_on_what_is_shown(run: Any, fake_daemon: Any, socket_path: Path, driving: Any) -> None:
    run.checkpoints["w2"] = [fake_daemon.checkpoint(900, id=1_900)]
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("j", "enter", "R")
        said = ("Retry rwkv-900.pth of w2?", "The list is still loading")
        await driving.looking(app, lambda text: any(words in text for words in said), f"one of {said} is seen")
    assert not posted(run, "/v1/watches/change")


async def test_a_file_that_was_written_over_has_two_rows_and_the_older_one_is_not_changed(
    run: Any, fake_daemon: Any, socket_path: Path, driving: Any
) -> None:
    older = fake_daemon.checkpoint(300, id=1, model="g1x-rwkv-300-old")
    run.checkpoints["w1"].append(older)
    run.scores.append(fake_daemon.score(77, model=older.model, benchmark="gsm8k", kind="cot"))
    async with on_watch(driving, socket_path, "rwkv-400.pth", "±") as (app, pilot):
        await pilot.press("enter", "j", "j", "s")
        await driving.until(app, "rwkv-300.pth has other content by now: choose its newest row.")
        assert app.frame.view.command() == "rwkvctl feedback w1 g1x-rwkv-300-old"
        await pilot.press("b")
        await driving.until(app, "refer to g1x-rwkv-300-old")
        await pilot.press("escape")


async def test_a_folder_that_was_added_since_the_last_visit_is_found(
    run: Any, fake_daemon: Any, socket_path: Path, driving: Any
) -> None:
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("1")
        run.watches.append(fake_daemon.watch(3, {"done": 1}, name="new"))
        run.checkpoints["w3"] = [fake_daemon.checkpoint(7, id=7_000, name="fresh.pth")]
        app.go("watch", "w3")
        await driving.until(app, "w3 new: 1 checkpoint", "fresh.pth")
        assert app.frame.view.about == "w3"


async def test_scores_of_rows_that_are_held_back_are_not_shown(run: Any, socket_path: Path, driving: Any) -> None:
    run.suites = [SuiteView(name="nightly", hold_back=True)]
    words = ("rwkv-400.pth", "not shown, since the suite holds rows back")
    async with on_watch(driving, socket_path, *words) as (app, _):
        assert "45.0" not in driving.screen_text(app)


async def test_a_refused_change_is_said(run: Any, socket_path: Path, driving: Any) -> None:
    detail = "rwkv-300.pth has begun: stop its jobs first."
    refused = ErrorReply(code="not-now", detail=detail, hint="", status=409, exit_code=5)
    run.answers["/v1/watches/change"] = lambda _: server.Response(409, msgspec.json.encode(refused))
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("enter", "s", "y")
        await driving.until(app, detail)


# -- what changes meanwhile, and what cannot be read


def refusal(detail: str) -> Any:
    """The answer of a daemon that refuses a request."""
    refused = ErrorReply(code="not-now", detail=detail, hint="", status=503, exit_code=5)
    return lambda _: server.Response(503, msgspec.json.encode(refused))


async def test_the_cursor_and_the_marks_stay_where_they_are_while_a_change_is_read(
    run: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_watch(driving, socket_path, "rwkv-400.pth", "45.0") as (app, pilot):
        await pilot.press("enter", "j", "space")
        view = app.frame.view
        chosen, change = view.checkpoints.chosen, view._change

        async def changed_and_drawn(*words: Any) -> str:
            said: str = await change(*words)
            app.draw()
            return said

        monkeypatch.setattr(view, "_change", changed_and_drawn)
        await pilot.press("s", "y")
        await driving.until(app, "is left out")
        assert view.checkpoints.chosen == chosen
        assert view.targets_in(view.checkpoints) == [str(run.checkpoints["w1"][1].id)]


async def test_a_change_that_leaves_the_counts_as_they_were_is_seen_on_the_next_visit_and_after_r(
    run: Any, socket_path: Path, driving: Any
) -> None:
    def tell(reason: str) -> None:
        run.checkpoints["w1"][0] = msgspec.structs.replace(run.checkpoints["w1"][0], reason=reason)

    async with on_watch(driving, socket_path, "it is not complete") as (app, pilot):
        await pilot.press("1")
        tell("it was cut")
        await pilot.press("W")
        await driving.until(app, "it was cut")
        tell("it was cut again")
        await pilot.press("r")
        await driving.until(app, "it was cut again")


async def test_scores_stay_while_the_daemon_says_not_now(run: Any, socket_path: Path, driving: Any) -> None:
    async with on_watch(driving, socket_path, "45.0 ±5.0") as (app, pilot):
        await pilot.press("1")
        run.answers["/v1/suites"] = refusal("the store does not answer")
        await pilot.press("W")
        await driving.until(app, "the store does not answer", "45.0 ±5.0")


@pytest.mark.parametrize("route", ["/v1/models", "/v1/benchmarks", "/v1/scores"])
async def test_scores_that_cannot_be_read_are_no_loading_ones_and_not_asked_for_at_once_again(
    run: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    monkeypatch.setattr(Watch, "EVERY_S", 0.05)
    run.answers[route] = refusal("the page is damaged")
    async with on_watch(driving, socket_path) as (app, pilot):
        text = await driving.until(app, "the scores cannot be read: the page is damaged", "rwkv-400.pth")
        assert "loading" not in text
        await driving.looking(app, lambda _: asked(run, "/v1/watches") > 5, "it polls")
        assert asked(run, route) == 1
        await pilot.press("enter", "j", "b")
        await driving.until(app, "Watch   2 folders, 1 parked", "the scores cannot be read: the page is damaged")
        del run.answers[route]
        await pilot.press("r")
        await driving.until(app, "45.0 ±5.0")


def asked(node: Any, path: str) -> int:
    """How often a route was asked for."""
    return sum(one[1].partition("?")[0] == path for one in node.asked)


async def test_each_of_several_changes_is_a_command_of_its_own(run: Any, socket_path: Path, driving: Any) -> None:
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("space", "j", "space", "p")
        await driving.until(app, "Pause w1, resume w2?")
        await pilot.press("y")
        await driving.until(app, "w1 g1x: paused; w2 g2: watching")
        assert app.commander.lines[-2:] == ["rwkvctl watch pause w1", "rwkvctl watch resume w2"]


async def test_a_folder_is_paused_from_its_checkpoints_whatever_is_marked_among_the_folders(
    run: Any, socket_path: Path, driving: Any
) -> None:
    async with on_watch(driving, socket_path, "rwkv-400.pth") as (app, pilot):
        await pilot.press("j", "space", "k", "enter", "p")
        await driving.until(app, "w1 g1x: paused")
    (body,) = posted(run, "/v1/watches/change")
    assert (body["watch"], body["action"]) == ("w1", "pause")


async def test_of_a_long_run_the_older_pages_are_read_again_only_when_their_counts_change(
    run: Any, fake_daemon: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "EVERY_S", 0.05)
    monkeypatch.setattr(checkpoint_source, "LISTED", 2)
    run.checkpoints["w1"].insert(0, fake_daemon.checkpoint(500, "settling", model="", reason="written just now"))
    run.watches[0] = fake_daemon.watch(1, {"done": 3, "parked": 1, "settling": 1})

    def pages() -> list[str]:
        return [one[2].get("state", "") for one in run.asked if one[1] == "/v1/watches/w1"]

    async with on_watch(driving, socket_path, "rwkv-500.pth", "rwkv-300.pth") as (app, _):
        await driving.looking(app, lambda _: len(pages()) > 9, "it polls")
        assert sorted(set(pages())) == ["", "done", "parked"]
        assert pages().count("done") <= 2 < pages().count("")
        assert "rwkv-300.pth" in driving.screen_text(app)
