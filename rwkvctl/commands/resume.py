"""`rwkvctl resume`."""

from rwkvctl import views
from rwkvctl.commands.stop import outcome
from rwkvctl.context import Context
from rwkvctl.parsing import UsageError
from rwkvctl.verbs import verb


@verb
def resume(context: Context, jobs: list[str] = [], *, session_id: str = "", all_: bool = False) -> int:  # noqa: B006
    """Let stopped, failed and held jobs go on where they stand; nothing is generated twice.

    jobs: ids of jobs
    session_id: every such job of this session
    all_: every such job

    $ rwkvctl resume j12
    $ rwkvctl resume --session-id s3
    """
    if bool(jobs) + bool(session_id) + all_ != 1:
        raise UsageError(
            "rwkvctl resume: name jobs, or one of --session-id and --all; see `rwkvctl jobs --state stopped`."
        )
    answer = context.change("/v1/resume", {"jobs": jobs, "session": session_id, "all": all_})
    context.show(answer, views.changed(answer.value["items"]))
    return outcome(answer.value["items"])
