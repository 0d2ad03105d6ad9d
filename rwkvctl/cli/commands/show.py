"""`rwkvctl show`: one job in detail, and the command that repeats it."""

from rwkvctl.cli.client import segment
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import history_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.shell_words import as_typed


@verb
def show(context: Context, job: str, *, repro: bool = False) -> int:
    """One job in detail; with --repro the command line that repeats it.

    The line contains everything that decides what is generated: seed, numerics, k and every changed setting. The daemon
    checks whether it gives the same generation key now; if not, the differences are shown and the exit code is 1.

    job: the id of a job
    repro: print the command line that repeats it

    $ rwkvctl show j12
    $ rwkvctl show j12 --repro
    """
    if repro:
        return repeat(context, job)
    answer = context.client.get(f"/v1/jobs/{segment(job)}")
    context.show(answer, history_tables.job(answer.value["item"], answer.value))
    return Exit.OK


def repeat(context: Context, job: str) -> int:
    """Print the command line on standard output, and notes about it on standard error."""
    answer = context.client.get(f"/v1/jobs/{segment(job)}/repro")
    reply = answer.value
    if context.as_json:
        context.show(answer)
    else:
        context.terminal.line(as_typed(reply["argv"]))
        for name, value in reply.get("pins", {}).items():
            context.say(f"# {name}: {value}")
        for sentence in reply.get("differs", ()):
            context.terminal.note(f"# this command no longer repeats the job: {sentence}", "warn")
    return Exit.OK if reply["same"] else Exit.FAILED
