"""Outside harnesses, and their tasks."""

from collections.abc import Iterable, Iterator
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table
from rwkvctl.text.quantities import count

ROLES: Final[dict[str, Role]] = {"ready": "ok", "building": "", "broken": "bad", "not built": "dim"}


def harnesses(items: Iterable[Record]) -> Table:
    """Return a table of harnesses."""
    columns = [
        Column("HARNESS"), Column("VERSION"), Column("STATE"), Column("TASKS", right=True), Column("NETWORK"),
        Column("SETTINGS", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(item["name"], "bold"),
            item.get("version", ""),
            Cell("unreadable", "bad") if item.get("problem") else state_of(item),
            count(item.get("tasks")),
            "yes" if item.get("network") else "no",
            " ".join(item.get("settings", ())),
        ]
        for item in items
    ]
    return Table(columns, rows, "no harness")


def state_of(item: Record) -> Cell:
    state = item.get("state", "not built")
    return Cell("outdated", "warn") if item.get("outdated") else Cell(state, ROLES.get(state, ""))


def lines(items: Iterable[Record]) -> Iterator[str]:
    """Yield what has to be done about harnesses, and why."""
    for item in items:
        name, state = item["name"], item.get("state", "not built")
        if problem := item.get("problem"):
            yield problem
        elif state == "broken":
            log = item.get("log", "")
            yield f"{name} is broken: {item.get('detail') or 'its build was interrupted'}; the log is {log}"
            yield f"`rwkvctl harness build {name}` makes it anew"
        elif state == "building":
            yield f"{name} is being built: {item.get('detail') or 'it begins'}"
        elif state == "not built":
            yield f"`rwkvctl harness build {name}` installs {name}"
        elif item.get("outdated"):
            yield f"the tasks in {item.get('own', '')} have changed: `rwkvctl harness build {name}` reads them in"


def tasks(found: Record) -> Table:
    """Return a table of the tasks of a harness."""
    rows: list[list[str | Cell]] = [[name] for name in found.get("tasks", ())]
    return Table([Column("TASK")], rows, f"{found['harness']} has no such task")
