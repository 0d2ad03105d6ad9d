"""`rwkvctl models`."""

from rwkvctl import views
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def models(context: Context) -> int:
    """Checkpoints that the planner sees, and the built-in one.

    $ rwkvctl models
    """
    answer = context.client.get("/v1/models")
    context.show(answer, views.models(answer.value["items"]))
    return Exit.OK
