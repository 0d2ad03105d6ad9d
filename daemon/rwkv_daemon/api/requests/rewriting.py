"""Having the writer rewrite the right samples of finished jobs."""

from rwkv_daemon.api.requests.job_control import find_job, spelled
from rwkv_daemon.node import Node
from rwkv_daemon.planning import endpoint_cost
from rwkv_daemon.recipes import rewriting, writer_jobs
from rwkv_daemon.recipes.rewriting import PlannedRewriting
from rwkv_daemon.store import StoreError
from rwkv_data import writers
from rwkv_data.definition.errors import DataError
from rwkv_data.writers.split_rule import SplitRule
from rwkv_data.writers.writer_rule import WriterRule
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.recipes import RewriteReply, RewriteRequest, RewriteView


async def rewrite(node: Node, request: RewriteRequest) -> RewriteReply:
    """Answer `POST /v1/rewrite`: queue a rewriting of each job, unless it is there already. A job that cannot be
    rewritten does not keep the others. Raises RefusedError for a rule that does not exist."""
    try:
        rule = writers.rule(request.rule)
    except DataError as error:
        raise RefusedError("no-such-rule", str(error), "", Exit.USAGE) from error
    async with node.records.owner:
        if node.records.trouble:
            raise StoreError(node.records.trouble)
        found = {name: await planned(node, name, rule) for name in dict.fromkeys(map(spelled, request.jobs))}
        plans = {name: plan for name, plan in found.items() if isinstance(plan, PlannedRewriting)}
        paid = await endpoint_cost.of_rewritings(node.records, node.catalogue, plans.values(), rule)
        queued = [] if request.check else await writer_jobs.queue(node.work, list(plans.values()), "rewriting")
    names = dict(zip(plans, queued, strict=False))
    node.records.wake.set()
    return RewriteReply(
        items=tuple(
            plan.view(names.get(name, "")) if isinstance(plan, PlannedRewriting) else plan
            for name, plan in found.items()
        ),
        paid=paid,
    )


async def planned(node: Node, name: str, rule: WriterRule | SplitRule) -> PlannedRewriting | RewriteView:
    """Return what would become of a job, or why it cannot be rewritten."""
    try:
        return await rewriting.planned(node.work, node.catalogue, await find_job(node.records, name), rule)
    except RefusedError as error:
        return RewriteView(source=name, error=str(error))
