"""The life of a job as one table. Pure: no clock, no file, no process.

Two rules. Everything that changes a job's state is a transition of this table; a pair that is not in it raises. And the
stages between `starting` and `done` are never set by hand: `stage` derives them from what is stored.
"""

from typing import Final, Literal

from rwkvctl.protocol.states import JobState

Transition = Literal[
    "hold",  # something outside the job is missing, or the operator holds it
    "release",  # it is there again, or the operator releases it
    "pause",  # the operator wants it to wait until it is resumed
    "yield",  # its processes are gone because a pause covers it, or were never started
    "place",  # a runner is started for the job
    "generate",  # the first completion is stored, and not yet the last
    "grade",  # all completions are stored, some are not graded
    "judge",  # all others are graded, some wait for the judge
    "finish",  # every sample is graded and the score is stored
    "same",  # another job has measured the same: its score is this one's
    "stop",  # the operator wants it stopped
    "ended",  # its processes are gone after `stop`
    "retry",  # its processes ended unexpectedly, and it may be retried
    "fail",  # ... and it may not
    "resume",  # the operator wants it to go on
    "regrade",  # the operator wants its completions graded again
    "rejudge",  # ... of a job that waits for nothing but its judge
    "delete",  # the operator wants to see it no more
    "undelete",  # ... and wants it back after all
    "undelete done",  # ... a job that was done
]

TABLE: Final[dict[Transition, dict[JobState, JobState]]] = {
    "hold": {
        "queued": "held",
        "paused": "held",
        "starting": "held",
        "generating": "held",
        "grading": "held",
        "judging": "held",
    },
    "release": {"held": "queued"},
    "pause": {
        "queued": "paused",
        "starting": "paused",
        "generating": "paused",
        "grading": "paused",
        "judging": "paused",
    },
    "yield": {"starting": "queued", "generating": "queued", "grading": "queued"},
    "place": {"queued": "starting"},
    "generate": {"starting": "generating"},
    "grade": {"starting": "grading", "generating": "grading"},
    "judge": {"starting": "judging", "generating": "judging", "grading": "judging"},
    "finish": {
        "starting": "done",
        "generating": "done",
        "grading": "done",
        "judging": "done",
        "stopping": "done",
    },
    "same": {"held": "done"},
    "stop": {
        "held": "stopped",
        "queued": "stopped",
        "paused": "stopped",
        "starting": "stopping",
        "generating": "stopping",
        "grading": "stopping",
        "judging": "stopping",
    },
    "ended": {"stopping": "stopped"},
    "retry": {"starting": "queued", "generating": "queued", "grading": "queued", "judging": "queued"},
    "fail": {
        "queued": "failed",
        "starting": "failed",
        "generating": "failed",
        "grading": "failed",
        "judging": "failed",
    },
    "resume": {"stopped": "queued", "failed": "queued", "held": "queued", "paused": "queued"},
    "regrade": {
        "done": "grading",
        "failed": "grading",
        "stopped": "grading",
        "paused": "grading",
        "held": "grading",
        "grading": "grading",
    },
    "rejudge": {"done": "judging", "stopped": "judging", "failed": "judging", "paused": "judging", "held": "judging"},
    "delete": {
        "held": "deleted",
        "queued": "deleted",
        "paused": "deleted",
        "stopped": "deleted",
        "done": "deleted",
        "failed": "deleted",
    },
    "undelete": {"deleted": "stopped"},
    "undelete done": {"deleted": "done"},
}


class IllegalTransitionError(Exception):
    """A transition that is not possible in the job's state: a bug in the caller."""


def after(state: JobState, transition: Transition) -> JobState:
    """Return the state after a transition. Raises IllegalTransitionError if the pair is not in the table."""
    try:
        return TABLE[transition][state]
    except KeyError:
        raise IllegalTransitionError(f"'{transition}' cannot happen to a job that is {state}") from None


def allows(state: JobState, transition: Transition) -> bool:
    """Whether the pair is in the table."""
    return state in TABLE[transition]


def stage(*, stages_done: int, stages_total: int, graded: int, total: int) -> Transition | None:
    """Return the transition to the earliest stage that still has work; None before the first completion."""
    if graded >= total:
        return "finish"
    if stages_done >= stages_total:
        return "grade"
    return "generate" if stages_done else None
