"""`rwkvctl review`: answers whose verdict the checker doubts."""

from typing import Literal

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import judge_tables
from rwkvctl.protocol.errors import Exit


@verb
def review(context: Context, *, job: str = "", every: bool = False, after: int = 0, limit: int = 50) -> int:
    """Wrong answers that a person should check: the checker says that the answer or its reasoning is right.

    Such answers show errors of a grader or an extraction. `rwkvctl samples` shows the whole sample.

    job: only findings of this job
    every: all findings, also those that need no review or were reviewed
    after: only samples after this number
    limit: at most this many

    $ rwkvctl review
    $ rwkvctl review --job j12 --every
    """
    answer = context.client.get("/v1/review", job=job, every=every or None, after=after, limit=limit)
    context.show(answer, judge_tables.findings(answer.value["items"]))
    return Exit.OK


@verb
def review_mark(context: Context, sample: int, decision: Literal["right", "wrong"]) -> int:
    """Record what a person decided about an answer. The grade does not change; the answer leaves the list.

    sample: the sample's number, as `rwkvctl review` shows it
    decision: whether the answer is right or wrong

    $ rwkvctl review mark 4711 right
    """
    answer = context.change("/v1/review", {"sample": sample, "decision": decision})
    if context.as_json:
        context.show(answer)
    context.say(f"sample {sample}: {decision}")
    return Exit.OK
