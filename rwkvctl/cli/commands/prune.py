"""`rwkvctl prune`: permanently remove deleted jobs and their files."""

from rwkvctl.cli.commands.delete import change, words
from rwkvctl.cli.confirm import confirm
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.time_argument import moment


@verb
def prune(context: Context, *, older_than: str, yes: bool = False) -> int:
    """Permanently remove deleted jobs, with their samples, scores and files.

    The command shows what will be lost and asks, unless --yes is given. Only
    jobs that `rwkvctl delete` deleted are removed; this cannot be undone.

    older_than: only jobs deleted longer ago than this (30d, 12h), or before a time
    yes: do not ask

    $ rwkvctl prune --older-than 30d
    $ rwkvctl prune --older-than 0s --yes
    """
    lost = context.client.post("/v1/loss", {"deleted_before": moment(older_than)}).value
    if lost["jobs"]:
        confirm(context, f"Permanently remove {words(lost)}?", yes=yes)
    return change(context, "/v1/prune", lost)
