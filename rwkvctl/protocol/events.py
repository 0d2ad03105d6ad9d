"""What the daemon streams: events, and pieces of logs."""

from typing import Final

import msgspec
from msgspec import Struct


class LogChunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a log. `offset` is the byte after it in its attempt's file: where a reader goes on. `at`: when it was
    written, to the second, where that was asked for. One without text comes to a follower when all there is has been
    told, and where nothing comes for long."""

    source: str
    text: str
    attempt: int = 0
    offset: int = 0
    at: str = ""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact of the node. Stored ones have a growing `seq`; progress and telemetry have none (0) and are not stored.

    kinds: `daemon`, `session`, `job.queued`, `job.state`, `job.progress`, `job.score`, `engine.state`, `engine.stats`,
    `lease`, `gpu.state`, `gpu.use`, `gpu.xid`, `zombie`, `recipe`, `watch`, `feedback`, `heartbeat`. `data` holds the
    JobView, EngineView or LeaseView as it is after the change. `jobs.state` is a change of very many jobs at once:
    `data` has their numbers (`jobs`), the state they were in (`was`), and the one they are in (`state`).
    """

    kind: str
    at: str
    seq: int = 0
    job: str = ""
    engine: str = ""
    session: str = ""
    text: str = ""
    data: dict[str, object] = {}


event_decoder: Final = msgspec.json.Decoder(Event)
log_decoder: Final = msgspec.json.Decoder(LogChunk)
