"""`rwkvctl pause`: pause named jobs, those of a model or a group, the whole queue, or the judge."""

from rwkvctl.cli.bulk_changes import ANSWER_S
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import operation_tables


@verb
def pause(
    context: Context, jobs: list[str] = [], *, model: str = "", group: str = "", queue: bool = False,  # noqa: B006
    judge: bool = False, reason: str = "",
) -> int:  # fmt: skip
    """Let jobs wait: named ones, a model's, a group's, or all of the queue.

    What runs ends at its next batch and keeps what it has; engines stay warm.
    A paused job waits for `rwkvctl resume JOB`. Jobs of a model, a group or
    the queue stay queued, later ones too, until the same is resumed. With
    --judge nothing more is asked of the judge and the checker, nor paid.

    jobs: ids of jobs; `-` takes them from standard input
    model: every job of this model
    group: every job of this group
    queue: every job
    judge: what the judge and the checker would be asked
    reason: why, for whoever looks next

    $ rwkvctl pause j12 --reason "wrong prompt?"
    $ rwkvctl pause --queue --reason "training needs the machine"
    """
    if bool(jobs) + bool(model) + bool(group) + queue + judge != 1:
        raise UsageError("rwkvctl pause: name jobs, or one of --model, --group, --queue and --judge.")
    body = {"jobs": named(jobs), "model": model, "group": group, "queue": queue, "judge": judge, "why": reason}
    answer = context.change("/v1/pause", body, ANSWER_S)
    operation_tables.show_paused(context, answer)
    return operation_tables.outcome(answer.value.get("items", ()))
