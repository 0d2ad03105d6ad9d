"""A waiting job as placement sees it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """What placement needs of a waiting job; without its configuration, of which 10,000 would fill the memory."""

    id: int
    model: str
    weights_path: str
    weights_sha256: str
    benchmark: str
    kind: str
    numerics: str
    priority: int
    group_name: str
    total: int
    done: int
    generation_key: str
