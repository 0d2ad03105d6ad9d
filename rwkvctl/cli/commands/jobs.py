"""`rwkvctl jobs`: list jobs, newest first, finished ones included."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.protocol.states import JobState


@verb
def jobs(
    context: Context, *, state: JobState | None = None, session_id: str = "", limit: int = 100, before: int = 0
) -> int:
    """Jobs, newest first, finished ones too.

    state: only jobs in this state
    session_id: only the jobs of this session
    limit: at most this many jobs
    before: only jobs before this number (the cursor that a full page names)

    $ rwkvctl jobs --state failed
    $ rwkvctl jobs -o tsv | cut -f1
    """
    answer = context.client.get("/v1/jobs", state=state, session=session_id, limit=limit, before=before or None)
    context.show(answer, core_tables.jobs(answer.value["items"]))
    if answer.value.get("next"):
        context.say(f"more jobs: rwkvctl jobs --before {answer.value['next']}")
    return Exit.OK
