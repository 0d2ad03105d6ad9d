"""`rwkvctl priority`: change the priority of a job."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables, operation_tables


@verb
def priority(context: Context, job: str, number: int) -> int:
    """Change when a job starts: higher priority first, then the order of the queue.

    A running job continues; its priority counts when it is queued again.

    job: the id of a job
    number: its priority; jobs have 0 unless dispatched with another

    $ rwkvctl priority j12 10
    """
    answer = context.change("/v1/priority", {"jobs": [job], "priority": number})
    context.show(answer, core_tables.changed(answer.value["items"]))
    return operation_tables.outcome(answer.value["items"])
