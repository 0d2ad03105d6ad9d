"""`rwkvctl delete`: take jobs out of every list until `rwkvctl undelete` or `rwkvctl prune`."""

from rwkvctl.cli import bulk_changes
from rwkvctl.cli.client import Record
from rwkvctl.cli.confirm import confirm, named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.states import Deletable
from rwkvctl.text.quantities import size_in_words


@verb
def delete(context: Context, jobs: list[str] = [], *, state: Deletable | None = None, yes: bool = False) -> int:  # noqa: B006
    """Take jobs out of every list, with their samples and scores.

    The command shows what will be lost and asks, unless --yes is given. `rwkvctl
    undelete` brings jobs back until the next `rwkvctl prune`, which removes
    them and their files for good; until then `rwkvctl jobs --state deleted`
    shows them. A running job is not deleted: stop it first.

    jobs: ids of jobs, as `rwkvctl jobs` shows them; `-` takes them from standard input
    state: every job in this state
    yes: do not ask

    $ rwkvctl delete j12 j13
    $ rwkvctl delete --state failed --yes
    """
    if bool(jobs) + bool(state) != 1:
        raise UsageError("rwkvctl delete: name jobs, or --state; see `rwkvctl jobs`.")
    lost = context.client.post("/v1/loss", {"jobs": named(jobs), "state": state or ""}).value
    if lost["jobs"]:
        confirm(context, f"Delete {words(lost)}? `rwkvctl undelete` brings them back until a prune.", yes=yes)
    if lost.get("more"):
        return bulk_changes.show(context, bulk_changes.change_all(context, "/v1/delete", {"state": state}))
    return change(context, "/v1/delete", lost)


def words(lost: Record) -> str:
    """Return what is lost as words: `2 jobs: 400 samples, 2 scores, 1.2 MiB of files`."""
    jobs, samples, scores = len(lost["jobs"]) + lost.get("more", 0), lost["samples"], lost["scores"]
    counted = [
        f"{number:,} {one}{'' if number == 1 else 's'}" for number, one in ((samples, "sample"), (scores, "score"))
    ]
    some = f"{jobs:,} jobs" if jobs > 1 else lost["jobs"][0]
    return f"{some}: {', '.join(counted)}, {size_in_words(lost['bytes'])} of files"


def change(context: Context, route: str, lost: Record) -> int:
    """Change the jobs that can be changed; the others are listed with the reason."""
    jobs = [*lost["jobs"], *(item["job"] for item in lost.get("refused", ()))]
    return bulk_changes.show(context, bulk_changes.change_all(context, route, {"jobs": jobs}))
