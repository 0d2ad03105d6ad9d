"""Tables of the models behind endpoints."""

from collections.abc import Iterable, Iterator
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table, amount
from rwkvctl.protocol.endpoints import WRITER
from rwkvctl.text.quantities import count

IGNORED: Final = {
    "stop": "the server ignores stop strings; replies are cut at them here, and what follows them is paid for",
    "seed": "the server ignores the seed, so a sample cannot be drawn again",
}
"""What it means if a server does not do something, by the name of its feature."""


def endpoints(items: Iterable[Record]) -> Table:
    """Return a table of the models behind endpoints, one line each."""
    columns = [
        Column("NAME", cut="model"), Column("MODEL", cut="middle"), Column("API"), Column("SERVER", cut="middle"),
        Column("WAITS FOR", cut="end"), Column("QUEUE", right=True), Column("RUN", right=True),
        Column("/S", right=True, name="per s"), Column("TOKENS", right=True), Column("COST", right=True),
        Column("BUDGET", right=True),
    ]  # fmt: skip
    return Table(columns, [cells(item) for item in items], "no endpoint is configured; see `rwkvctl help endpoints`")


def cells(item: Record) -> list[str | Cell]:
    """Return the cells of one model."""
    service = item["service"]
    usage = service.get("usage", {})
    return [
        item["name"],
        item["model"] + (f" {item['revision']}" if item.get("revision") else ""),
        item["api"],
        item["base_url"],
        Cell(item.get("problem") or service.get("parked", ""), "warn"),
        count(service.get("queue", 0)),
        count(service.get("in_flight", 0)),
        amount(sum(one.get("rate", 0) for one in service.get("endpoints", ())), ".1f"),
        count(usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)),
        amount(usage.get("cost", 0), ".2f"),
        limit(service),
    ]


def limit(service: Record) -> str:
    """Return the budget in money and tokens as text; empty without one."""
    money, tokens = service.get("budget"), service.get("budget_tokens")
    parts = [amount(money, ".2f") if money else "", f"{tokens:,} tokens" if tokens else ""]
    return " / ".join(filter(None, parts))


def remarks(items: Iterable[Record]) -> Iterator[str]:
    """Yield a sentence for each thing that a server does not do, as its trial showed."""
    for item in items:
        features = item.get("features", {})
        asked = {"stop", "seed"} if item["name"] != WRITER else {"seed"}  # a rewriting has no stop strings
        yield from (
            f"{item['name']}: {said}"
            for name, said in IGNORED.items()
            if name in asked and features.get(name) in {"no", "refused"}
        )
        if features and not features.get("usage"):
            yield f"{item['name']}: the server does not say how many tokens it used, so tokens and cost are estimates"
        if features.get("refused"):
            yield f"{item['name']}: the server refuses {', '.join(features['refused'])}, which it is not sent"
        if item["api"] == "completions" and features.get("no_logprobs"):
            yield f"{item['name']}: not for kinds that compare log-probabilities: {features['no_logprobs']}"
