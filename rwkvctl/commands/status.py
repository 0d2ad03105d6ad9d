"""`rwkvctl status`."""

from rwkvctl import views
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def status(context: Context, *, session_id: str = "", limit: int = 20) -> int:
    """What holds the GPUs, what runs, and what waits and why.

    session_id: only the jobs of this session
    limit: so many waiting and finished jobs at most

    $ rwkvctl status
    $ rwkvctl status --session-id s3 --json
    """
    answer = context.client.get("/v1/status", session=session_id, limit=limit)
    reply = answer.value
    groups = [views.jobs(reply.get(name, ()), "") for name in ("running", "waiting", "recent")]
    tables = [views.leases(reply["leases"]), views.engines(reply["engines"]), *groups]
    context.show(answer, *tables, headline=views.headline(reply) + "\n")
    if not any(group.rows for group in groups):
        context.say("no jobs; `rwkvctl dispatch --models builtin` queues some")
    for note in reply.get("notes", ()):
        context.say(f"note: {note}")
    return Exit.OK
