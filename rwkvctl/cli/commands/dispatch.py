"""`rwkvctl dispatch`: queue jobs, and with --wait follow them to their scores."""

from typing import Final

from rwkvctl.cli import selection, show_files, waiting
from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.confirm import confirm
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.selection import Filters
from rwkvctl.cli.tables import core_tables
from rwkvctl.cli.tables.judge_tables import paid_line
from rwkvctl.cli.waiting import PASSING
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.text.quantities import several


@verb
def dispatch(
    context: Context, filters: Filters, *, plan: str = "", yes: bool = False, wait: bool = False,
    timeout: float | None = None,
) -> int:  # fmt: skip
    """Queue the jobs that the filters select; jobs that are done or queued already are not queued again.

    For more than 50 jobs (setting dispatch_asks_above), or if all would be held, the command asks first, unless
    --yes or --plan is given. Benchmarks without rows on this node are left out and named, unless --hold-missing is
    given.

    If jobs need the judge or the checker, calls, tokens, cost and remaining budget are shown first.

    With --wait, one line per job shows the progress on standard error, and the scores follow on standard output.
    Ctrl-C and --timeout end the waiting; the jobs continue. Exit code with --wait: 0 all done, 1 a job failed or was
    stopped, 6 timed out, 8 some jobs are held and the others done. Exit code 5: nothing matches the filters,
    or no matching benchmark has rows.

    plan: the hash that `rwkvctl queue` showed; refuse if the plan has changed since
    yes: do not ask
    wait: follow the jobs until they end, then show their scores
    timeout: with --wait, seconds after which waiting ends

    $ rwkvctl dispatch --models builtin --wait
    $ rwkvctl dispatch --model-regex 'g1.*2.9b' --only-datasets gsm8k --limit 100 --seed 7
    $ rwkvctl dispatch --only-datasets gsm8k --set temperature=0 --overwrite
    $ rwkvctl dispatch --only-datasets gsm8k --set order=gsm8k.order.txt --limit 200
    $ rwkvctl dispatch --suite nightly --model-select latest-data --note 'before the data change'
    """
    wanted = selection.body(filters, str(context.config.home), str(context.config.weights_dir))
    selection.check_daemon(context.client, wanted)
    wanted = selection.with_order_kept(context.client, wanted)
    if not plan:
        look_first(context, wanted, yes=yes)
    show_files.show_selected(context.client, wanted)
    answer = context.change("/v1/dispatch", {"selection": wanted, "plan_hash": plan})
    if plan:
        say_paid(context, answer.value["plan"])
    if left := without_rows(answer.value["plan"]["rows"]):
        context.say(f"left out because their rows are not prepared: {', '.join(left)}")
        context.say(f"`rwkvctl data prepare {' '.join(left)}` prepares them; --hold-missing queues their jobs as held")
    if wait:
        context.say(summary(answer.value))
        return waiting.wait(context, answer, timeout)
    show(context, answer)
    return Exit.OK


def look_first(context: Context, wanted: Record, *, yes: bool) -> None:
    """Ask before a large plan is queued, or one that would be held. Raises RefusedError if it is not confirmed."""
    show_files.show_selected(context.client, wanted)
    reply = context.client.post("/v1/plan", {"selection": wanted}).value
    rows = reply["rows"]
    if not rows:
        raise RefusedError("nothing-matches", NOTHING, near_names(context), Exit.REFUSED)
    if all(row["reason"] == "data-missing" and row["action"] == "skip" for row in rows):
        names = without_rows(rows)
        hint = f"`rwkvctl data prepare {' '.join(names)}` prepares them; --hold-missing queues the jobs as held."
        detail = f"Nothing was queued: the rows of {', '.join(names)} are not prepared."
        raise RefusedError("data-missing", detail, hint, Exit.REFUSED)
    say_paid(context, reply)
    if question := question_about(rows, context.config.settings.dispatch_asks_above):
        confirm(context, question, yes=yes)


def say_paid(context: Context, plan: Record) -> None:
    """Print the expected calls to the judge and the checker, and their cost."""
    for item in plan.get("paid", ()):
        context.say(paid_line(item))


NOTHING: Final = "Nothing was queued: no model or no benchmark matches the filters."
NAMED: Final = 5
"""So many models are named where nothing matches."""


def near_names(context: Context) -> str:
    """Return a sentence with the models of this node, for filters that match nothing."""
    names = [item["name"] for item in context.client.get("/v1/models").value["items"]]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"Models on this node: {', '.join(names[:NAMED])}{more}; `rwkvctl benchmarks` lists the benchmarks."


def question_about(rows: list[Record], most: int) -> str:
    """Return the question to ask before these rows are queued; empty if none is needed."""
    queued = [row for row in rows if row["action"] in {"run", "resume", "hold"}]
    held = [row for row in queued if row["action"] == "hold"]
    if queued and len(held) == len(queued) and not any(row["reason"] in PASSING for row in held):
        why = ", ".join(sorted({row["reason"] for row in held}))
        return f"Queue {several(len(queued), 'job')} that would all be held ({why})?"
    if not most or len(queued) <= most:
        return ""
    models, benchmarks = ({row[name] for row in queued} for name in ("model", "benchmark"))
    pairs = f"{several(len(models), 'model')} on {several(len(benchmarks), 'benchmark')}"
    return f"Queue {several(len(queued), 'job')}: {pairs}?"


def without_rows(rows: list[Record]) -> list[str]:
    """Return the benchmarks that are left out because their rows are not prepared."""
    missing = (row["benchmark"] for row in rows if row["reason"] == "data-missing" and row["action"] == "skip")
    return list(dict.fromkeys(missing))


def show(context: Context, answer: Answer) -> None:
    """Print what was queued and what was not."""
    reply = answer.value
    context.show(answer, core_tables.plan(reply["plan"]["rows"]), headline=[summary(reply), ""])
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
    return ", ".join(parts) + (" (this request was already answered)" if reply.get("repeated") else "")
