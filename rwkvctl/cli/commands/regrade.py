"""`rwkvctl regrade`: grade the stored completions of finished jobs with the current grader."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables
from rwkvctl.cli.tables.operation_tables import outcome


@verb
def regrade(context: Context, jobs: list[str] = [], *, session_id: str = "") -> int:  # noqa: B006 - read by the registry
    """Grade the stored completions of finished jobs with the current grader; nothing is generated.

    The old grades are kept; `rwkvctl scores --all-versions` shows both. If the grader is the same, only samples without
    a verdict (errors, answers that the judge could not judge) are graded again.

    jobs: ids of jobs
    session_id: every finished job of this session

    $ rwkvctl regrade j12
    $ rwkvctl regrade --session-id 20261122_031448_ab12
    """
    if bool(jobs) == bool(session_id):
        raise UsageError("rwkvctl regrade: name jobs, or a --session-id; see `rwkvctl jobs --state done`.")
    answer = context.change("/v1/regrade", {"jobs": jobs, "session": session_id})
    context.show(answer, core_tables.changed(answer.value["items"]))
    return outcome(answer.value["items"])
