"""The audit trail as rows to draw."""

from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table

ROLES: Final[dict[str, Role]] = {"refused": "warn", "failed": "bad"}


def outcome_cell(outcome: str) -> Cell:
    """Return an outcome in the colour of its word before a colon."""
    return Cell(outcome, ROLES.get(outcome.partition(":")[0], ""))


def entries(items: Iterable[Record]) -> Table:
    """Return a table of audit entries: when, user, process, verb, target and outcome."""
    columns = [
        Column("WHEN"), Column("USER", cut="middle"), Column("UID", right=True), Column("PID", right=True),
        Column("VERB"), Column("TARGET", cut="end"), Column("OUTCOME", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["at"].replace("T", " ").partition(".")[0],
            item["user"],
            "–" if item["uid"] < 0 else str(item["uid"]),
            str(item["pid"] or "–"),
            item["verb"],
            item["target"],
            outcome_cell(item["outcome"]),
        ]
        for item in items
    ]
    return Table(columns, rows, "no changes recorded")
