"""Tables of `reload` and `notify`."""

from collections.abc import Iterable

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table, amount, joined
from rwkvctl.text.quantities import count


def reloaded(reply: Record) -> Table:
    """Return a table of what a reload changed, what needs a restart, and warnings."""
    rows: list[list[str | Cell]] = [[Cell("changed", "ok"), text] for text in reply.get("changed", ())]
    rows += [[Cell("needs a restart", "warn"), name] for name in reply.get("waits", ())]
    rows += [[Cell("warning", "warn"), text] for text in reply.get("warnings", ())]
    return Table([Column("WHAT"), Column("SETTING", cut="end")], rows, "no changes")


def notified(items: Iterable[Record]) -> Table:
    """Return a table of receivers with their events and the state of their notices."""
    columns = [
        Column("NAME"), Column("KIND"), Column("TO", cut="middle"), Column("EVENTS", cut="end"), Column("SIGNED"),
        Column("WAIT", right=True), Column("SENT", right=True), Column("GIVEN UP", right=True),
        Column("LAST ERROR", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(item["name"], "bold"),
            item["kind"],
            item["to"],
            joined(item["events"]),
            "yes" if item.get("signed") else "no",
            count(item.get("waiting", 0)),
            count(item.get("sent", 0)),
            count(item.get("given_up", 0)),
            Cell(item.get("last_error", ""), "warn"),
        ]
        for item in items
    ]
    return Table(columns, rows, "no receivers are configured; see `rwkvctl notify --help`")


def tested(items: Iterable[Record]) -> Table:
    """Return a table of the test notices that were sent: whether each arrived, after how many seconds, or its error."""
    rows: list[list[str | Cell]] = [
        [
            Cell(item["name"], "bold"),
            Cell("failed", "bad") if item.get("error") else Cell("arrived", "ok"),
            amount(item["seconds"], ".1f"),
            item.get("error", ""),
        ]
        for item in items
    ]
    columns = [Column("NAME"), Column("RESULT"), Column("SECONDS", right=True), Column("ERROR", cut="end")]
    return Table(columns, rows)
