"""`rwkvctl resume`: continue jobs that are stopped, paused, failed or held, and lift pauses."""

from rwkvctl.cli import bulk_changes
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import operation_tables


@verb
def resume(
    context: Context, jobs: list[str] = [], *, session_id: str = "", all_: bool = False,  # noqa: B006
    model: str = "", group: str = "", queue: bool = False, judge: bool = False,
) -> int:  # fmt: skip
    """Let jobs go on where they stand; nothing is generated twice.

    Named jobs, a session's, or all: those that are stopped, paused, failed, or
    held for something that is there again. What `rwkvctl hold` holds needs
    `rwkvctl release`. --model, --group, --queue and --judge lift what
    `rwkvctl pause` began with the same flag.

    jobs: ids of jobs; `-` takes them from standard input
    session_id: every such job of this session
    all_: every such job
    model: lift the pause of this model
    group: lift the pause of this group
    queue: lift the pause of the queue
    judge: lift the pause of the judge

    $ rwkvctl resume j12
    $ rwkvctl resume --queue
    """
    wide = bool(model) + bool(group) + queue + judge
    if bool(jobs) + bool(session_id) + all_ + wide != 1:
        raise UsageError(
            "rwkvctl resume: name jobs, or one of --session-id, --all, --model, --group, --queue and "
            "--judge; see `rwkvctl jobs --state stopped`."
        )
    if wide:
        body = {"model": model, "group": group, "queue": queue, "judge": judge, "off": True}
        answer = context.change("/v1/pause", body)
        operation_tables.show_paused(context, answer)
        return operation_tables.outcome(answer.value.get("items", ()))
    body = {"jobs": named(jobs), "session": session_id, "all": all_}
    return bulk_changes.show(context, bulk_changes.change_all(context, "/v1/resume", body))
