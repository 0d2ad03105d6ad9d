"""The points at which a test may kill the daemon, a runner or a recipe: see `rwkvctl.settings.crash_marker`."""

from typing import Final

from rwkvctl.settings.crash_marker import kill_at

POINTS: Final = (
    "before-dispatch-commit",
    "after-dispatch-commit",
    "before-lease-commit",
    "after-lease-commit",
    "after-engine-started",
    "after-attempt-stored",
    "after-worker-started",
    "before-ingest-commit",
    "after-ingest-commit",
    "before-score-commit",
    "after-score-commit",
    "labels-after-publishing",
    "watch-in-step",
    "watch-after-dispatch",
    "feedback-before-commit",
    "bulk-after-step",
    "delete-before-commit",
    "prune-after-intent",
    "prune-after-files",
    "prune-after-rows",
    "stop-after-intent",
    "stop-after-rung",
    "stop-before-end",
    "stop-after-end",
    "reap-before-intent",
    "reap-after-intent",
    "reap-before-SIGTERM",
    "reap-after-SIGTERM",
    "reap-before-SIGKILL",
    "reap-after-SIGKILL",
    "reap-before-outcome",
    "reap-after-outcome",
    "recipe-between-pauses",
    "recipe-after-rewriting",
    "recipe-after-start",
    "recipe-before-done",
    "recipe-rows-before-renaming",
    "recipe-rows-after-renaming",
    "runner-before-stage",
    "runner-after-stage",
    "runner-after-sample",
)


def crash_point(name: str) -> None:
    """Kill this process if the test asked for it."""
    kill_at(name, POINTS)
