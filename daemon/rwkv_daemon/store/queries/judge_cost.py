"""Queries about what judging has taken so far, for saying what more of it would take."""

from typing import Final

from rwkv_daemon.store.interface import Store

LATEST: Final = 1000
"""Replies whose mean length is taken."""


async def mean_reply(store: Store, service: str) -> tuple[float, float] | None:
    """Mean tokens of the latest (prompts, replies) of a service; None before the first."""
    row = await store.one(
        "SELECT AVG(prompt_tokens) AS prompt, AVG(completion_tokens) AS completion FROM "
        "(SELECT prompt_tokens, completion_tokens FROM verdict WHERE service = ? ORDER BY at DESC LIMIT ?) AS latest",
        (service, LATEST),
    )
    return None if row is None or row["prompt"] is None else (float(row["prompt"]), float(row["completion"]))


async def right_shares(store: Store) -> dict[tuple[str, str, str], float]:
    """(model, benchmark, kind) -> the share of samples that finished jobs had right."""
    rows = await store.all(
        "SELECT model, benchmark, kind, SUM(right_sum) / SUM(judged) AS share FROM job "
        "WHERE state = 'done' AND judged > 0 GROUP BY model, benchmark, kind"
    )
    return {(row["model"], row["benchmark"], row["kind"]): min(1.0, max(0.0, row["share"])) for row in rows}
