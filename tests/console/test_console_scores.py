"""Scores and Compare against a daemon that plays: the question of three in the morning, many models, loss, bad text."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hostile
import msgspec
import pytest
from waiting import soon

from rwkvctl.http import server
from rwkvctl.protocol.replies import ErrorReply
from rwkvctl.protocol.views import ModelView
from rwkvctl.tui.options import Options
from rwkvctl.tui.screens.scores import Scores
from rwkvctl.tui.widgets.matrix_table import MatrixTable
from rwkvctl.tui.widgets.table import VTable

SIZES = [(80, 24), (120, 36), (200, 60)]
NEWEST = "rwkv7-g1a-2.9b-20200112-ctx8192"
BEFORE = "rwkv7-g1-2.9b-20200108-ctx8192"


@pytest.fixture(scope="session")
def score_node(console_module: Callable[[str], Any], fake_daemon: Any) -> Any:
    """The class that plays a node with many scores."""
    assert fake_daemon
    return console_module("score_node").ScoreNode


@pytest.fixture
def scored(socket_path: Path, fake_daemon: Any, score_node: Any) -> Iterator[Any]:
    """Twelve models on ten benchmarks."""
    with fake_daemon.serving(socket_path, score_node(12)) as playing:
        yield playing


def matrix(app: Any) -> MatrixTable[Any]:
    found: MatrixTable[Any] = app.query_one("#matrix", MatrixTable)
    return found


@pytest.mark.parametrize("size", SIZES)
async def test_the_worst_benchmark_of_the_newest_model_is_one_key_away(
    scored: Any, socket_path: Path, driving: Any, size: tuple[int, int]
) -> None:
    async with driving.console(socket_path, size) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        text = await driving.until(app, "newest first", "WORST Δ", "▼-3.0", "mean over the 10")
        lines = text.splitlines()
        assert all(len(line) <= size[0] for line in lines)
        assert len(lines) == size[1]
        heads = next(place for place, line in enumerate(lines) if line.startswith(" MODEL"))
        first = lines[heads + 1]
        assert "2.9b-20200112" in first
        assert "▼-3.0" in first
        assert "huma" in first
        await pilot.press("c")
        text = await driving.until(app, "Worst first", "▼ worse", "lost 5", "McNemar, exact")
        assert text.index("human_eval") < text.index("arc_easy")
        assert all(len(line) <= size[0] for line in text.splitlines())
        await pilot.press("enter", "enter")
        await driving.settled(app)
        assert app.places.here == ("sample", "j113:101|j73:1")


async def test_the_mean_outlives_every_change_of_size(scored: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        await driving.until(app, "mean over", "that all have")

        def means() -> list[str]:
            table = matrix(app)
            return [table.listing.columns[1].cell(row) for row in table.listing.rows]

        await driving.settled(app)
        before = means()
        assert before[0] != "–"
        for size in ((100, 30), (80, 24), (200, 60)):
            await pilot.resize_terminal(*size)
            await driving.until(app, "mean over")
            await driving.settled(app)
            assert means() == before, size


async def test_two_marked_models_are_compared_the_older_as_a(scored: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        await driving.until(app, "newest first")
        await pilot.press("space", "down", "space")
        await driving.until(app, "2 marked")
        await pilot.press("c")
        await driving.until(app, f"B = {NEWEST} against A = rwkv7-g1a-0.4b-20200110-ctx8192")
        await pilot.press("escape")
        await driving.until(app, "2 marked")
        await pilot.press("backslash", "end", "c")
        await driving.until(app, "space marks two models to compare")


async def test_the_mouse_finds_cells_orders_and_opens(scored: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        text = await driving.until(app, "newest first", "▼-3.0")
        table = matrix(app)
        x = next(line for line in text.splitlines() if line.startswith(" MODEL")).index("gsm8k") + 2
        await pilot.click(table, offset=(x, 4))
        await driving.settled(app)
        assert (table.cursor, table.at_field) == (2, "gsm8k")
        await pilot.click(table, offset=(x, 1))
        await driving.settled(app)
        assert table.listing.sorts[0][0] == table.at_column
        await pilot.click(table, offset=(x, 4), times=2)
        await driving.until(app, "2 subjects, the worst first")


async def test_only_what_is_in_view_is_compared_and_a_new_score_again(
    socket_path: Path, driving: Any, fake_daemon: Any, score_node: Any
) -> None:
    node = score_node(200)

    def asked() -> list[tuple[str, str]]:
        return [(body["a"], body["b"]) for _, path, _, body in node.asked if path == "/v1/compare"]

    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (80, 24)) as (app, pilot):
            await driving.until(app, "●")
            await pilot.press("4")
            await driving.until(app, "201 models")
            table = matrix(app)
            seen = [table.listing.row(place) for place in range(table.page_rows)]
            await compared(app, seen[-1].name)
            assert asked()[0] == (seen[0].base, seen[0].name)
            assert {b for _, b in asked()} <= {row.name for row in seen}
            newest = seen[0].name
            view = msgspec.structs.replace(node.newest(newest)["mmlu"], job="j99999", finished="2026-11-22T01:00:00Z")
            node.scores.append(view)
            before = asked().count((seen[0].base, newest))
            node.tell("job.score", view)
            await soon(lambda: asked().count((seen[0].base, newest)) > before, "the new score has been compared")
            assert table.listing.row(0).cells["mmlu", "cot"].job == "j99999"
            assert asked().count((seen[0].base, newest)) == before + 1


async def compared(app: Any, name: str) -> None:
    """Wait until a model has been compared with the one before it."""

    def row() -> Any:
        return next(row for row in matrix(app).listing.rows if row.name == name)

    await soon(lambda: row().verdicts is not None, f"{name} has been compared")


async def test_ten_thousand_scores_are_read_in_pages_and_scrolled_sideways(
    socket_path: Path, driving: Any, fake_daemon: Any, score_node: Any
) -> None:
    node = score_node(125, 80)
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, pilot):
            await driving.until(app, "●")
            await pilot.press("4")
            await driving.until(app, "126 models × 80", "1–6 of 80 →")
            assert node.pages == 10
            assert app.state.scores.count == 10_000
            table = matrix(app)
            assert table.cursor == 0
            await pilot.press(*["shift+right"] * 10)
            text = await driving.until(app, "80 of 80", "set_69")
            assert "rwkv7-g1c-2.9b" in text
            await pilot.press("G", "slash", *"g1-7", "enter")
            await driving.until(app, "0 of 126")
            await pilot.press("escape")
            await driving.until(app, "126 models")
            kept = table.listing.rows
            view = app.query_one(Scores)
            drawn = view.drawn
            app.draw()
            assert view.drawn is drawn, "nothing has changed: nothing is made anew"
            assert all(one is other for one, other in zip(table.listing.rows, kept, strict=True))


async def test_running_cells_show_their_share_and_open_the_job(
    scored: Any, socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    scored.jobs = [fake_daemon.job(1, model=NEWEST), fake_daemon.job(2, model="fresh", benchmark="svamp")]
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        await driving.until(app, "newest first", "49.0▸")
        await pilot.press("end", "shift+right", "shift+right")
        await driving.until(app, "▸ 40%", "running for the first time")
        await driving.listening(scored)
        scored.change(2, done=77)
        await driving.until(app, "▸ 77%")
        await pilot.press("enter")
        await driving.settled(app)
        assert app.places.here == ("job", "j2")


async def test_without_the_daemon_all_stays_and_nothing_can_be_run(
    socket_path: Path, driving: Any, fake_daemon: Any, score_node: Any
) -> None:
    node = score_node(12)
    async with driving.console(socket_path) as (app, pilot):
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "●")
            await pilot.press("4")
            await driving.until(app, "newest first", "▼-3.0")
        text = await driving.until(app, "daemon gone")
        assert "▼-3.0" in text
        assert matrix(app).stale
        await pilot.press("down", "down", "R")
        await driving.until(app, "The daemon does not answer")
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "● daemon up", "newest first")
            await driving.until(app, "gsm8k" if "gsm8k" in text else "arc_easy")
            assert not matrix(app).stale
            assert matrix(app).cursor == 2


async def test_a_refusal_is_said_once_and_the_rest_is_compared(scored: Any, socket_path: Path, driving: Any) -> None:
    def refuse(_: server.Request) -> server.Response:
        error = ErrorReply(code="no-such-score", detail="There is no score of it.", status=404, exit_code=4)
        return server.Response(404, msgspec.json.encode(error))

    scored.answers["/v1/compare"] = refuse
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "●")
        await pilot.press("4")
        await driving.until(app, "newest first", "~ not comparable")
        await pilot.press("c")
        await driving.until(app, "There is no score of it.", "no comparison yet")
        await pilot.press("escape")
        await driving.until(app, "newest first")


async def test_nothing_chosen_and_nothing_scored_is_said(
    socket_path: Path, driving: Any, fake_daemon: Any, score_node: Any
) -> None:
    node = score_node(0)
    node.history, node.jobs = [], []
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, options=Options(read_only=True)) as (app, pilot):
            await driving.until(app, "●")
            await pilot.press("4")
            await driving.until(app, "no scores yet", "0 models × 0")
            await pilot.press("enter", "c", "b", "R", "t", "h", "l", "i", "space", "y")
            app.go("compare")
            await driving.until(app, "No comparison yet: in Scores (4) mark two models with space, then press c")
            await pilot.press("f", "g", "B", "right_parenthesis", "enter")


async def test_hostile_names_and_answers_stay_in_their_cells(
    socket_path: Path, driving: Any, fake_daemon: Any, score_node: Any
) -> None:
    node = score_node(0)
    texts = list(hostile.STORABLE)
    node.history, node.benchmarks = [], texts
    node.scores = [
        node.one_score(1 + 10 * place + n, name, benchmark, 0)
        for place, name in enumerate(texts)
        for n, benchmark in enumerate(texts[place : place + 3])
    ]
    node.views = [ModelView(name=name, path="", size_bytes=0, previous=texts[0], data_version=name) for name in texts]
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (200, 60)) as (app, pilot):
            await driving.until(app, "●")
            await pilot.press("4")
            text = await driving.until(app, f"{len(texts) + 1} models", "newest first")
            assert not hostile.wrong(text.replace("\n", ""))
            app.go("compare", "j1 j2")
            text = await driving.until(app, "Compare › ")
            assert not hostile.wrong(text.replace("\n", ""))
            assert isinstance(app.query_one("#family"), VTable)
