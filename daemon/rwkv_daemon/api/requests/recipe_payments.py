"""What the jobs of a recipe have paid for replies, and what is left of the budgets."""

from collections.abc import Mapping, Sequence

from rwkv_daemon.node import Node
from rwkv_daemon.recipes.row_order import SampleSource
from rwkv_daemon.remote.dispatcher import Exchange
from rwkv_daemon.remote.server_reply import TokenUsage
from rwkv_daemon.store.queries.verdicts import paid_by, paid_to
from rwkvctl.protocol.endpoints import payee
from rwkvctl.protocol.recipes import RecipePaymentView


async def payments(node: Node, sources: Sequence[SampleSource]) -> tuple[RecipePaymentView, ...]:
    """Return what the jobs of a recipe, and those that they rewrite or split, have paid so far, by whom they asked."""
    every = (number for one in sources for number in (one.job, one.rewrites, one.variants_of) if number)
    total = paid_to(await paid_by(node.records.store, [f"j{number}" for number in dict.fromkeys(every)]))
    known = exchanges(node)
    return tuple(payment(service, usage, known.get(service)) for service, usage in total.items())


def exchanges(node: Node) -> Mapping[str, Exchange]:
    """Return who may be asked now, by the name under which payments are stored."""
    judges = {"judge": node.judges.judge, "checker": node.judges.checker}
    return {name: service.exchange for name, service in judges.items() if service is not None} | {
        remote.config.path: remote.exchange for remote in node.catalogue.endpoints.by_name.values()
    }


def payment(service: str, usage: TokenUsage, exchange: Exchange | None) -> RecipePaymentView:
    """Return what was paid to a service. `exchange`: None if it is not configured any more."""
    money, tokens = exchange.budget.left() if exchange is not None else (None, None)
    return RecipePaymentView(
        to=payee(service),
        tokens=usage.tokens,
        cost=usage.cost or None,
        budget_left=money,
        tokens_left=tokens,
        keys=sum(not key.dead for key in exchange.pool.keys) if exchange is not None else None,
    )
