"""Labelling the rows of a benchmark: by what jobs have measured, or by what the writer says of them."""

from rwkv_daemon.api.requests.job_control import find_job, spelled
from rwkv_daemon.jobs import label_writer
from rwkv_daemon.node import Node
from rwkv_daemon.planning import endpoint_cost
from rwkv_daemon.recipes import labelling, pass_rate_labels, writer_jobs
from rwkv_daemon.store import StoreError
from rwkv_data import writers
from rwkv_data.definition.errors import DataError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.labels import LabellingReply, LabellingRequest, LabelReply, LabelRequest


async def label(node: Node, request: LabelRequest) -> LabelReply:
    """Answer `POST /v1/labels`. Raises RefusedError, and then nothing was written."""
    require_benchmark(node, request.benchmark)
    names = list(dict.fromkeys(map(spelled, request.jobs)))
    jobs = [await find_job(node.records, name) for name in names]
    if not jobs:
        raise RefusedError("no-jobs", "Name the jobs whose samples are counted.")
    try:
        made = await pass_rate_labels.label(node.records, node.catalogue, request.benchmark, jobs, request.field)
    except DataError as error:
        raise RefusedError("no-labels", f"{error}.", "", error.exit_code) from error
    return LabelReply(**made.summary())


async def label_by_writer(node: Node, request: LabellingRequest) -> LabellingReply:
    """Answer `POST /v1/labellings`: queue a labelling, unless it is there already; of one that is done, the labels are
    published once more. Raises RefusedError."""
    require_benchmark(node, request.benchmark)
    try:
        rule = writers.label_rule(request.rule)
    except DataError as error:
        raise RefusedError("no-such-rule", f"{error}.", "", Exit.USAGE) from error
    plan = await labelling.planned(node.work, node.catalogue, request, rule)
    try:
        paid = await endpoint_cost.of_labelling(node.records, node.catalogue, plan, rule)
    except DataError as error:
        raise RefusedError("no-labels", f"{error}.", "", error.exit_code) from error
    job, labels = plan.job, ""
    if not request.check:
        async with node.records.owner:
            if node.records.trouble:
                raise StoreError(node.records.trouble)
            plan = await labelling.planned(node.work, node.catalogue, request, rule)  # as it is by now
            (job,) = await writer_jobs.queue(node.work, [plan], "labelling")
        node.records.wake.set()
        labels = await published_again(node, job) if plan.reason == "done" else ""
    return LabellingReply(
        benchmark=plan.benchmark, rule=rule.label, field=plan.field, rows=plan.rows, action=plan.action,
        reason=plan.reason, detail=plan.detail, job=job, labels=labels, paid=paid,
    )  # fmt: skip


async def published_again(node: Node, name: str) -> str:
    """Publish the labels of a labelling that is done, whose file may have been removed; returns their name."""
    try:
        return (await label_writer.published(node.records, node.catalogue, await find_job(node.records, name))).name
    except DataError as error:
        raise RefusedError("no-labels", f"{error}.", "", error.exit_code) from error


def require_benchmark(node: Node, name: str) -> None:
    """Raise RefusedError if there is no benchmark of this name."""
    if name not in node.catalogue.benchmarks.all():
        raise RefusedError(
            "no-such-benchmark", f"There is no benchmark {name}; `rwkvctl benchmarks` lists them.", "", Exit.NOT_FOUND
        )
