"""`rwkvctl hold`: keep jobs from running until they are released."""

from rwkvctl.cli.bulk_changes import ANSWER_S
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables, operation_tables


@verb
def hold(context: Context, jobs: list[str], *, reason: str = "") -> int:
    """Hold jobs until they are released, with a reason.

    A running job stops at its next batch and keeps its samples. Only `rwkvctl
    release` releases a held job; `resume --all` does not.

    jobs: ids of jobs; `-` takes them from standard input
    reason: the reason, shown to other operators

    $ rwkvctl hold j12 --reason "rows are being checked"
    """
    answer = context.change("/v1/hold", {"jobs": named(jobs), "why": reason}, ANSWER_S)
    context.show(answer, core_tables.changed(answer.value["items"]))
    return operation_tables.outcome(answer.value["items"])
