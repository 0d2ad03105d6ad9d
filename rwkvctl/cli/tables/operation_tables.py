"""What is paused, and what a change did to jobs, as rows to draw."""

from collections.abc import Iterable

from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.render import Cell, Column, Table
from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import Exit


def pauses(items: Iterable[Record]) -> Table:
    """Return a table of the pauses of a model, a group, the queue, the node or the judge."""
    columns = [Column("PAUSED"), Column("NAME", cut="middle"), Column("SINCE"), Column("BY"), Column("WHY", cut="end")]
    rows: list[list[str | Cell]] = [
        [
            Cell("draining" if item["scope"] == "node" else item["scope"], "bold"),
            item.get("name", ""),
            item["at"].replace("T", " ").partition(".")[0],
            item["who"],
            item.get("why", ""),
        ]
        for item in items
    ]
    return Table(columns, rows, name="pause")


def show_paused(context: Context, answer: Answer) -> None:
    """The reply to `pause`, `resume` or `drain`: the jobs it changed, and what is paused now."""
    items, standing = answer.value.get("items", ()), answer.value.get("pauses", ())
    tables = [core_tables.changed(items)] if items else []
    context.show(answer, *tables, pauses(standing))
    if not context.as_json and not items and not standing:
        context.say("no pauses of a model, a group, the queue or the judge")


def outcome(items: Iterable[Record]) -> int:
    """Return the exit code: 0 if all were changed, 1 or 4 if none, 8 if some; 6 if a process to be ended still runs."""
    items = list(items)
    wrong = [item for item in items if item.get("error")]
    if not wrong:
        return Exit.TIMEOUT if any(item.get("still") for item in items) else Exit.OK
    if len(wrong) < len(items):
        return Exit.PARTLY
    return Exit.NOT_FOUND if all(not item["state"] for item in wrong) else Exit.FAILED
