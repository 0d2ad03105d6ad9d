"""`rwkvctl models`: list the checkpoints that the planner sees."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import Exit


@verb
def models(context: Context) -> int:
    """Checkpoints that can be dispatched, and the built-in one.

    $ rwkvctl models
    """
    answer = context.client.get("/v1/models")
    context.show(answer, core_tables.models(answer.value["items"]))
    return Exit.OK
