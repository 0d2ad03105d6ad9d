"""`rwkvctl scores`, and `rwkvctl scores show` for one score in full."""

from typing import Final

from rwkvctl.cli.client import segment
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables, score_table
from rwkvctl.protocol.errors import Exit, RwkvctlError

RUNS: Final = 40
"""Runs of the same kind that a score's trend is drawn of, the newest."""


class NoScoreError(RwkvctlError):
    """The job has no score to show."""

    exit_code = Exit.NOT_FOUND


@verb
def scores(
    context: Context, *, model: str = "", benchmark: str = "", session_id: str = "", all_versions: bool = False,
    limit: int = 1000,
) -> int:  # fmt: skip
    """Scores with 95 % confidence intervals and notes.

    Each score shows how many samples it has, how many were cut off at the token limit, gave no answer or ended in an
    error, and the score of guessing. A score without a number shows the reason.

    model: only this model
    benchmark: only this benchmark
    session_id: only the scores of this session
    all_versions: every version, not only the newest
    limit: at most this many scores

    $ rwkvctl scores
    $ rwkvctl scores --benchmark gsm8k --all-versions --json
    """
    answer = context.client.get(
        "/v1/scores",
        model=model,
        benchmark=benchmark,
        session=session_id,
        all_versions=all_versions or None,
        limit=limit,
    )
    context.show(answer, core_tables.scores(answer.value["items"]))
    return Exit.OK


@verb
def scores_show(context: Context, job: str) -> int:
    """One score in detail: every metric, the breakdown by subject, k curves, notes and provenance.

    job: the id of its job

    $ rwkvctl scores show j12
    """
    answer = context.client.get(f"/v1/jobs/{segment(job)}")
    item = answer.value["item"]
    score = item.get("score")
    if score is None:
        raise NoScoreError(f"{item['id']} is {item['state']} and has no score yet; see `rwkvctl jobs`.")
    headline = [f"{score['model']} {score['benchmark']} {score['kind']} ({score['job']}, version {score['version']})"]
    if not context.as_json and not context.as_tabs:
        query = {"model": score["model"], "benchmark": score["benchmark"], "all_versions": True, "limit": RUNS}
        runs = context.client.get("/v1/scores", **query).value["items"]
        headline += filter(None, [score_table.trend(runs, score)])
    context.show(answer, *score_table.whole(score), headline=headline)
    return Exit.OK
