"""What no real node shows quickly: a hundred thousand samples, hostile texts, a job that grows, a daemon that goes."""

import asyncio
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hostile import STORABLE

from rwkvctl.protocol.replies import ExchangeReply
from rwkvctl.protocol.views import FindingView, SameView, SampleView, StageView
from rwkvctl.tui.widgets.text_view import TextView

MANY = 100_000
REASONS = ("right", "right", "wrong")


@pytest.fixture(scope="module")
def many(fake_daemon: Any) -> list[SampleView]:
    """A hundred thousand samples that share their texts."""
    stage = StageView(stage="answer", prompt="User: how many?\n\nAssistant:", completion="So 8.", stop="stop_token")
    cut = msgspec.structs.replace(stage, completion="Hm, a needle", stop="length")
    return [
        SampleView(
            number=row + 1, row=row, repeat=0, value=float(row % 3 < 2), reason=REASONS[row % 3], expected=str(row),
            extracted=str(row), stages=(cut if row % 50_000 == 49_999 else stage,),
        )
        for row in range(MANY)
    ]  # fmt: skip


def hostile(corpus: Any) -> list[SampleView]:
    """A sample for each text, with it in every field that comes from elsewhere."""
    return [
        SampleView(
            number=row + 1, row=row, repeat=0, value=0.0, reason="wrong", expected=text, extracted=text, detail=text,
            route=text, judge={"status": text, "model": text, "replies": [text]},
            stages=(stage_of(text),),
        )
        for row, text in enumerate(corpus)
    ]  # fmt: skip


def stage_of(text: str) -> StageView:
    """A stage that is this text all over."""
    return StageView(stage=text, prompt=text * 30, completion=f"{text}\n{text}" * 40, stop=text, engine=text)


def sample_one(fake_daemon: Any, **more: Any) -> SampleView:
    """The sample with the number 1."""
    return msgspec.structs.replace(fake_daemon.sample(0, **more), number=1)


def asked(node: Any, path: str) -> list[dict[str, str]]:
    """The queries of the requests for a path."""
    return [query for _, there, query, _ in node.asked if there == path]


async def test_a_hundred_thousand_samples_come_by_pages(
    node: Any, socket_path: Path, driving: Any, many: list[SampleView]
) -> None:
    node.samples = many
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j1")
        await driving.until(app, "100,000 samples", "✗ 33,333 wrong", "how many?")
        view = app.frame.view
        assert len(view.book.texts) < 200
        await pilot.press("G")
        await driving.until(app, "99999", "how many?")
        assert view.book.texts.keys() >= {MANY}
        await pilot.press("f")
        await driving.until(app, "wrong  33,333 of 100,000")
        assert view.listed.listing.key_at(view.listed.cursor) == view.listed.chosen
        await pilot.press("escape", "home", "right_curly_bracket", "right_curly_bracket")
        await driving.settled(app)
        assert view.listed.cursor == 5
        await pilot.press("slash", *"needle", "enter")
        await driving.until(app, "/needle  2 of 100,000", "cut off")
    limits = [int(query["limit"]) for query in asked(node, "/v1/jobs/j1/outline") if "text" not in query]
    assert limits[0] < 5_000 <= min(limits[1:])
    texts = [query["numbers"].split(",") for query in asked(node, "/v1/jobs/j1/samples")]
    assert max(map(len, texts)) <= 200


async def test_a_letter_typed_ends_the_search_before_it(
    node: Any, socket_path: Path, driving: Any, many: list[SampleView]
) -> None:
    node.samples = many
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j1")
        await driving.until(app, "100,000 samples")
        await pilot.press("slash", *"need")
        await pilot.press(*"le", "enter")
        await driving.until(app, "/needle  2 of 100,000")
        await driving.gone(app, "searching")
        found = [query["text"] for query in asked(node, "/v1/jobs/j1/outline") if "text" in query]
        assert found[-1] == "needle"
        assert [text for text, _ in groupby(found)] == list(dict.fromkeys(found)), "no older one is asked for any more"
        assert app.frame.view.book.hits == {50_000, 100_000}


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow("console"))])
async def test_texts_of_models_stay_texts(node: Any, socket_path: Path, driving: Any, size: tuple[int, int]) -> None:
    corpus = STORABLE
    node.samples, node.subjects = hostile(corpus), corpus
    node.same = [SameView(job="j9", model=corpus[0], kind="k", version=1, number=1, value=1.0, reason="right")]
    node.exchange = ExchangeReply(asked=(({"role": corpus[0], "content": "".join(corpus)},),),
                                    problem=corpus[1])  # fmt: skip
    async with driving.console(socket_path, size) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j1")
        await driving.until(app, f"{len(corpus)} samples", "wrong")
        for keys in (("g", "g", "g"), ("enter",), ("r",), ("w",), ("d",)):
            await pilot.press(*keys)
            await driving.settled(app)
            text = driving.screen_text(app)
            assert not [char for char in text.replace("\n", "") if not char.isprintable()]
        app.go("sample", "j1:1")
        await driving.until(app, "completion")
        for number in range(1, len(corpus)):
            await pilot.press("right_parenthesis")
            await driving.until(app, f"sample {number + 1} ")
            strips = app.screen._compositor.render_strips()
            assert {strip.cell_length for strip in strips} == {size[0]}
            text = driving.screen_text(app)
            assert not [char for char in text.replace("\n", "") if not char.isprintable()]


async def test_a_completion_of_two_hundred_thousand_characters_is_read(
    node: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    text = "".join(f"word{n} " for n in range(20_000)) + "最后 \\boxed{8}"
    stage = StageView(stage="answer", prompt="Why?", completion=text, stop="length")
    node.samples = [sample_one(fake_daemon, stages=(stage,), route="boxed")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("sample", "j1:1")
        await driving.until(app, "cut off at the token limit", "word0 ")
        view = app.frame.view.query_one("#one", TextView)
        await pilot.press("greater_than_sign", "pagedown", "ctrl+d", "down")
        await driving.until(app, "row 45 of")
        await pilot.press("ctrl+u", "pageup", "up")
        await driving.until(app, "row 1 of")
        await pilot.press("ampersand", *"word1999", "enter")
        await driving.until(app, "3 rows", "word1999 ")
        await pilot.press("n", "n", "N")
        await driving.until(app, "word19990")
        await pilot.press("escape", "G")
        await driving.until(app, "grading", "最后 \\boxed{8}")
        await pilot.press("w")
        await driving.until(app, "word0 word1 ")
        await pilot.press("right", "right", "l")
        await driving.settled(app)
        assert view.left == 60
        await pilot.press("left", "h", "w", "less_than_sign", "less_than_sign")
        await driving.until(app, "Why?")
        assert view.left == 0


async def test_the_exchange_with_a_judge_is_read(node: Any, socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    judge = {"status": "judged", "model": "judge-x", "replies": ["It is the same value."]}
    node.samples = [sample_one(fake_daemon, judge=judge, detail="doubted")]
    node.findings = [
        FindingView(sample=1, job="j1", model="m", benchmark="b", kind="k", row=0, repeat=0, needs_review=True,
                      finding={"answer_correct": True})
    ]  # fmt: skip
    asks = ({"role": "user", "content": "Is 8 the same as 7?"},)
    node.exchange = ExchangeReply(rule="equal 1", asked=(asks,), said=judge)
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("sample", "j1:1")
        await driving.until(app, "judge-x", "needs review")
        await pilot.press("r")
        await driving.until(app, "Is 8 the same as 7?", "It is the same value.")
        await pilot.press("r")
        await driving.gone(app, "Is 8 the same as 7?")


async def test_a_job_that_grows_is_read_again(node: Any, socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node.samples = [fake_daemon.sample(number) for number in range(4)]
    node.change(1, done=4)
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "fake")
        app.go("samples", "j1")
        await driving.until(app, "4 samples")
        await pilot.press("down", "down")
        node.samples = [fake_daemon.sample(number) for number in range(9)]
        node.change(1, done=9)
        await driving.until(app, "9 samples")
        assert app.frame.view.listed.chosen == "2"


async def test_what_is_known_stays_while_the_daemon_is_gone(socket_path: Path, fake_daemon: Any, driving: Any) -> None:
    playing = fake_daemon.Node()
    with fake_daemon.serving(socket_path, playing):
        async with driving.console(socket_path) as (app, pilot):
            await driving.until(app, "fake")
            app.go("samples", "j1")
            await driving.until(app, "2 samples", "EXTRACTED")
            await pilot.press("enter")
            await driving.until(app, "grading")
            playing.heartbeat_s = 60.0
            await asyncio.to_thread(socket_path.unlink)
            app.state.lose("gone", 1.0, 2.0)
            app.draw()
            await driving.settled(app)
            assert app.frame.view.views[0].stale
            await pilot.press("e")
            await driving.until(app, "does not answer")
            await pilot.press("right_parenthesis")
            await driving.until(app, "no daemon answers")
            assert "grading" in driving.screen_text(app)
            await pilot.press("escape")
            await driving.until(app, "EXTRACTED")
            assert app.frame.view.listed.stale


async def test_a_sample_that_is_not_there_is_said(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, _):
        await driving.until(app, "fake")
        app.go("sample", "j1:77")
        await driving.until(app, "j1 has no sample 77")
        app.go("sample", "nonsense")
        await driving.until(app, "no sample chosen")
        app.go("samples", "j99")
        await driving.until(app, "There is no job j99")


async def test_a_job_that_uses_another_one_s_score_has_no_samples_and_is_not_asked_for_any(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    detail = "uses the score of j1 (m), which did the same work"
    node = fake_daemon.Node(jobs=[fake_daemon.job(2, "done", reason="done", detail=detail, done=0)])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, pilot):
            await pilot.press("3")
            await driving.until(app, "uses the score")
            await pilot.press("enter")
            await driving.until(app, "no samples of its own", detail)
            assert not [asked for asked in node.asked if asked[1].endswith("/samples")]
