"""`rwkvctl release`: release jobs that `rwkvctl hold` holds."""

from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables, operation_tables


@verb
def release(context: Context, jobs: list[str]) -> int:
    """Release held jobs: those that `rwkvctl hold` holds.

    jobs: ids of jobs; `-` takes them from standard input

    $ rwkvctl release j12
    """
    answer = context.change("/v1/release", {"jobs": named(jobs)})
    context.show(answer, core_tables.changed(answer.value["items"]))
    return operation_tables.outcome(answer.value["items"])
