"""Tables of the judge, the review list and searches: replies of the daemon as rows to draw."""

from collections.abc import Iterable, Mapping

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Table, amount, joined
from rwkvctl.cli.tables.core_tables import INTERVAL, interval_cells
from rwkvctl.text.quantities import count, money, percent
from rwkvctl.text.shell_words import as_typed


def judges(items: Iterable[Record]) -> Table:
    """The judge and the checker, one line an endpoint."""
    columns = [
        Column("ROLE"), Column("MODEL", cut="model"), Column("ENDPOINT", cut="middle"), Column("WAITS FOR", cut="end"),
        Column("QUEUE", right=True), Column("RUN", right=True), Column("/S", right=True, name="per s"),
        Column("P50 S", right=True), Column("OUTAGES", right=True), Column("TOKENS", right=True),
        Column("COST", right=True),
    ]  # fmt: skip
    rows = [endpoint(item, one) for item in items for one in item.get("endpoints", ())]
    return Table(columns, rows, "no judge is configured; see `rwkvctl help judge`")


def endpoint(item: Record, one: Record) -> list[str | Cell]:
    """Return the cells of one endpoint of a judge; queue, cost and tokens are the judge's totals."""
    usage = item.get("usage", {})
    return [
        item["role"],
        item["model"],
        one["name"],
        Cell(item.get("parked", ""), "warn"),
        count(item.get("queue", 0)),
        count(one.get("in_flight", 0)),
        amount(one.get("rate", 0), ".1f"),
        amount(one.get("p50_s"), ".1f"),
        count(item.get("outages", 0)),
        count(usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)),
        amount(usage.get("cost", 0), ".2f"),
    ]


def paid(items: Iterable[Record]) -> Table:
    """Return a table of the expected calls to the judge and the checker for a plan."""
    columns = [
        Column("PAID"), Column("MODEL", cut="model"), Column("CALLS", right=True), Column("AT MOST", right=True),
        Column("TOKENS", right=True), Column("COST", right=True), Column("BUDGET LEFT", right=True),
        Column("BASIS", name="by"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["role"],
            item["model"],
            count(item["calls"]),
            count(item["calls_most"]),
            count(item["tokens"]),
            cost(item),
            budget_left(item),
            "its earlier replies" if item.get("measured") else "one example and the longest reply",
        ]
        for item in items
    ]
    return Table(columns, rows, name="paid")


def cost(item: Record) -> str:
    """Return the expected cost of the calls as text."""
    return "price not set" if item.get("cost") is None else amount(item["cost"], ".2f")


def budget_left(item: Record) -> str:
    """Return the money and tokens left of the budget as text; `no budget` if none is set."""
    money, tokens = item.get("budget_left"), item.get("tokens_left")
    parts = ["" if money is None else f"{money:.2f}", "" if tokens is None else f"{tokens:,} tokens"]
    return joined(parts) or "no budget"


def paid_line(item: Record) -> str:
    """Return the expected calls, tokens and cost of a plan, and the budget left, as one sentence."""
    known = item.get("basis") or "one example and the longest reply"
    basis = "" if item.get("measured") else f", estimated from {known}"
    price = cost(item) if item.get("cost") is None else f"cost about {item['cost']:.2f}"
    left = budget_left(item)
    short = is_short(item)
    return (
        f"{item['role']} {item['model']}: about {item['calls']:,} calls (at most {item['calls_most']:,}), "
        f"{item['tokens']:,} tokens{basis}; {price}; "
        + (left if left == "no budget" else f"budget left {left}" + (": not enough" if short else ""))
    )


def payment_line(item: Record) -> str:
    """Return what the jobs of a recipe have paid to a model, and what is left, as one sentence."""
    price = f"{item['tokens']:,} tokens, price not set"
    if item.get("cost") is not None:
        price = f"{money(item['cost'])} for {item['tokens']:,} tokens"
    if item.get("keys") is None:
        return f"{item['to']}: {price}; it is not configured any more"
    left = budget_left(item)
    rest = left if left == "no budget" else f"budget left {left}"
    keys = {0: "; no usable key", 1: ""}.get(item["keys"], f"; {item['keys']:,} keys")
    return f"{item['to']}: {price}; {rest}{keys}"


def is_short(item: Record) -> bool:
    """Return whether the budget left is less than the expected cost or tokens."""
    money, tokens = item.get("budget_left"), item.get("tokens_left")
    return (money is not None and (item.get("cost") or 0) > money) or (tokens is not None and item["tokens"] > tokens)


CHECKER_FLAGS = {
    "answer_correct": "answer is right",
    "thought_contains_correct_answer": "right in the reasoning",
    "instruction_following_error": "instruction",
    "world_knowledge_error": "knowledge",
    "math_error": "arithmetic",
    "reasoning_logic_error": "reasoning",
}


def findings(items: Iterable[Record]) -> Table:
    """Return a table of the checker's findings on wrong answers."""
    columns = [
        Column("SAMPLE", right=True), Column("JOB"), Column("BENCHMARK", cut="middle"), Column("ROW", right=True),
        Column("EXPECTED", cut="end"), Column("EXTRACTED", cut="end"), Column("CHECKER", cut="end"), Column("REVIEWED"),
        Column("REASON", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for item in items:
        found = item.get("finding", {})
        words = joined(word for flag, word in CHECKER_FLAGS.items() if found.get(flag))
        rows.append(
            [
                str(item["sample"]),
                item["job"],
                item["benchmark"],
                str(item["row"]),
                item.get("expected", ""),
                item.get("extracted") or "",
                Cell(words, "warn" if item.get("needs_review") else ""),
                item.get("reviewed", ""),
                str(found.get("reason", "")),
            ]
        )
    return Table(columns, rows, "no samples to review")


def points(items: Iterable[Record]) -> Table:
    """Return a table of the points of a search with value, interval and settings."""
    columns = [
        Column("POINT", right=True), Column("%", right=True, name="value"), *INTERVAL, Column("ROWS", right=True),
        Column("SETTINGS", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            str(item["point"]),
            percent(item.get("value")),
            *interval_cells(item),
            count(item["rows"]),
            settings(item["settings"]),
        ]
        for item in items
    ]
    return Table(columns, rows, "no points yet")


def promotion(reply: Record) -> Table:
    """Return a table of the best point over several searches, and the command to measure it."""
    flags = " ".join(f"--set {name}={value}" for name, value in reply["settings"].items())
    names = " ".join(reply["benchmarks"])
    kinds = " ".join(reply.get("kinds", ()))
    model = as_typed([reply["model"]])
    command = f"rwkvctl dispatch --models {model} --only-datasets {names} --only-jobs {kinds} {flags} --set part=report"
    rows: list[list[str | Cell]] = [
        ["chosen", settings(reply["settings"])],
        ["over", joined(f"{job} ({name})" for job, name in zip(reply["searches"], reply["benchmarks"], strict=True))],
        ["sum of values", f"{reply['objective']:.4f} on the rows of the searches: optimistic"],
        ["measure it", command],
    ]
    return Table([Column("", name="what"), Column("", cut="end", name="text")], rows, "")


def settings(values: Mapping[str, str]) -> str:
    """Return settings as words: `temperature=0.3 top_p=0.4`."""
    return " ".join(f"{name}={value}" for name, value in values.items())
