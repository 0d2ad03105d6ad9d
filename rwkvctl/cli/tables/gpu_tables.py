"""Tables of GPUs: replies of the daemon as rows to draw."""

from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table, clock, joined
from rwkvctl.cli.tables.core_tables import MEMORY, memory_cells
from rwkvctl.text.quantities import count, duration, percent, size, spark

ROLES: Final[dict[str, Role]] = {
    "leased": "ok", "zombie": "bad", "unknown": "warn", "free": "dim", "ok": "dim", "quarantined": "bad",
}  # fmt: skip


SPARK: Final = 10


def gpus(items: Iterable[Record], recent: Record | None = None) -> Table:
    """One line a GPU: whose it is and why it takes no work; with all columns, everything that is known. `recent` is
    what was recorded of the last minutes: how busy each was then is drawn beside it."""
    past = {item["id"]: trend(item) for item in (recent or {}).get("items", ())}
    columns = [
        Column("GPU"), Column("DEVICE", cut="end", wide=True), Column("USE"), Column("CONDITION"), Column("ENGINE"),
        *MEMORY, Column("UTIL %", right=True, name="util"), Column("10 MIN", drawn=True, wide=True),
        Column("W", right=True, name="watts"), Column("°C", right=True, name="celsius"),
        Column("WHOSE", cut="end"), Column("WHY", cut="end"),
        Column("SINCE", wide=True),
        Column("IDLE", right=True, wide=True), Column("MHZ", right=True, wide=True), Column("THROTTLE", wide=True),
        Column("ECC", right=True, wide=True), Column("APP XIDS", right=True, wide=True), Column("UUID", wide=True),
    ]  # fmt: skip
    rows = [gpu_row(item, past.get(item["id"], "")) for item in items]
    return Table(columns, rows, "this node has no GPU; jobs run on its CPU")


def trend(item: Record) -> str:
    """Draw the recent utilisation of a GPU, the newest value on the right."""
    return spark([value or 0.0 for value in item["utilisation"]], SPARK)


def gpu_row(item: Record, past: str) -> list[str | Cell]:
    """Return the cells of one GPU; `past` is the drawn utilisation of the last minutes."""
    condition = item.get("condition", "ok")
    return [
        Cell(item["index"], "bold"),
        item.get("name", ""),
        Cell(item["use"], ROLES.get(item["use"], "")),
        Cell(condition, ROLES.get(condition, "warn")),
        " ".join(item.get("engines", ())) or "–",
        *memory_cells(item.get("memory_used_bytes"), item.get("memory_total_bytes")),
        percent(item.get("utilisation"), 0),
        Cell(past, "info"),
        count(item.get("power_w")),
        count(item.get("temperature_c")),
        whose(item),
        joined([item.get("reason", ""), item.get("why", "")]),
        Cell(clock(item.get("since", "")), plain=item.get("since", "")),
        duration(item.get("idle_s")),
        count(item.get("clock_mhz")),
        joined(item.get("throttle", ())),
        count(item.get("ecc_uncorrected")),
        count(item.get("application_xids", 0)),
        item["id"],
    ]


def whose(item: Record) -> str:
    """Return who holds memory on a GPU besides our engines."""
    users = [holder.get("user") or holder["cls"] for holder in item.get("holders", ()) if holder["cls"] != "ours"]
    return joined(dict.fromkeys(users))


def changed(items: Iterable[Record]) -> Table:
    """Return a table of what a decision did to each GPU."""
    columns = [
        Column("GPU"), Column("CONDITION"), Column("CHANGED"), Column("REASON", cut="end"), Column("WHY NOT", cut="end")
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(item["gpu"], "bold"),
            item.get("condition", ""),
            "yes" if item["changed"] else "no",
            item.get("reason", ""),
            Cell(item.get("error", ""), "bad"),
        ]
        for item in items
    ]
    return Table(columns, rows, "no GPU to change")


def history(reply: Record) -> Table:
    """The recorded steps, one line for each GPU and step in which it was seen."""
    columns = [
        Column("TIME"), Column("GPU"), Column("USE"), Column("CONDITION"), Column("UTIL %", right=True, name="util"),
        Column("MEMORY", right=True, name="memory used"), Column("W", right=True, name="watts"),
        Column("°C", right=True, name="celsius"),
    ]  # fmt: skip
    rows = [
        step_row(item, step, at_step(reply, step))
        for step in range(-(-(reply["until"] - reply["since"]) // reply["step_s"]))
        for item in reply["items"]
        if item["use"][step]
    ]
    return Table(columns, rows, "no data recorded in that time")


def at_step(reply: Record, step: int) -> str:
    """Return the start of a step of the history as RFC 3339 in UTC, to the second."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(reply["since"] + step * reply["step_s"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def step_row(item: Record, step: int, at: str) -> list[str | Cell]:
    """Return the cells of one GPU in one step of the history."""
    return [
        at,
        Cell(item["index"] or item["id"], "bold"),
        Cell(item["use"][step], ROLES.get(item["use"][step], "")),
        item["condition"][step],
        percent(item["utilisation"][step], 0),
        size(item["memory_used_bytes"][step]),
        count(item["power_w"][step]),
        count(item["temperature_c"][step]),
    ]
