"""The table of an order of rows."""

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table
from rwkvctl.protocol.training.orders import BY_RATE


def rows(reply: Record) -> Table:
    """Return the rows of a `rwkvctl.order/1` with their rates, and with the field that orders them."""
    by = reply["by"]
    columns = [Column("ROW", cut="middle")]
    columns += [Column(by.upper(), right=True)] if by != BY_RATE else []
    columns += [Column("PASS-RATE", right=True), Column("RIGHT", right=True), Column("N", right=True)]
    found: list[list[str | Cell]] = []
    for row in reply["rows"]:
        rate = row["pass_rate"]
        line: list[str | Cell] = [row["id"]]
        line += [Cell(shown(row["value"]), plain=repr(row["value"]))] if by != BY_RATE else []
        line += ["" if rate is None else Cell(f"{rate:.3f}", plain=repr(rate)), str(row["right"]), str(row["n"])]
        found.append(line)
    return Table(columns, found)


def shown(value: object) -> str:
    """Return a number of a field: a whole one with all its digits, any other with six."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
