"""`rwkvctl undelete`: bring deleted jobs back with their samples and scores."""

from rwkvctl.cli.bulk_changes import ANSWER_S
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables, operation_tables


@verb
def undelete(context: Context, jobs: list[str]) -> int:
    """Bring deleted jobs back, with their samples and scores.

    A job that was not finished comes back stopped; `rwkvctl resume` continues
    it. Pruned jobs cannot be brought back.

    jobs: ids of jobs, as `rwkvctl jobs --state deleted` shows them; `-` takes them from standard input

    $ rwkvctl undelete j12
    """
    answer = context.change("/v1/undelete", {"jobs": named(jobs)}, ANSWER_S)
    context.show(answer, core_tables.changed(answer.value["items"]))
    return operation_tables.outcome(answer.value["items"])
