"""Changes of very many jobs: the daemon answers how far it has come, and is asked again until all is done."""

from typing import Final

from rwkvctl.cli.client import Answer, Record, request_id
from rwkvctl.cli.context import Context
from rwkvctl.cli.tables import core_tables, operation_tables

ANSWER_S: Final = 60.0


def change_all(context: Context, route: str, body: Record) -> Answer:
    """Ask for a change until nothing is left of it; what is done so far is said. Whoever is cut off leaves a daemon
    that goes on."""
    named = body | {"request_id": request_id()}
    while True:
        answer = context.client.post(route, named, ANSWER_S)
        reply = answer.value
        if not reply.get("left"):
            return answer
        done = reply.get("changed", 0) + reply.get("unchanged", 0)
        context.say(
            f"{done:,} of {done + reply['left']:,} jobs processed; the daemon continues even if you interrupt this"
        )


def show(context: Context, answer: Answer) -> int:
    """Print the outcome for each job, or for very many jobs the counts; return the exit code."""
    reply = answer.value
    items, changed, unchanged = reply["items"], reply.get("changed", 0), reply.get("unchanged", 0)
    whole = changed + unchanged
    tables = [core_tables.changed(items)] if items or not whole else []
    context.show(answer, *tables)
    if whole and not context.as_json:
        rest = f"; {unchanged:,} unchanged" if unchanged else ""
        context.say(f"{changed:,} jobs changed{rest}")
    return operation_tables.outcome(items)
