"""Requests that take long: the daemon returns its progress, and is asked again until it has the answer."""

import json
import time
from typing import Final

from rwkvctl.cli.client import Answer, Client, Record, segment
from rwkvctl.text.progress_meter import Meter

AGAIN_S: Final = 0.2
PATIENCE_S: Final = 600.0
"""An older daemon says nothing until all is compared."""


def samples(client: Client, job: str, query: Record, limit: int) -> Answer:
    """Return a page of samples, and show progress while the daemon searches for them."""
    route, items, looked = f"/v1/jobs/{segment(job)}/samples", list[Record](), 0
    with Meter() as meter:
        while True:
            answer = client.get(route, **query, limit=limit - len(items))
            items += answer.value["items"]
            looked += answer.value.get("looked", 0)
            if not answer.value.get("looking") or len(items) >= limit:
                break
            meter.show(f"samples of {job} searched, {len(items):,} found", looked)
            query = query | {"after": answer.value["next"]}
    if len(items) == len(answer.value["items"]):
        return answer
    whole = answer.value | {"items": items, "looked": looked, "looking": False}
    return Answer(json.dumps(whole).encode(), whole)


def compared(client: Client, body: Record) -> Answer:
    """Ask the daemon for a comparison every AGAIN_S seconds until it is complete, and show progress meanwhile."""
    with Meter() as meter:
        while True:
            answer = client.post("/v1/compare", body | {"partial": True}, PATIENCE_S)
            said = answer.value.get("looking", "")
            if not said:
                return answer
            meter.show(said, len(answer.value["items"]))
            time.sleep(AGAIN_S)


def feedback(client: Client, watch: str, which: Record) -> Answer:
    """Ask for a feedback until it is complete, and show progress meanwhile."""
    query = {key: value for key, value in which.items() if value != "" and value is not False}
    with Meter() as meter:
        while True:
            answer = client.get(f"/v1/watches/{segment(watch)}/feedback", **query)
            said = answer.value.get("looking", "")
            if not said:
                return answer
            meter.say(said)
            time.sleep(AGAIN_S)
