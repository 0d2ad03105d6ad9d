"""The table widget: keys, mouse, what is painted when a value changes, and a hundred thousand rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from waiting import soon

from rwkvctl.cli.render import Cell
from rwkvctl.tui.shell.dialogs import Menu
from rwkvctl.tui.widgets.table import VTable
from rwkvctl.tui.widgets.table_columns import Column


class Row(NamedTuple):
    key: str
    score: float
    state: str = "ok"


COLUMNS = (
    Column[Row]("NAME", lambda row: Cell(row.key, "bold"), 12, least=8, cut="middle"),
    Column[Row]("SCORE", lambda row: f"{row.score:.1f}", 7, value=lambda row: row.score, right=True),
    Column[Row]("STATE", lambda row: Cell(row.state, "bad" if row.state == "failed" else ""), 8),
    Column[Row]("NOTE", lambda row: f"note of {row.key}", 20, rank=1, grow=1),
)


def rows(count: int) -> list[Row]:
    return [Row(f"row{n}", n * 37 % 101) for n in range(count)]


class Shown(App[None]):
    def __init__(self, count: int = 200) -> None:
        super().__init__()
        self.table: VTable[Row] = VTable(COLUMNS, lambda row: row.key, id="t", empty="nothing here")
        self.rows = rows(count)
        self.opened: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.styles.height = "1fr"
        self.table.show("Rows", self.rows)
        self.table.focus()

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        self.opened.append(message.key)


@asynccontextmanager
async def shown(count: int = 200, size: tuple[int, int] = (60, 12)) -> AsyncIterator[tuple[Shown, Pilot[None]]]:
    app = Shown(count)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def lines(driving: Any, app: Shown) -> list[str]:
    return str(driving.screen_text(app)).split("\n")


@pytest.mark.parametrize("rows_first", [True, False])
async def test_which_columns_go_does_not_depend_on_whether_rows_or_the_first_frame_came_first(
    driving: Any, rows_first: bool
) -> None:
    columns = [
        Column[Row]("NAME", lambda row: row.key, 12), Column[Row]("RATE", lambda _: "–", 8, rank=1),
        Column[Row]("NOTE", lambda row: f"note of {row.key}", 20, rank=2),
    ]  # fmt: skip
    app = Shown(3 if rows_first else 0)
    app.table = VTable(columns, lambda row: row.key, id="t", empty="nothing here")
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        if not rows_first:
            assert "RATE" in lines(driving, app)[1], "nothing is known of its values yet"
            app.table.show("Rows", rows(3))
            await pilot.pause()
        assert lines(driving, app)[1].split() == ["NAME", "NOTE"]


async def test_vim_and_other_keys_move_the_cursor() -> None:
    async with shown() as (app, pilot):
        table = app.table
        for keys, key in (
            ("j j down", "row3"), ("k up", "row1"), ("G", "row199"), ("g", "row0"), ("g g", "row0"), ("end", "row199"),
            ("home", "row0"), ("ctrl+d", "row5"), ("ctrl+f", "row15"), ("ctrl+u", "row10"), ("ctrl+b", "row0"),
            ("pagedown", "row10"), ("pageup", "row0"), ("k", "row0"),
        ):  # fmt: skip
            await pilot.press(*keys.split())
            assert table.chosen == key, keys


async def test_the_cursor_is_always_in_view(driving: Any) -> None:
    async with shown() as (app, pilot):
        for keys in ("G", "k k k", "ctrl+b ctrl+b", "ctrl+d", "g", "ctrl+f"):
            await pilot.press(*keys.split())
            await pilot.pause()
            assert any(app.table.chosen in line for line in lines(driving, app)), keys


async def test_enter_and_a_second_click_open_a_row() -> None:
    async with shown() as (app, pilot):
        await pilot.press("j", "enter")
        assert app.opened == ["row1"]
        await pilot.click(app.table, offset=(3, 2 + 4))
        assert app.table.chosen == "row4"
        assert app.opened == ["row1"]
        await pilot.click(app.table, offset=(3, 2 + 4), times=2)
        assert app.opened[-1] == "row4"


async def test_a_click_on_a_head_sorts_by_it(driving: Any) -> None:
    async with shown() as (app, pilot):
        await pilot.click(app.table, offset=(16, 1))
        await pilot.pause()
        assert app.table.listing.row(0).score == 100
        assert "SCORE▾" in lines(driving, app)[1]
        await pilot.click(app.table, offset=(16, 1))
        await pilot.pause()
        assert app.table.listing.row(0).score == 0
        assert "SCORE▴" in lines(driving, app)[1]


async def test_it_can_be_scrolled_without_the_cursor(driving: Any) -> None:
    async with shown() as (app, _):
        app.table.scroll_to(y=40, animate=False, force=True)
        await driving.until(app, "row40")


async def test_sort_keys_and_the_menu(driving: Any) -> None:
    async with shown() as (app, pilot):
        await pilot.press("greater_than_sign")
        assert app.table.listing.sorts[0] == (0, False)
        await pilot.press("greater_than_sign")
        assert app.table.listing.sorts[:2] == [(1, True), (0, False)]
        await pilot.press("exclamation_mark")
        assert app.table.listing.sorts[0] == (1, False)
        await pilot.press("less_than_sign")
        assert app.table.listing.sorts[0][0] == 0


async def test_the_cursor_stays_on_its_row_through_sorts_and_changes() -> None:
    async with shown() as (app, pilot):
        await pilot.press("j", "j", "j")
        app.table.sort(1)
        assert app.table.chosen == "row3"
        app.table.show("Rows", [Row("new", 500.0), *app.rows])
        assert app.table.chosen == "row3"
        app.table.filter("row3")
        assert app.table.chosen == "row3"
        app.table.show("Rows", [row for row in app.rows if row.key != "row3"])
        assert app.table.chosen != "row3"
        assert app.table.chosen


async def test_a_filter_is_shown_with_its_count(driving: Any) -> None:
    async with shown() as (app, pilot):
        app.table.filter("score:>50 !row11")
        await pilot.pause()
        kept = sum(row.score > 50 and "row11" not in row.key for row in app.rows)
        assert f"/score:>50 !row11  {kept} of 200" in lines(driving, app)[0]
        with pytest.raises(ValueError, match="regular expression"):
            app.table.filter("re:(")
        assert app.table.filter_text == "score:>50 !row11"
        app.table.filter("zzz")
        await driving.until(app, "0 of 200", "nothing here")


async def test_marks_and_what_a_verb_acts_on(driving: Any) -> None:
    async with shown() as (app, pilot):
        assert app.table.targets == ["row0"]
        await pilot.press("space", "j", "j", "ctrl+@")
        assert app.table.targets == ["row0", "row1", "row2", "row3"]
        await driving.until(app, "4 marked", "*row2")
        await pilot.press("backslash")
        assert app.table.targets == ["row3"]
        await driving.gone(app, "marked")


async def test_columns_are_dropped_where_they_do_not_fit_and_all_shown_on_demand(driving: Any) -> None:
    async with shown(size=(32, 12)) as (app, pilot):
        assert "NOTE" not in lines(driving, app)[1]
        await pilot.press("i")
        await pilot.press("right", "right", "right")
        await driving.until(app, "NOTE", "note of row1")
        assert app.table.copied() == "note of row0"
        await pilot.press("i")
        await driving.gone(app, "NOTE")
        await pilot.resize_terminal(60, 12)
        await driving.until(app, "NOTE")


def bold(strip: Strip) -> list[str]:
    return [segment.text for segment in strip if segment.style and segment.style.bold]


async def test_only_changed_cells_are_painted_and_they_are_bold_for_a_moment() -> None:
    async with shown() as (app, _):
        table, painted = app.table, list[Region]()
        refresh = table.refresh

        def noted(*regions: Region, **more: Any) -> Any:
            painted.extend(regions)
            return refresh(*regions, **more)

        table.refresh = noted  # type: ignore[method-assign]
        table.put(2, Row("row2", 99.9))
        assert painted == [Region(14, 4, 7, 1)]
        strip = table.render_line(4)
        assert bold(strip) == [
            "row2        ",
            "   99.9",
        ]
        painted.clear()
        table.show("Rows", [*app.rows[:2], Row("row2", 99.9), *app.rows[3:]])
        assert painted == [Region(0, 0, 59, 1)] * len(painted)  # nothing differs but, perhaps, the title
        await soon(lambda: not table._highlights, "the moment is over")
        strip = table.render_line(4)
        assert bold(strip) == ["row2        "]


async def test_a_stale_table_is_grey_whole() -> None:
    async with shown() as (app, _):
        app.table.show("Rows", app.rows, stale=True)
        styles = {segment.style for segment in app.table.render_line(3) if segment.text.strip()}
        assert len(styles) == 1


async def test_what_is_shown_is_what_is_exported() -> None:
    async with shown(5) as (app, _):
        app.table.sort(1)
        app.table.filter("!row4")
        titles, exported = app.table.shown()
        assert titles == ["name", "score", "state", "note"]
        assert exported[0] == ["row3", "10.0", "ok", "note of row3"] or exported[0][0].startswith("row")
        assert [row[0] for row in exported] == [app.table.listing.key_at(place) for place in range(4)]


async def test_a_hundred_thousand_rows_are_read_only_where_they_are_seen() -> None:
    class Model:
        read = 0

        def __len__(self) -> int:
            return 100_000

        def __getitem__(self, place: int) -> Row:
            self.read += 1
            return Row(f"row{place}", place)

    model = Model()
    async with shown(0) as (app, pilot):
        app.table.show("Model", model)  # type: ignore[arg-type]
        await pilot.press("G", "k", "ctrl+u")
        await pilot.pause()
        assert app.table.chosen == "row99993"
        assert model.read < 1000


async def test_a_menu_gives_the_place_that_was_chosen(driving: Any) -> None:
    async with shown() as (app, pilot):
        found: list[int | None] = []
        app.push_screen(Menu("Sort by", ["original order", "name", "score"], 1), found.append)
        await driving.until(app, "original order")
        await pilot.press("j", "enter")
        await driving.gone(app, "original order")
        app.push_screen(Menu("Sort by", ["original order"]), found.append)
        await driving.until(app, "original order")
        await pilot.press("escape")
        await driving.gone(app, "original order")
        assert found == [2, None]


async def test_what_stands_where_there_are_no_rows_is_drawn_as_soon_as_it_is_another(driving: Any) -> None:
    async with shown(0) as (app, _):
        await driving.until(app, "nothing here")
        app.table.empty = "asking"
        await driving.until(app, "asking")
