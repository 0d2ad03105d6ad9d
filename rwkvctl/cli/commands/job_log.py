"""`rwkvctl job-log`: who ran what, when, with which result."""

import dataclasses
from collections.abc import Iterator
from typing import Literal

from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import option, verb
from rwkvctl.cli.selection import check_daemon, check_suite
from rwkvctl.cli.tables import history_tables
from rwkvctl.cli.time_argument import moment
from rwkvctl.protocol.errors import Exit

PAGE = 1000


@dataclasses.dataclass(frozen=True)
class LogFilters:
    """Which jobs of the log are shown."""

    since: str = option("", "only jobs queued since then: 2026-11-01, 2026-11-01T12:00Z, or an age like 36h, 7d")
    session_id: str = option("", "only the jobs of this session")
    model: str = option("", "only the jobs of this model")
    suite: str | None = option(None, "only the jobs that a dispatch of this suite has queued")
    at: str = option("", "only the jobs that ran then: a time, or an age")


@verb
def job_log(
    context: Context, filters: LogFilters, *, limit: int = 100, all_: bool = False,
    format_: Literal["table", "markdown", "csv"] = "table",
) -> int:  # fmt: skip
    """All jobs ever queued, newest first: who ran what, when, with which settings and result.

    CONFIG is the hash of everything that decides what is generated: two jobs with the same CONFIG did the same work.

    limit: at most this many jobs
    all_: all jobs, without a limit
    format_: a table for people, Markdown for a report, or CSV with every field (--json has them too)

    $ rwkvctl job-log --since 7d
    $ rwkvctl job-log --at 2026-11-01T02:58Z
    $ rwkvctl job-log --all --format csv > jobs.csv
    $ rwkvctl job-log --session-id 20261122_073053_1f2e --format markdown
    """
    check_suite(filters.suite)
    query = {"session": filters.session_id, "model": filters.model, "suite": filters.suite or ""}
    check_daemon(context.client, {"suite": filters.suite} if filters.suite else {})
    query |= {"since": moment(filters.since) if filters.since else "", "at": moment(filters.at) if filters.at else ""}
    if format_ == "table" and not all_:
        answer = context.client.get("/v1/job-log", limit=limit, **query)
        context.show(answer, history_tables.job_log(answer.value["items"]))
        if answer.value.get("next") and not context.as_json:
            context.say("there are more jobs: use --all or a larger --limit")
        return Exit.OK
    items = list(pages(context, query, None if all_ else limit))
    if context.as_json:
        import json

        first = context.client.get("/v1/job-log", limit=1, **query).value
        context.show(Answer(json.dumps(first | {"items": items, "next": 0}).encode(), {}))
    elif format_ == "table":
        context.tables(history_tables.job_log(items))
    else:
        context.terminal.write(
            history_tables.log_csv(items) if format_ == "csv" else history_tables.log_markdown(items)
        )
    return Exit.OK


def pages(context: Context, query: dict[str, str], most: int | None) -> Iterator[Record]:
    """Yield at most `most` records of the job log (None: all), fetched in pages of PAGE."""
    before, left = 0, most
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        reply = context.client.get("/v1/job-log", limit=size, before=before or None, **query).value
        yield from reply["items"]
        left = None if left is None else left - len(reply["items"])
        before = reply.get("next", 0)
        if not before:
            return
