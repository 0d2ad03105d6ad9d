"""Answers about orders of rows: those that finished jobs give, and those that somebody gives."""

import asyncio
from typing import Final

from rwkv_daemon.api.requests.job_control import find_job, spelled
from rwkv_daemon.node import Node
from rwkv_daemon.recipes import easiest_first
from rwkv_daemon.rules.plan import SelectionError, slug
from rwkv_data.definition.errors import DataError
from rwkv_data.labels.order_file import publish_order
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.labels import LabelReply
from rwkvctl.protocol.training.orders import OrderReply, OrderRequest, OrderUpload

MOST_JOBS: Final = 500


async def of_jobs(node: Node, request: OrderRequest) -> OrderReply:
    """Answer `POST /v1/orders/of-jobs`. Raises RefusedError if there is no order, or no row in it."""
    names = list(dict.fromkeys(map(spelled, request.jobs)))
    if not 0 < len(names) <= MOST_JOBS:
        text = f"Name the jobs whose samples are counted, {MOST_JOBS} at most."
        raise RefusedError("no-jobs", text, "", Exit.USAGE)
    jobs = [await find_job(node.records, name) for name in names]
    try:
        found = await easiest_first.order(node.records, node.catalogue, jobs, request)
    except DataError as error:
        raise RefusedError("no-order", f"{error}.", "", error.exit_code) from error
    if not found.rows:
        why = ", ".join(f"{count:,} {reason}" for reason, count in found.left_out.items())
        text = f"No row of {found.benchmark} would be in the order: of {found.asked:,} rows asked, {why}."
        raise RefusedError("empty-order", text, "", Exit.REFUSED)
    return found


async def upload(node: Node, request: OrderUpload) -> LabelReply:
    """Answer `POST /v1/orders`. Raises RefusedError, and then nothing was written."""
    known, data_dir = node.catalogue.benchmarks.all(), node.catalogue.benchmarks.data_dir
    try:
        benchmark = known[slug(request.benchmark, set(known), "--only-datasets")]
    except SelectionError as error:
        raise RefusedError("no-such-benchmark", str(error), "", Exit.USAGE) from error
    try:
        made = await asyncio.to_thread(publish_order, data_dir, benchmark, request.lines)
    except DataError as error:
        raise RefusedError("bad-order", f"{error}.", "", error.exit_code) from error
    return LabelReply(**made.summary())
