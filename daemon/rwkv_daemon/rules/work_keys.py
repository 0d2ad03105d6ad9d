"""Keys that identify equal work. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

IMPORTED: Final = "imported"
"""Stands for the numerics profile of scores of other programs: no engine has one of that name, so no plan takes such a
score for its own."""
GIVEN: Final = "given"
"""Stands for the version of the grader of scores that came as numbers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkIdentity:
    """What a generation key covers: if one field differs, the answers may differ. `kind` says how the rows are asked,
    not how they are graded: kinds that differ in their grader alone have the name of the plain one here."""

    weights_sha256: str
    rows_sha256: str
    benchmark: str
    benchmark_version: int
    kind: str
    configuration: dict[str, object]
    seed: int
    limit: int | None
    numerics: str


def digest(*parts: object) -> str:
    """Return 32 hex digits of a hash over the canonical JSON of the parts."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def generation_key(work: WorkIdentity) -> str:
    """Return the key: work with the same key is never generated twice. Empty while the weights' or rows' hash is not
    known."""
    if not work.weights_sha256 or not work.rows_sha256:
        return ""
    return digest(
        work.weights_sha256,
        work.rows_sha256,
        work.benchmark,
        work.benchmark_version,
        work.kind,
        work.configuration,
        work.seed,
        work.limit,
        work.numerics,
    )


def grade_key(generation: str, grader: str, grader_version: str, more: Mapping[str, object] | None = None) -> str:
    """Return the key of a generation graded by one version of one grader; `more` are its options, its judge's rule and
    model."""
    if not generation:
        return ""
    return digest(generation, grader, grader_version, *([dict(more)] if more else []))


def random_key(seed: int, row: int, repeat: int, stage: int) -> int:
    """Return the unsigned 64-bit key from which the engine draws a sample's tokens: it does not depend on worker, slot,
    batch or time."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{row}/{repeat}/{stage}".encode()).digest()[:8], "big")
