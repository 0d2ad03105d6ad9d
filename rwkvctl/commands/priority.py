"""`rwkvctl priority`."""

from rwkvctl import operationviews, views
from rwkvctl.context import Context
from rwkvctl.verbs import verb


@verb
def priority(context: Context, job: str, number: int) -> int:
    """Change when a job starts: higher ones first, then the order of the queue.

    A job that runs goes on; its priority counts when it is queued again.

    job: the id of a job
    number: its priority; jobs have 0 unless dispatched with another

    $ rwkvctl priority j12 10
    """
    answer = context.change("/v1/priority", {"jobs": [job], "priority": number})
    context.show(answer, views.changed(answer.value["items"]))
    return operationviews.outcome(answer.value["items"])
