"""Recipes on the console: the list, the funnel and what lies behind it, changes; an original beside its rewriting."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hostile import STORABLE
from hypothesis import given
from hypothesis import strategies as st
from waiting import soon

from rwkvctl.http import server
from rwkvctl.protocol.recipes import FunnelStageView, MixPartView, RecipePaymentView, RecipeSourceView
from rwkvctl.protocol.replies import EndpointsReply, ErrorReply
from rwkvctl.protocol.states import RecipeState
from rwkvctl.protocol.views import SameView, StageView
from rwkvctl.tui.options import Options
from rwkvctl.tui.recipes import funnel_rows, recipe_rows
from rwkvctl.tui.recipes.funnel_rows import Behind, FunnelRow
from rwkvctl.tui.samples.filter import NOTHING, SampleFilter
from rwkvctl.tui.samples.outline import FILTERS
from rwkvctl.tui.samples.summary import about_of, narrowed_by


def source(job: str, **more: Any) -> RecipeSourceView:
    """A job of a recipe."""
    given = {"model": "qwq", "benchmark": "numina_math", "kind": "free_response.chat", "state": "done"}
    return RecipeSourceView(job=job, **(given | {"samples": 100, "done": 100, "right": 60.0} | more))


REWRITING = (source("j90", model="writer", rewrites="j1"), source("j91", model="writer", rewrites="j2"))


def behind(fake_daemon: Any, stage: str, reason: str = "", sources: Any = REWRITING, **more: Any) -> Behind:
    """What enter shows of a row of a funnel with one stage."""
    of = FunnelStageView(name=stage, unit="samples", rows_in=9, rows_out=8, dropped={reason: 1} if reason else {})
    recipe = fake_daemon.recipe(3, more.pop("state", "done"), sources=sources, **more)
    return funnel_rows.behind(FunnelRow(0, of, reason), recipe)


def test_samples_before_a_rewriting_are_those_of_its_source(fake_daemon: Any) -> None:
    wrong = SampleFilter().typing("reason:=wrong")
    assert behind(fake_daemon, "right", "wrong") == Behind(("j1", "j2"), wrong)
    assert behind(fake_daemon, "check again", "wrong") == Behind(("j90", "j91"), wrong)
    assert behind(fake_daemon, "rewrite", "form").jobs == ("j90", "j91")
    assert behind(fake_daemon, "sample").jobs == ("j1", "j2")
    plain = (source("j1"), source("j2"), source("j93", rewrites="j1", variants=True))
    assert behind(fake_daemon, "right", "cut off", plain).jobs == ("j1", "j2")
    assert behind(fake_daemon, "split", "form", plain) == Behind(("j93",), NOTHING)
    growing = (*REWRITING, source("j3"))
    assert behind(fake_daemon, "sample", "", growing, state="waiting").jobs == ("j3",)
    assert behind(fake_daemon, "verdicts", "not judged", plain).narrowed == SampleFilter().typing("reason:=unjudged")


def test_what_no_list_shows_is_said(fake_daemon: Any) -> None:
    assert behind(fake_daemon, "right", "wrong", ()).why_nothing == "The jobs of the stage right were deleted."
    assert "counts samples" in behind(fake_daemon, "select all-correct", "more of the same problems").why_nothing
    assert "no thought" in behind(fake_daemon, "rewrite", "no thought and solution").why_nothing
    assert behind(fake_daemon, "clean", "near math_500").command == ("recipe", "show", "r3", "--dropped")
    assert behind(fake_daemon, "mix", "more of r1", ()).why_nothing


def test_every_reason_of_a_sample_has_its_row_in_the_funnel(fake_daemon: Any) -> None:
    rows = funnel_rows.rows_of(fake_daemon.recipe(3))
    assert [row.reason for row in rows][:6] == ["", "error", "", "wrong", "no answer", ""]
    assert len({row.key for row in rows}) == len(rows)
    assert sum(row.dropped for row in rows if row.reason) == sum(row.dropped for row in rows if not row.reason)


def test_every_state_of_a_recipe_has_a_sign() -> None:
    assert set(RecipeState.__args__) == set(recipe_rows.MARKS)  # type: ignore[attr-defined]


def test_the_writer_is_named_only_where_it_is_used(fake_daemon: Any) -> None:
    def said(row: Any, *endpoints: Any) -> str:
        reply = EndpointsReply(items=endpoints)
        return "\n".join("".join(text for text, _ in line) for line in recipe_rows.about(row, reply))

    paid = fake_daemon.writer(parked="the budget is spent")
    assert "Qwen3-32B: nothing is paid yet; at most 100 in all" in said(fake_daemon.recipe(3, sources=REWRITING), paid)
    assert "the budget is spent" in said(fake_daemon.recipe(3, sources=REWRITING), paid)
    told = said(fake_daemon.recipe(3, paid=(RecipePaymentView(to="qwq", tokens=1_234, cost=0.5, keys=3),)))
    assert "qwq: 0.5000 for 1,234 tokens; no budget; 3 keys" in told
    told = said(fake_daemon.recipe(3, sources=REWRITING, paid=(RecipePaymentView(to="writer", tokens=1),)), paid)
    assert "nothing is paid" not in told
    assert "the budget is spent" in told
    told = said(fake_daemon.recipe(3, paid=(RecipePaymentView(to="qwq", tokens=1_234, keys=0),)))
    assert "qwq: 1,234 tokens, price not set; no budget; no usable key" in told
    told = said(fake_daemon.recipe(3, paid=(RecipePaymentView(to="qwq", tokens=1_234),)))
    assert "qwq: 1,234 tokens, price not set; it is not configured any more" in told
    assert "Qwen3" not in said(fake_daemon.recipe(3, sources=(source("j1"),)), paid)
    assert "no writer is configured" in said(fake_daemon.recipe(2, "waiting", toml="[rewrite]\nrule = 'x'"))
    assert "no writer" not in said(fake_daemon.recipe(2, "waiting", toml="# no [rewrite]"))
    assert "no writer" in said(fake_daemon.recipe(2, "waiting", toml="[pairs]\nrules = ['fcs']"))
    many = tuple(source(f"j{n}", state="done" if n > 2 else "queued") for n in range(1, 31))
    assert "j1 queued 100/100, j2 queued" in said(fake_daemon.recipe(2, "waiting", sources=many))
    assert "of 30 jobs: 2 queued, 28 done" in said(fake_daemon.recipe(2, "waiting", sources=many))
    part = MixPartView(name="chat", state="kept", rows=1200)
    assert "chat kept 1,200 rows" in said(fake_daemon.recipe(4, "waiting", jobs=(), parts=(part,)))


@given(st.sampled_from(["", *FILTERS]), st.text(), st.sampled_from(["", "reason:=wrong", 'reason:="no answer"', "a b"]))
def test_a_narrowed_list_has_a_place_of_its_own(kind: str, subject: str, typed: str) -> None:
    if "\0" not in subject:
        narrowed = SampleFilter(kind=kind, subject=subject).typing(typed)
        assert narrowed_by(about_of("j12", narrowed)) == ("j12", narrowed)


@pytest.mark.parametrize("about", ["it's", "j1 typed=~x", "j1 filter=nothing", "j1 'typed=!re:['"])
def test_what_cannot_be_read_narrows_nothing(about: str) -> None:
    assert narrowed_by(about)[1] == NOTHING


async def test_a_funnel_leads_to_the_samples_that_were_dropped(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(3, sources=REWRITING)]
    node.samples += [msgspec.structs.replace(node.samples[0], number=7, row=7, reason="no_answer")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "1 recipe", "sky.toml", "8,871", "Funnel of r3", "no answer", "near math_500")
        await pilot.press("enter", "j", "j", "j", "j", "enter")
        await driving.until(app, "Which job?", "j1  numina_math", "j2  numina_math")
        await pilot.press("enter")
        await driving.until(app, "Samples", "reason:=", "no answer", "1 of 3")
        assert app.frame.view.command() == "rwkvctl samples j1 --reason no_answer"
        await pilot.press("escape")
        await driving.until(app, "3 samples")
        app.go("recipes", "r3")
        await driving.until(app, "Funnel of r3")
        app.go("samples", about_of("j1", funnel_rows.REASONS["no answer"]))
        await driving.until(app, "1 of 3")


async def test_one_job_needs_no_menu_and_a_stage_opens_its_job(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(3, sources=(source("j1"),))]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "Funnel of r3", "no answer")
        await pilot.press("enter", "enter")
        await driving.until(app, "Jobs › j1")
        app.go("recipes")
        await driving.until(app, "Funnel of r3")
        await pilot.press("G", "enter")
        await driving.until(app, "No list shows what the stage rows counts")


async def test_keys_pause_resume_and_stop(node: Any, socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node.recipes = [fake_daemon.recipe(2, "waiting", name="b.toml"), fake_daemon.recipe(3, "waiting")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "2 recipes, 2 at work", "◌ waiting")
        await pilot.press("p")
        await driving.until(app, "r3 sky.toml: paused", "‖ paused", "2 recipes, 1 at work, 1 paused")
        await pilot.press("p")
        await driving.until(app, "r3 sky.toml: waiting")
        await pilot.press("j", "s")
        await driving.until(app, "Stop r2?", "no rows are made")
        await pilot.press("y")
        await driving.until(app, "r2 b.toml: stopped")
        assert app.frame.view.command() == "rwkvctl recipe show r2"
        assert [line for line in app.commands if "recipe" in line] == [
            "rwkvctl recipe pause r3", "rwkvctl recipe resume r3", "rwkvctl recipe stop r2",
        ]  # fmt: skip


async def test_a_read_only_console_changes_no_recipe(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(3, "waiting")]
    async with driving.console(socket_path, options=Options(read_only=True)) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "1 recipe")
        await pilot.press("p", "s")
        await driving.until(app, "read-only")
    assert not [body for method, *_, body in node.asked if method == "POST" and body and "action" in body]


async def test_a_recipe_that_is_not_there_is_said(node: Any, socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node.recipes = [fake_daemon.recipe(3)]
    async with driving.console(socket_path) as (app, _):
        await driving.until(app, "fake")
        app.go("recipes", "r77")
        await driving.until(app, "There is no recipe r77.")


async def test_the_recipe_that_is_named_is_under_the_cursor(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(number, name=f"n{number}.toml") for number in range(1, 9)]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("recipes", "r4")
        await driving.until(app, "Funnel of r4", "r4 n4.toml")
        await pilot.press("j")
        await driving.until(app, "Funnel of r3", "r3 n3.toml")


async def test_names_and_reasons_of_others_are_drawn_as_text(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [
        fake_daemon.recipe(
            number, name=text, detail=text, jobs=(text,), sources=(source("j1", model=text, benchmark=text),),
            funnel=(FunnelStageView(name=text, unit=text, rows_in=2, rows_out=1, dropped={text: 1}),),
        )
        for number, text in enumerate(STORABLE, 1)
    ]  # fmt: skip
    async with driving.console(socket_path, (200, 60)) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "Funnel of")
        for _ in node.recipes:
            await pilot.press("j")
            await driving.settled(app)
            assert "\x1b" not in driving.screen_text(app)
        await pilot.press("enter", "j", "enter")
        await driving.until(app, "No list shows")


def texts_of(text: str) -> tuple[StageView, ...]:
    return (StageView(stage="answer", prompt="User: 3+4?\n\nAssistant:", completion=text, stop="stop_token"),)


@pytest.fixture
def rewritten(node: Any, fake_daemon: Any) -> Any:
    """Job j2 rewrites j1: samples 10 and 11 those numbered 0 and 1."""
    node.jobs[1] = fake_daemon.job(2, "done", source_job="j1", done=2, total=2)
    node.samples = [
        fake_daemon.sample(0, stages=texts_of("So it is 7, I think.")),
        fake_daemon.sample(1, stages=texts_of("Plainly 9.")),
        fake_daemon.sample(10, row=0, reason="unfaithful", value=None, stages=texts_of("The sum is 7.")),
        fake_daemon.sample(11, row=1, reason="unfaithful", value=None, stages=texts_of("It must be 9.")),
    ]
    node.same = [SameView(job="j1", model="qwq", kind="cot", version=1, number=0, value=1.0, reason="right",
                          original=True)]  # fmt: skip
    return node


async def test_the_original_lies_beside_a_rewriting(rewritten: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, (160, 40)) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j2")
        await driving.until(app, "4 samples")
        app.go("sample", "j2:10")
        await driving.until(app, "The sum is 7.", "So it is 7, I think.", "j2 sample 10 beside j1 sample 0")
        assert app.places.here.about == "j2:10|j1:0"
        assert app.frame.view.command() == "rwkvctl samples diff j2 j1 --row 0 --repeat 0"
        await pilot.press("d")
        await driving.gone(app, "I think.")
        await pilot.press("right_parenthesis")
        await driving.until(app, "It must be 9.")
        await driving.gone(app, "beside")
        await pilot.press("d")
        await driving.until(app, "I think.", "beside j1 sample 0")
        await pilot.press("escape")
        await driving.until(app, "4 samples")


async def test_a_sample_that_rewrites_nothing_stands_alone(rewritten: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, (160, 40)) as (app, _):
        await driving.until(app, "fake")
        app.go("sample", "j1:1")
        await driving.until(app, "Plainly 9.", "same sample in other runs")
        assert app.places.here.about == "j1:1"


async def test_where_there_is_no_room_tab_turns_to_the_original(
    rewritten: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path, (80, 30)) as (app, pilot):
        await driving.until(app, "fake")
        app.go("sample", "j2:10")
        await driving.until(app, "The sum is 7.", "j2 sample 10 beside j1")
        await pilot.press("tab")
        await driving.until(app, "So it is 7, I think.")


async def test_a_list_that_was_left_keeps_its_narrowing(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j1")
        await driving.until(app, "2 samples")
        await pilot.press("f")
        await driving.until(app, "1 of 2")
        assert app.places.here.about == "j1 filter=wrong"
        app.go("recipes")
        await soon(lambda: app.frame.active_view_name == "recipes", "the recipes are shown")
        app.action_history(-1)
        await driving.until(app, "1 of 2", "wrong")


async def test_the_place_follows_the_cursor(node: Any, socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node.recipes = [fake_daemon.recipe(number, name=f"n{number}.toml") for number in range(1, 5)]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("recipes", "r3")
        await driving.until(app, "Funnel of r3")
        await pilot.press("j", "1")
        await soon(lambda: app.frame.active_view_name == "overview", "the Overview is shown")
        await pilot.press("T")
        await driving.until(app, "Funnel of r2")
        assert app.places.here.about == "r2"
        await pilot.press("enter", "escape", "k")
        await driving.until(app, "Funnel of r3")


async def test_one_that_is_older_than_the_page_or_hidden_by_a_filter_is_found(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(number, name=f"n{number}.toml") for number in range(1, 131)]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "the newest 100 recipes", "Funnel of r130")
        await pilot.press("slash", *"n129", "enter")
        await driving.until(app, "Funnel of r129")
        app.go("recipes", "r5")
        await driving.until(app, "Funnel of r5", "r5 n5.toml")


async def test_keys_that_come_in_one_burst_open_nothing_that_is_gone(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(1, "waiting", funnel=()), fake_daemon.recipe(2)]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "Funnel of r2", "near math_500")
        view = app.frame.view
        view.funnel.focus()
        view.funnel.move_to(5)
        view.listed.move_to(1)
        view.on_vtable_moved(view.listed.Moved(view.listed, "r1"))
        view.on_vtable_opened(view.funnel.Opened(view.funnel, "1 wrong"))
        await driving.until(app, "still being read")


async def test_a_daemon_without_recipes_says_so(node: Any, socket_path: Path, driving: Any) -> None:
    said = msgspec.json.encode(
        ErrorReply(code="no-such-route", detail="No such route.", hint="", status=404, exit_code=1)
    )
    node.answers["/v1/recipes"] = lambda _: server.Response(404, said)
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "─ Recipes, newest first", "No such route.")
        assert "loading" not in driving.screen_text(app)


async def test_several_are_asked_about_before_they_change(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(1, "stopped"), fake_daemon.recipe(2, "waiting")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "2 recipes")
        await pilot.press("space", "space", "p")
        await driving.until(app, "Pause r2 and resume r1?", "the writer may be paid")
        await pilot.press("n", "p", "y")
        await driving.until(app, "r2 sky.toml: paused; r1 sky.toml: waiting")


async def test_nothing_is_asked_once_another_screen_is_in_front(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node.recipes = [fake_daemon.recipe(3, "waiting")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        await pilot.press("T")
        await driving.until(app, "1 recipe")
        view = app.frame.view
        await pilot.press("1")
        await soon(lambda: app.frame.active_view_name == "overview", "the Overview is shown")
        view.action_ask_again()
        assert not [worker for worker in view.workers if worker.group == "asking" and not worker.is_finished]


async def test_a_rewriting_is_shown_without_an_original_that_is_gone(
    rewritten: Any, socket_path: Path, driving: Any
) -> None:
    rewritten.same = [msgspec.structs.replace(rewritten.same[0], number=77)]
    async with driving.console(socket_path, (160, 40)) as (app, _):
        await driving.until(app, "fake")
        app.go("sample", "j2:10")
        await driving.until(app, "The sum is 7.", "The original cannot be shown: j1 has no sample 77")


async def test_closing_another_comparison_does_not_close_originals(
    rewritten: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path, (160, 40)) as (app, pilot):
        await driving.until(app, "fake")
        app.go("sample", "j1:0|j2:11")
        await driving.until(app, "beside j2 sample 11", "It must be 9.")
        await pilot.press("d")
        await driving.gone(app, "beside")
        app.go("sample", "j2:10")
        await driving.until(app, "beside j1 sample 0")
