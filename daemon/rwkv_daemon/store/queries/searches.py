"""Queries about parameter searches, and the points that were promoted."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rwkv_daemon.store.interface import Store, Transaction
from rwkv_daemon.store.queries.jobs import as_json


@dataclass(frozen=True, slots=True)
class FinishedSearch:
    """The newest search of one benchmark, with its result."""

    job: str
    benchmark: str
    kind: str
    weights_path: str
    weights_sha256: str
    summary: dict[str, Any]


async def searches_of(store: Store, model: str, benchmarks: Collection[str]) -> list[FinishedSearch]:
    """Return the newest finished search of each benchmark (of the named ones, if any are) for a model."""
    rows = await store.all(
        "SELECT j.id, j.benchmark, j.kind, j.weights_path, j.weights_sha256, s.view FROM job j "
        "JOIN score s ON s.job = j.id "
        "WHERE j.model = ? AND j.state = 'done' AND j.kind LIKE 'param\\_search\\_%' ESCAPE '\\' "
        "ORDER BY j.id DESC, s.finished DESC",
        (model,),
    )
    found: dict[str, FinishedSearch] = {}
    for row in rows:
        view = json.loads(row["view"])
        summary = None if view.get("why_null") else view["provenance"].get("search")
        wanted = not benchmarks or row["benchmark"] in benchmarks
        if summary and summary["best"] is not None and wanted and row["benchmark"] not in found:
            found[row["benchmark"]] = FinishedSearch(
                f"j{row['id']}", row["benchmark"], row["kind"], row["weights_path"], row["weights_sha256"], summary
            )
    return sorted(found.values(), key=lambda one: one.benchmark)


async def add_promotion(
    db: Transaction, at: str, model: str, weights_sha256: str, promotion: Mapping[str, Any]
) -> None:
    """Store a point that was chosen, and why."""
    await db.execute(
        "INSERT INTO promotion (at, model, weights_sha256, promotion) VALUES (?, ?, ?, ?)",
        (at, model, weights_sha256, as_json(dict(promotion))),
    )


async def chosen_on(store: Store, model: str, benchmark: str, settings: Mapping[str, str]) -> list[str]:
    """Return the searches on this benchmark that chose these settings for a model."""
    found = []
    for row in await store.all("SELECT promotion FROM promotion WHERE model = ?", (model,)):
        promotion = json.loads(row["promotion"])
        same = all(settings.get(name) == value for name, value in promotion["settings"].items())
        if same and benchmark in promotion["benchmarks"]:
            found.append(promotion["searches"][promotion["benchmarks"].index(benchmark)])
    return sorted(set(found))
