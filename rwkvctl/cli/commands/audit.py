"""`rwkvctl audit`: list the changes that users and the daemon made, newest first."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import audit_table
from rwkvctl.cli.time_argument import moment
from rwkvctl.protocol.errors import Exit


@verb
def audit(
    context: Context, *, since: str = "", user: str = "", verb: str = "", limit: int = 100, before: int = 0
) -> int:
    """Changes and who made them, newest first: user and process as the kernel reports them, and the outcome.

    Refused attempts and changes by the daemon itself (user `daemon`) are listed too. Entries are never changed or
    removed. Reading them needs the operator role; --json also shows the exact request.

    since: only entries since then: an age like 10m, 36h or 7d, or a time like 2026-11-01T12:00Z
    user: only what this user did, by name or number
    verb: only this verb, as the list shows it
    limit: at most this many entries
    before: only entries before this number (the cursor that a full page names)

    $ rwkvctl audit --since 12h
    $ rwkvctl audit --verb stop --user alice
    """
    query = {
        "since": moment(since) if since else "",
        "user": user,
        "verb": verb,
        "limit": limit,
        "before": before or None,
    }
    answer = context.client.get("/v1/audit", **query)
    context.show(answer, audit_table.entries(answer.value["items"]))
    if answer.value.get("next"):
        context.say(f"more entries: rwkvctl audit --before {answer.value['next']}")
    return Exit.OK
