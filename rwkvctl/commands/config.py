"""`rwkvctl config show`."""

from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.render import Cell, Column, Table
from rwkvctl.verbs import verb


@verb
def config_show(context: Context) -> int:
    """Every setting in force, and where it came from.

    $ rwkvctl config show
    $ RWKVCTL_ENGINE_SLOTS=8 rwkvctl config show --json
    """
    values = context.config.values()
    rows: list[list[str | Cell]] = [
        [Cell(value.name, "bold"), str(value.value), value.origin, value.help] for value in values
    ]
    columns = [
        Column("SETTING"),
        Column("VALUE", cut="middle"),
        Column("FROM", cut="middle"),
        Column("MEANING", cut="end"),
    ]
    items = [{"name": value.name, "value": value.value, "origin": value.origin, "help": value.help} for value in values]
    context.show_local("rwkvctl.config/1", {"items": items}, Table(columns, rows))
    return Exit.OK
