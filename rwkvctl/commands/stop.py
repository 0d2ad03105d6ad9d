"""`rwkvctl stop`."""

from typing import Final

from rwkvctl import views
from rwkvctl.client import Record
from rwkvctl.context import Context
from rwkvctl.parsing import UsageError
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb

LONGEST_STOP_S: Final = 120.0
"""The ladder of a stop (ask, SIGTERM, SIGKILL) takes 50 s at most with the default settings."""


@verb
def stop(context: Context, jobs: list[str] = [], *, all_: bool = False) -> int:  # noqa: B006 - read by the registry
    """Stop jobs; answers when they have stopped, or says that they are stopping. What is done stays done.

    A stopped job goes on with `rwkvctl resume`. Stopping a job that is over changes nothing and is no error.

    jobs: ids of jobs, as `rwkvctl jobs` shows them
    all_: every job that is not over

    $ rwkvctl stop j12 j13
    $ rwkvctl stop --all
    """
    if bool(jobs) == all_:
        raise UsageError("rwkvctl stop: name jobs, or say --all; see `rwkvctl jobs`.")
    answer = context.change("/v1/stop", {"jobs": jobs, "all": all_}, LONGEST_STOP_S)
    context.show(answer, views.changed(answer.value["items"]))
    return outcome(answer.value["items"])


def outcome(items: list[Record]) -> int:
    """0 if all went well, 1 or 4 if none did, 8 if some did."""
    wrong = [item for item in items if item.get("error")]
    if not wrong:
        return Exit.OK
    if len(wrong) < len(items):
        return Exit.PARTLY
    return Exit.NOT_FOUND if all(not item["state"] for item in wrong) else Exit.FAILED
