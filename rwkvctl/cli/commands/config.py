"""`rwkvctl config show`: print every setting in force and where it came from."""

from collections.abc import Iterable

from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Cell, Column, Table
from rwkvctl.protocol.errors import Exit
from rwkvctl.settings import config


@verb
def config_show(context: Context, *, daemon: bool = False) -> int:
    """Every setting in force, and where it came from; at the end, the files that were read.

    daemon: the daemon's settings; it may read other files and variables than you

    $ rwkvctl config show
    $ rwkvctl config show --daemon
    $ RWKVCTL_ENGINE_SLOTS=8 rwkvctl config show --json
    """
    if daemon:
        answer = context.client.get("/v1/config")
        context.show(answer, settings(answer.value["items"]))
        say_files(context, answer.value.get("files", ()))
        return Exit.OK
    values = context.config.values()
    items = [{"name": value.name, "value": value.value, "origin": value.origin, "help": value.help} for value in values]
    files = list(map(str, config.files()))
    context.show_local("rwkvctl.config/1", {"items": items, "files": files}, settings(items))
    say_files(context, config.looked_at())
    return Exit.OK


def say_files(context: Context, files: Iterable[str]) -> None:
    """Print which files were read; the last one overrides the others."""
    if not context.as_json:
        context.say(f"files read: {', '.join(files)}")


def settings(items: list[Record]) -> Table:
    """Return a table of settings with their values, origins and meanings."""
    columns = [
        Column("SETTING"),
        Column("VALUE", cut="middle"),
        Column("FROM", cut="middle"),
        Column("MEANING", cut="end"),
    ]
    rows: list[list[str | Cell]] = [
        [Cell(item["name"], "bold"), str(item["value"]), item["origin"], item.get("help", "")] for item in items
    ]
    return Table(columns, rows)
