"""Labelling the rows of a benchmark by what jobs have measured."""

from rwkv_daemon.api.requests.job_control import find_job, spelled
from rwkv_daemon.node import Node
from rwkv_daemon.recipes import pass_rate_labels
from rwkv_data.definition.errors import DataError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.labels import LabelReply, LabelRequest


async def label(node: Node, request: LabelRequest) -> LabelReply:
    """Answer `POST /v1/labels`. Raises RefusedError, and then nothing was written."""
    if request.benchmark not in node.catalogue.benchmarks.all():
        raise RefusedError(
            "no-such-benchmark", f"There is no benchmark {request.benchmark}; `rwkvctl benchmarks` lists them.", "",
            Exit.NOT_FOUND,
        )  # fmt: skip
    names = list(dict.fromkeys(map(spelled, request.jobs)))
    jobs = [await find_job(node.records, name) for name in names]
    if not jobs:
        raise RefusedError("no-jobs", "Name the jobs whose samples are counted.")
    try:
        made = await pass_rate_labels.label(node.records, node.catalogue, request.benchmark, jobs, request.field)
    except DataError as error:
        raise RefusedError("no-labels", f"{error}.", "", error.exit_code) from error
    return LabelReply(**made.summary())
