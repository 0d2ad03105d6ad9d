"""Answers about the job log: who dispatched what, when, and with which result."""

import json
from typing import Any

from rwkv_daemon.api.state_views import score_decoder
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.score_writer import headline
from rwkv_daemon.rules.page_size import page_size
from rwkv_daemon.store.queries.job_log import logged
from rwkvctl.protocol.record import JobLogReply, JobLogRequest, JobLogView


async def page(records: Records, request: JobLogRequest) -> JobLogReply:
    """Answer `GET /v1/job-log`: a page of the jobs that match, newest first. `next` is the number before which the
    following page begins, 0 at the end."""
    limit = page_size(request.limit)
    rows = await logged(records.store, request, limit)
    return JobLogReply(items=tuple(map(view, rows)), next=rows[-1]["id"] if len(rows) == limit else 0)


def view(row: Any) -> JobLogView:
    """Return a row of the job log as clients see it."""
    return JobLogView(
        job=f"j{row['id']}",
        session=row["session"],
        user=row["who"] or "",
        samples=row["done"],
        limit=row["row_limit"],
        settings=json.loads(row["settings"]),
        config=row["generation_key"],
        **{name: row[name] for name in SAME},
        **result(row),
    )


SAME = ("model", "benchmark", "kind", "version", "state", "queued", "started", "finished", "numerics", "weights_sha256",
        "suite", "note")  # fmt: skip
"""Columns of the store that are shown unchanged."""


def result(row: Any) -> dict[str, Any]:
    """Return the fields that say how a job ended: its score, or why there is none."""
    if not row["score"]:
        return {"result": row["detail"] or row["reason"]}
    score = score_decoder.decode(row["score"])
    metric = score.metrics[score.primary]
    values = {"value": metric.value, "ci_low": metric.ci_low, "ci_high": metric.ci_high}
    return {"metric": score.primary, "result": headline(score), **values}
