"""`rwkvctl undelete`."""

from rwkvctl import operationviews, views
from rwkvctl.confirming import named
from rwkvctl.context import Context
from rwkvctl.many import ANSWER_S
from rwkvctl.verbs import verb


@verb
def undelete(context: Context, jobs: list[str]) -> int:
    """Bring deleted jobs back, with their samples and scores.

    A job that was not done comes back stopped, so that nothing begins to run;
    `rwkvctl resume` lets it go on. What was pruned does not come back.

    jobs: ids of jobs, as `rwkvctl jobs --state deleted` shows them; `-` takes them from standard input

    $ rwkvctl undelete j12
    """
    answer = context.change("/v1/undelete", {"jobs": named(jobs)}, ANSWER_S)
    context.show(answer, views.changed(answer.value["items"]))
    return operationviews.outcome(answer.value["items"])
