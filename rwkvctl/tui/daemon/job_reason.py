"""The reason why a job waits or how it ended. Pure."""

from typing import Final

from rwkvctl.cli.tables.core_tables import why
from rwkvctl.protocol.views import JobView

SAID_BY_DETAIL: Final = frozenset({"held", "paused", "queued", "retry", "waits-for-engine"})
"""Reasons that the sentence behind them says again."""


def reason(job: JobView) -> str:
    """Why it waits, or how it ended and what is to blame."""
    if job.detail and job.reason in SAID_BY_DETAIL:
        return job.detail
    return why({"reason": job.reason, "failure": job.failure, "detail": job.detail})
