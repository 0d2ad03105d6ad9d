"""`rwkvctl resume`: continue jobs that are stopped, paused, failed or held, and end pauses."""

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
    """Resume jobs where they stopped; nothing is generated twice.

    Named jobs, those of a session, or all: jobs that are stopped, paused,
    failed, or held for a reason that is gone. Jobs that `rwkvctl hold` holds
    need `rwkvctl release`. --model, --group, --queue and --judge end a pause
    that `rwkvctl pause` began with the same flag.

    jobs: ids of jobs; `-` takes them from standard input
    session_id: every such job of this session
    all_: every such job
    model: end the pause of this model
    group: end the pause of this group
    queue: end the pause of the queue
    judge: end the pause of the judge

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
