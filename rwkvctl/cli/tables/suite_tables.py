"""Suites, and the kinds of one."""

from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table
from rwkvctl.text.quantities import count

NONE: Final = "no suites: benchmarks.toml defines them as [suites.NAME]; see `rwkvctl suites --help`"


def suites(items: Iterable[Record]) -> Table:
    """Return a table of suites: how much each measures, and whether all of that can be."""
    columns = [
        Column("SUITE"), Column("BENCHMARKS", right=True), Column("READY", right=True), Column("LIMIT", right=True),
        Column("SEARCHES", cut="end"), Column("DESCRIPTION", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for item in items:
        kinds = item.get("kinds", ())
        names = {one["benchmark"] for one in kinds}
        ready = {one["benchmark"] for one in kinds if one.get("rows") is not None}
        problem = item.get("problem", "")
        rows.append(
            [
                Cell(item["name"], "bold"),
                count(len(names)),
                Cell(f"{len(ready):,}", "" if ready == names else "warn", str(len(ready))),
                count(item.get("limit")),
                " ".join(item.get("search_models", ())),
                Cell(problem, "bad") if problem else item.get("description", ""),
            ]
        )
    return Table(columns, rows, NONE)


def kinds(item: Record) -> Table:
    """Return a table of what a suite measures."""
    columns = [
        Column("BENCHMARK"), Column("KIND"), Column("ROWS", right=True), Column("USE"), Column("SETTINGS", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(one["benchmark"], "bold"),
            one["kind"],
            count(one.get("rows")),
            "search" if one.get("search") else "measure",
            " ".join(f"{name}={value}" for name, value in one.get("settings", {}).items()),
        ]
        for one in item.get("kinds", ())
    ]
    return Table(columns, rows, "the suite measures nothing")
