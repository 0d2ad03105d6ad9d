"""`rwkvctl hold`."""

from rwkvctl import operationviews, views
from rwkvctl.confirming import named
from rwkvctl.context import Context
from rwkvctl.many import ANSWER_S
from rwkvctl.verbs import verb


@verb
def hold(context: Context, jobs: list[str], *, reason: str = "") -> int:
    """Put jobs aside until they are released, with the reason.

    One that runs ends at its next batch and keeps what it has. Nothing but
    `rwkvctl release` lets a held job go, not even `resume --all`.

    jobs: ids of jobs; `-` takes them from standard input
    reason: why, for whoever looks next

    $ rwkvctl hold j12 --reason "rows are being checked"
    """
    answer = context.change("/v1/hold", {"jobs": named(jobs), "why": reason}, ANSWER_S)
    context.show(answer, views.changed(answer.value["items"]))
    return operationviews.outcome(answer.value["items"])
