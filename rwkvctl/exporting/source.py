"""Scores and samples from the daemon, one page at a time: an export may be larger than the memory."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rwkvctl.client import Client, Record, segment

JOBS_A_PAGE: Final = 200
SAMPLES_A_PAGE: Final = 100


class Wanted(NamedTuple):
    """Which scores are exported; an empty field means all."""

    model: str = ""
    benchmark: str = ""
    session: str = ""
    all_versions: bool = False


def scores(client: Client, wanted: Wanted) -> Iterator[Record]:
    """Scores, newest first; of each model, benchmark and kind only the newest, unless all are wanted. An imported score
    stands beside ours and hides none."""
    seen: set[tuple[object, ...]] = set()
    for job in done_jobs(client, wanted.session):
        score = job.get("score")
        if not score or not matches(score, wanted):
            continue
        key = (score["model"], score["benchmark"], score["kind"], is_imported(score))
        if wanted.all_versions or key not in seen:
            seen.add(key)
            yield score


def matches(score: Record, wanted: Wanted) -> bool:
    """Whether a score is of the model and benchmark that are wanted."""
    return wanted.model in {"", score["model"]} and wanted.benchmark in {"", score["benchmark"]}


def is_imported(score: Record) -> bool:
    """Whether another program measured it."""
    return "imported" in score.get("provenance", {})


def done_jobs(client: Client, session: str) -> Iterator[Record]:
    """Every job that is done, newest first."""
    before = None
    while True:
        page = client.get("/v1/jobs", state="done", session=session, limit=JOBS_A_PAGE, before=before).value
        yield from page["items"]
        before = page.get("next") or None
        if before is None:
            return


def samples(client: Client, job: str) -> Iterator[Record]:
    """Every sample of a job, in order of row and repeat."""
    after = -1
    while True:
        page = client.get(f"/v1/jobs/{segment(job)}/samples", limit=SAMPLES_A_PAGE, after=after).value
        yield from page["items"]
        after = page.get("next", -1)
        if after < 0:
            return
