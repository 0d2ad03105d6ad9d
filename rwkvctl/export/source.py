"""Scores and samples from the daemon, one page at a time: an export may be larger than the memory."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rwkvctl.cli.client import Client, Record, segment

SCORES_A_PAGE: Final = 200
SAMPLES_A_PAGE: Final = 100


class ScoreFilters(NamedTuple):
    """Which scores are exported; an empty field means all."""

    model: str = ""
    benchmark: str = ""
    session: str = ""
    all_versions: bool = False


def scores(client: Client, wanted: ScoreFilters) -> Iterator[Record]:
    """Scores, newest first; of each model, benchmark and kind only the newest, unless all are wanted. An imported score
    stands beside ours and hides none."""
    seen: set[tuple[object, ...]] = set()
    for score in every_score(client, wanted):
        kind = (score["model"], score["benchmark"], score["kind"], is_imported(score))
        key = (score["model"], score["job"]) if wanted.all_versions else kind
        if key not in seen:  # of a job that was graded again only the newest grade
            seen.add(key)
            yield score


def is_imported(score: Record) -> bool:
    """Return whether a score was imported from another program instead of measured here."""
    return "imported" in score.get("provenance", {})


def every_score(client: Client, wanted: ScoreFilters) -> Iterator[Record]:
    """Every score of what is wanted, newest first."""
    before = None
    query = {"model": wanted.model, "benchmark": wanted.benchmark, "session": wanted.session, "all_versions": True}
    while True:
        page = client.get("/v1/scores", **query, limit=SCORES_A_PAGE, before=before).value
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
