"""Closed lists of words: job states, engine states, and the reasons why something does not run."""

from typing import Final, Literal

JobState = Literal[
    "held",
    "queued",
    "starting",
    "generating",
    "grading",
    "judging",
    "paused",
    "stopping",
    "stopped",
    "done",
    "failed",
    "deleted",
]
Deletable = Literal["held", "queued", "paused", "stopped", "done", "failed"]
"""States of which no process of a job is left."""
EngineState = Literal["starting", "loading", "ready", "unloading", "gone", "failed"]
RecipeState = Literal["waiting", "making", "paused", "done", "failed", "stopped"]
"""A recipe waits for its jobs; then its rows are made. Nothing is queued or made for a paused recipe until it is
resumed."""

WatchState = Literal["watching", "paused"]
WatchedState = Literal["settling", "ready", "dispatched", "done", "superseded", "parked", "vanished"]
"""What becomes of a checkpoint in a watched folder: it is still being written; whole and hashed; its jobs are queued;
all of them are over. Or it is left out by the policy, cannot be measured, or was deleted before it was."""
WatchPolicy = Literal["all", "newest", "first-and-last"]
LeftOut = Literal["", "newer", "not-due", "copy", "skipped"]

Action = Literal["run", "resume", "skip", "hold"]
Reason = Literal[
    "run",
    "resume",
    "done",
    "regrade",
    "queued",
    "held",
    "data-missing",
    "weights-missing",
    "weights-hashing",
    "weights-copying",
    "does-not-load",
    "no-fit",
    "excluded",
    "judge-not-configured",
    "endpoint-not-configured",
    "writer-not-configured",
    "endpoint-cannot",
    "endpoint-away",
    "endpoint-busy",
    "disk-low",
    "waits-for-engine",
    "group-limit",
    "paused",
    "retry",
    "killed",
]

TERMINAL: Final[frozenset[JobState]] = frozenset({"done", "failed", "stopped"})
ACTIVE: Final[frozenset[JobState]] = frozenset({"starting", "generating", "grading", "judging", "stopping"})

REASONS: Final[dict[Reason, str]] = {
    "run": "would run",
    "resume": "continues where an earlier run stopped",
    "done": "a score exists for these weights, rows, prompts, sampling and seed",
    "regrade": "generated already, and graded by another grader: rwkvctl regrade JOB",
    "queued": "the same work is queued or running already",
    "held": "held by the operator",
    "data-missing": "the rows are not prepared: rwkvctl data prepare NAME",
    "weights-missing": "no file matches",
    "weights-hashing": "the weights are being hashed; the job starts when that is done",
    "weights-copying": "the checkpoint is being copied; the job starts when the copy is complete",
    "does-not-load": "the checkpoint did not load twice; see the engine's log",
    "no-fit": "no lease is large enough",
    "excluded": "left out by a filter",
    "judge-not-configured": "needs a judge, and none is configured",
    "endpoint-not-configured": "the configuration has no such endpoint",
    "writer-not-configured": "needs a writer, and the configuration has none: table [writer] in config.toml",
    "endpoint-cannot": "the endpoint cannot be asked in this form",
    "endpoint-away": "the endpoint takes no requests now; the job goes on when it does",
    "endpoint-busy": "other jobs ask its endpoint, as many as may at once",
    "disk-low": "too little disk space to store samples",
    "waits-for-engine": "waits for an engine",
    "group-limit": "its group has reached its limit of running jobs",
    "paused": "the queue, its model or its group is paused: rwkvctl resume",
    "retry": "waits before the next try",
    "killed": "something outside rwkvctl kills its processes: find out what, then rwkvctl resume",
}
"""What each reason means for the operator. `queue`, `status` and the console show the same words."""
