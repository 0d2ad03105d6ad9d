"""`rwkvctl release`."""

from rwkvctl import operationviews, views
from rwkvctl.confirming import named
from rwkvctl.context import Context
from rwkvctl.verbs import verb


@verb
def release(context: Context, jobs: list[str]) -> int:
    """Let jobs go that `rwkvctl hold` put aside.

    jobs: ids of jobs; `-` takes them from standard input

    $ rwkvctl release j12
    """
    answer = context.change("/v1/release", {"jobs": named(jobs)})
    context.show(answer, views.changed(answer.value["items"]))
    return operationviews.outcome(answer.value["items"])
