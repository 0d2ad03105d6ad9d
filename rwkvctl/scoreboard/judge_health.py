"""Whether replies of a judge endpoint can be read. Pure."""

from collections.abc import Mapping

REMEDY = "`rwkvctl samples JOB --reason unjudged` shows them; fix the endpoint, then run `rwkvctl judge retry`"


def failing(name: str, counts: Mapping[str, int]) -> str:
    """Why an endpoint cannot be relied on, as a sentence; empty if it can."""
    unreadable = counts.get("unreadable", 0)
    if not unreadable:
        return ""
    replies = "1 reply" if unreadable == 1 else f"{unreadable:,} replies"
    return f"FAIL: {replies} of {name} contained no readable verdict; their samples are unjudged"
