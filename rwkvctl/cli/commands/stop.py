"""`rwkvctl stop`: stop jobs and wait until none of their processes runs."""

import time
from typing import Final

from rwkvctl.cli import bulk_changes
from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.confirm import confirm, named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb

LOOK_S: Final = 0.5


@verb
def stop(
    context: Context, jobs: list[str] = [], *, model: str = "", session_id: str = "", all_: bool = False,  # noqa: B006
    yes: bool = False, timeout: float = 180.0,
) -> int:  # fmt: skip
    """Stop jobs; returns when none of their processes runs, or names those that still do.

    A runner is asked to stop, then gets SIGTERM, then SIGKILL; one that does
    not end even then is shown as stuck, never as stopped. Finished samples are
    kept, and `rwkvctl resume` continues a stopped job. Stopping a finished job
    changes nothing and is no error. For many jobs the command asks first,
    unless --yes is given. For very many it shows the progress; if you
    interrupt the command, the daemon continues.

    Exit code 6: a process still runs; the daemon continues to end it.

    jobs: ids of jobs, as `rwkvctl jobs` shows them; `-` takes them from standard input
    model: every job of this model that is not finished
    session_id: every job of this session that is not finished
    all_: every job that is not finished
    yes: do not ask
    timeout: seconds to wait for runners to end

    $ rwkvctl stop j12 j13
    $ rwkvctl stop --model rwkv7-g1d-0.4b-20260210 --yes
    """
    wide = bool(model) + bool(session_id) + all_
    if bool(jobs) + wide != 1:
        raise UsageError("rwkvctl stop: name jobs, or one of --model, --session-id and --all; see `rwkvctl jobs`.")
    if wide:
        which = f"of {model}" if model else f"of session {session_id}" if session_id else "that is not finished"
        confirm(context, f"Stop every job {which} on {context.config.home}?", yes=yes)
    body = {"jobs": named(jobs), "model": model, "session": session_id, "all": all_}
    answer = bulk_changes.change_all(context, "/v1/stop", body)
    items = until_ended(context, answer.value["items"], time.monotonic() + timeout)
    return bulk_changes.show(context, Answer(answer.raw, answer.value | {"items": items}))


def until_ended(context: Context, items: list[Record], deadline: float) -> list[Record]:
    """Return the items once all processes have ended, or at the deadline; print each step of the daemon."""
    told: dict[str, str] = {}
    while time.monotonic() < deadline and any(item.get("still") for item in items):
        for item in items:
            if item.get("still") and told.get(item["job"]) != item["still"]:
                told[item["job"]] = item["still"]
                context.say(f"{item['job']}: {item['still']}")
        time.sleep(LOOK_S)
        items = [again(context, item) if item.get("still") else item for item in items]
    return items


def again(context: Context, item: Record) -> Record:
    """Return the present item of a job that was still running."""
    job = context.client.get(f"/v1/jobs/{item['job']}").value["item"]
    still = job.get("detail", "") or "its runner still runs"
    return item | {"state": job["state"], "still": still if job["state"] == "stopping" else ""}
