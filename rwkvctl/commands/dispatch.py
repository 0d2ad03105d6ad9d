"""`rwkvctl dispatch`: queue jobs, and with --wait follow them to their scores."""

from rwkvctl import selection, views, waiting
from rwkvctl.client import Answer, Record
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.selection import Filters
from rwkvctl.verbs import verb


@verb
def dispatch(
    context: Context, filters: Filters, *, plan: str = "", wait: bool = False, timeout: float | None = None
) -> int:
    """Queue the jobs that the filters select; what is done or queued already is left alone.

    With --wait, one line per job shows the progress on standard error, and the scores follow on standard output.
    Ctrl-C and --timeout end the waiting, never the work. Exit code with --wait: 0 all done, 1 a job failed or was
    stopped, 6 timed out, 8 some jobs are held and the others done.

    plan: refuse if the plan is another one by now: the hash that `rwkvctl queue` showed
    wait: follow the jobs until they end, then show their scores
    timeout: with --wait, seconds after which waiting ends

    $ rwkvctl dispatch --models builtin --wait
    $ rwkvctl dispatch --model-regex 'g1.*2.9b' --only-datasets gsm8k --limit 100 --seed 7
    $ rwkvctl dispatch --only-datasets gsm8k --set temperature=0 --overwrite
    """
    answer = context.change(
        "/v1/dispatch", {"selection": selection.body(filters, str(context.config.home)), "plan_hash": plan}
    )
    if wait:
        context.say(summary(answer.value))
        return waiting.wait(context, answer, timeout)
    show(context, answer)
    return Exit.OK


def show(context: Context, answer: Answer) -> None:
    """What was queued and what was left alone."""
    reply = answer.value
    context.show(answer, views.plan(reply["plan"]["rows"]), headline=summary(reply) + "\n")
    if reply["jobs"] and not context.as_json:
        context.say(f"session {reply['session']}: follow it with `rwkvctl status --session-id {reply['session']}`")


def summary(reply: Record) -> str:
    """`3 new, 2 already queued or done, 1 held`."""
    rows: list[Record] = list(reply["plan"]["rows"])
    already = sum(row["reason"] in {"done", "queued"} for row in rows)
    held = sum(row["action"] == "hold" for row in rows)
    left = sum(row["action"] == "skip" for row in rows) - already
    new = sum(row["action"] in {"run", "resume"} for row in rows)
    parts = [f"{new} new", f"{already} already queued/done"]
    parts += [f"{held} held"] if held else []
    parts += [f"{left} left out"] if left > 0 else []
    return ", ".join(parts) + (" (this request was answered before)" if reply.get("repeated") else "")
