"""Rows of the store, and handles in memory, as the messages a client sees."""

import json
from typing import Any

import msgspec

from rwkv_daemon import jobview
from rwkv_daemon.node import EngineHandle, Node
from rwkv_daemon.store import JobRow
from rwkv_daemon.store.samples import score_of, stages_of
from rwkvctl.protocol.messages import (
    EngineView,
    JobView,
    LeaseView,
    SampleView,
    ScoreView,
    StageView,
)

score_decoder = msgspec.json.Decoder(ScoreView)


async def job_view(node: Node, job: JobRow, *, with_score: bool = False) -> JobView:
    """A job with what this daemon sees of its speed, and its score."""
    handle = node.runners.get(job.id)
    stored = await score_of(node.store, job.id) if with_score and job.state == "done" else None
    score = score_decoder.decode(stored) if stored else None
    return jobview.job_view(job, rate=handle.rate(job.done) if handle else None, score=score)


def engine_view(node: Node, handle: EngineHandle) -> EngineView:
    """An engine with its rates."""
    row, stats = handle.row, handle.stats
    jobs = tuple(f"j{number}" for number, runner in node.runners.items() if runner.engine == row.id)
    view = EngineView(
        id=row.name, model=row.model, numerics=row.numerics, lease=row.lease, state=row.state,
        pid=handle.worker.pid, jobs=jobs, detail=row.detail,
    )  # fmt: skip
    if stats is None:
        return view
    return msgspec.structs.replace(
        view,
        running=stats.running,
        waiting=stats.waiting,
        slots=stats.slots,
        prefill_tokens_per_s=stats.prefill_tokens_per_s,
        decode_tokens_per_s=stats.decode_tokens_per_s,
        occupancy=stats.occupancy,
        cache_hits=stats.cache_hits,
        cache_misses=stats.cache_misses,
    )


def lease_views(node: Node) -> tuple[LeaseView, ...]:
    """Leases with the engine that holds each."""
    holders = {handle.row.lease: handle.row.name for handle in node.engines.values()}
    return tuple(
        msgspec.structs.replace(lease, engine=holders[lease.id], use="leased") if lease.id in holders else lease
        for lease in node.leases or []
    )


async def sample_view(node: Node, job: JobRow, row: Any, stage_names: list[str]) -> SampleView:
    """A sample with what was asked and answered in each stage."""
    stages = await stages_of(node.store, job.id, row["row"], row["repeat"])
    return SampleView(
        number=row["number"],
        row=row["row"],
        repeat=row["repeat"],
        value=row["value"],
        reason=row["reason"],
        expected=row["expected"],
        extracted=row["extracted"],
        detail=row["detail"],
        route=row["route"],
        parts=json.loads(row["parts"]),
        judge=json.loads(row["judge"]),
        stages=tuple(
            StageView(
                stage=stage_names[s["stage"]] if s["stage"] < len(stage_names) else str(s["stage"]),
                prompt=s["prompt"],
                completion=s["text"],
                stop=s["stop"] or "choice",
                prompt_tokens=s["prompt_tokens"],
                generated_tokens=s["generated_tokens"],
            )
            for s in stages
        ),
    )
