"""Tables of processes that hold GPUs: the list, the rules of one process, the steps to end it, and ended ones."""

from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table
from rwkvctl.text.quantities import duration, size

ROLES: Final[dict[str, Role]] = {
    "orphan": "bad", "defunct": "bad", "ghost": "bad", "stuck": "bad", "ours": "ok", "protected": "dim",
}  # fmt: skip
OUTCOMES: Final[dict[str, Role]] = {"freed": "ok", "not-freed": "bad", "still-there": "bad", "interrupted": "warn"}
PARTS: Final = {"class": "CLASS", "evidence": "EVIDENCE", "node": "THIS NODE"}


def zombies(items: Iterable[Record], *, verdicts: bool) -> Table:
    """Every process that holds a GPU, one line for each GPU it holds. People read the verdicts below the table, whole;
    a pipe gets them in a column."""
    columns = [
        Column("GPU"), Column("PID", right=True), Column("START", right=True), Column("CLASS"), Column("USER"),
        Column("AGE", right=True), Column("STILL", right=True, wide=True), Column("MEMORY", right=True),
        Column("COMMAND", cut="end"), *([Column("VERDICT", cut="end")] if verdicts else []),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["index"],
            Cell(str(item["pid"]), "bold"),
            str(item.get("start_ticks") or "–"),
            Cell(item["cls"], ROLES.get(item["cls"], "")),
            item.get("user") or "–",
            duration(item["age_s"]) if item.get("age_s") else "–",
            "–" if item.get("still_s") is None else duration(item["still_s"]),
            size(item.get("memory_bytes")),
            item.get("command") or "–",
            *([item.get("verdict", "")] if verdicts else []),
        ]
        for item in items
    ]
    return Table(columns, rows, "no process holds a GPU", "process")


def rules(items: Iterable[Record]) -> Table:
    """Every rule that was asked about one process, with what was measured."""
    columns = [Column("ASKED"), Column("RULE"), Column("HOLDS"), Column("MEASURED", cut="end")]
    rows: list[list[str | Cell]] = [[PARTS[rule["part"]], rule["name"], held(rule), rule["value"]] for rule in items]
    return Table(columns, rows, name="rule")


def held(rule: Record) -> Cell:
    """Return whether a rule holds as a cell. Of the class rules exactly one holds; of the others all should."""
    plain = str(rule["holds"]).lower()
    if rule["part"] == "class":
        return Cell("✓ this", "bold", plain) if rule["holds"] else Cell("· no", "dim", plain)
    return Cell("✓ yes", "ok", plain) if rule["holds"] else Cell("✗ no", "bad", plain)


def reaped(items: Iterable[Record]) -> Table:
    """Return a table of the processes that were ended, newest first."""
    columns = [Column("ENDED"), Column("PID", right=True), Column("OUTCOME"), Column("BY"), Column("WHAT", cut="end")]
    rows: list[list[str | Cell]] = [
        [
            item["at"][:19].replace("T", " "),
            str(item["pid"]),
            Cell(item["outcome"], OUTCOMES.get(item["outcome"], "")),
            item.get("by") or "–",
            item["text"],
        ]
        for item in items
    ]
    return Table(columns, rows)


def plan(steps: Iterable[str]) -> Table:
    """Return a table of the steps that `rwkvctl reap` would take, in order."""
    rows = [[str(number), step] for number, step in enumerate(steps, 1)]
    return Table([Column("STEP", right=True), Column("WOULD", cut="end")], rows, name="step")


def headline(reply: Record) -> list[str]:
    """Return the policy, and why no process is ended at the moment."""
    policies = {
        "auto": "orphans of this daemon are ended automatically when idle (reap = auto)",
        "ask": "orphans of this daemon are ended only when you confirm (reap = ask)",
        "off": "no process is ended automatically, and no alert is raised (reap = off)",
    }
    text = policies.get(reply["policy"], f"reap = {reply['policy']}")
    why = reply.get("observing", "")
    return [text, *([f"no process is ended now: {why}"] if why else []), ""]


def sentences(items: Iterable[Record]) -> list[str]:
    """Return the verdicts with their GPUs, except those on running engines of this daemon."""
    return [f"GPU {item['index']}: {item.get('verdict', '')}." for item in items if item["cls"] != "ours"]
