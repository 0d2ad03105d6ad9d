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
    """Pause jobs: named ones, those of a model or a group, or the whole queue.

    Running jobs stop at their next batch and keep their samples; engines stay
    loaded. A paused job waits for `rwkvctl resume JOB`. Jobs of a paused model,
    group or queue stay queued, new ones too, until it is resumed. With --judge
    no more requests go to the judge and the checker, so they cost nothing.

    jobs: ids of jobs; `-` takes them from standard input
    model: every job of this model
    group: every job of this group
    queue: every job
    judge: requests to the judge and the checker
    reason: the reason, shown to other operators

    $ rwkvctl pause j12 --reason "wrong prompt?"
    $ rwkvctl pause --queue --reason "training needs the machine"
    """
    if bool(jobs) + bool(model) + bool(group) + queue + judge != 1:
        raise UsageError("rwkvctl pause: name jobs, or one of --model, --group, --queue and --judge.")
    body = {"jobs": named(jobs), "model": model, "group": group, "queue": queue, "judge": judge, "why": reason}
    answer = context.change("/v1/pause", body, ANSWER_S)
    operation_tables.show_paused(context, answer)
    return operation_tables.outcome(answer.value.get("items", ()))
