"""Tables of recipes: replies of the daemon as rows to draw."""

from collections.abc import Iterable, Mapping

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table
from rwkvctl.protocol.states import REASONS
from rwkvctl.text.quantities import count, several

STATES: Mapping[str, Role] = {
    "done": "ok", "failed": "bad", "stopped": "dim", "waiting": "info", "making": "ok", "paused": "warn",
}  # fmt: skip


def recipes(items: Iterable[Record]) -> Table:
    """Return a table of recipes, one line each."""
    columns = [
        Column("RECIPE"), Column("NAME", cut="end"), Column("STATE"), Column("ROWS", right=True),
        Column("JOBS", cut="end"), Column("CREATED", wide=True), Column("DETAIL", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["recipe"],
            item["name"],
            Cell(item["state"], STATES.get(item["state"], "")),
            count(item.get("rows", 0)),
            " ".join(item.get("jobs") or item.get("mixes", ())),
            item["created"],
            item.get("detail", ""),
        ]
        for item in items
    ]
    return Table(columns, rows, "no recipe has been run; see `rwkvctl help recipe run`")


def at_work(items: Iterable[Record]) -> Table:
    """Return a table of the recipes that are not over, for `status`."""
    columns = [Column("RECIPE"), Column("NAME", cut="end"), Column("STATE"), Column("DETAIL", cut="end")]
    rows: list[list[str | Cell]] = [
        [item["recipe"], item["name"], Cell(item["state"], STATES.get(item["state"], "")), item.get("detail", "")]
        for item in items
    ]
    return Table(columns, rows, name="recipe")


def funnel(stages: Iterable[Record]) -> Table:
    """Return a table of a recipe's funnel."""
    columns = [
        Column("STAGE", cut="end"), Column("OF"), Column("IN", right=True), Column("OUT", right=True),
        Column("DROPPED BECAUSE", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [stage["name"], stage["unit"], count(stage["rows_in"]), count(stage["rows_out"]), dropped(stage)]
        for stage in stages
    ]
    return Table(columns, rows, name="stage")


def dropped(stage: Record) -> str:
    """Return why a stage dropped what it did: `26,102 wrong, 1,733 no answer`."""
    return ", ".join(f"{number:,} {why}" for why, number in stage.get("dropped", {}).items())


def dropped_problems(items: Iterable[Record]) -> Table:
    """Return a table of the problems that were dropped in cleaning."""
    columns = [
        Column("PROBLEM", cut="end"), Column("NEAR", cut="end"), Column("ITS ROW", cut="end"), Column("RULE"),
        Column("WORDS IN COMMON", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["row_id"],
            item.get("benchmark", "an earlier problem"),
            item.get("row") or item.get("repeats", ""),
            item["rule"],
            item.get("gram") or "",
        ]
        for item in items
    ]
    return Table(columns, rows, "no problem was dropped in cleaning")


def sources(items: Iterable[Record]) -> Table:
    """Return a table of the jobs whose samples a recipe uses."""
    columns = [
        Column("JOB"), Column("MODEL", cut="model"), Column("BENCHMARK"), Column("KIND"), Column("STATE"),
        Column("SAMPLES", right=True), Column("DONE", right=True), Column("RIGHT", right=True),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            *(item[name] for name in ("job", "model", "benchmark", "kind", "state")),
            count(item["samples"]),
            count(item["done"]),
            count(round(item["right"])),
        ]
        for item in items
    ]
    return Table(columns, rows, name="source")


PARTS: Mapping[str, Role] = {**STATES, "kept": "ok", "missing": "bad"}


def parts(items: Iterable[Record]) -> Table:
    """Return a table of the rows that a recipe mixes."""
    columns = [
        Column("ROWS OF", name="name"), Column("STATE"), Column("ROWS", right=True), Column("ANSWERS"),
        Column("TAKEN", name="taken"),
    ]  # fmt: skip
    answers = {None: "", False: "one", True: "two"}
    rows: list[list[str | Cell]] = [
        [
            item["name"], Cell(item["state"], PARTS.get(item["state"], "")), count(item.get("rows", 0)),
            answers[item.get("pairs")], share(item),
        ]
        for item in items
    ]  # fmt: skip
    return Table(columns, rows, name="part")


def share(item: Record) -> str:
    """Return how much is taken of a part: `all`, `at most 1,000`, `weight 2`."""
    if item.get("weight") is not None:
        return f"weight {float(item['weight'])!r}".removesuffix(".0")
    return f"at most {item['limit']:,}" if item.get("limit") is not None else "all"


ACTIONS: Mapping[str, Role] = {"run": "ok", "resume": "ok", "hold": "warn", "skip": "dim"}


def rewritings(items: Iterable[Record]) -> Table:
    """Return a table of what became of jobs that are to be rewritten, or why they cannot be."""
    columns = [
        Column("SOURCE"), Column("ACTION"), Column("REWRITING", name="job"), Column("SAMPLES", right=True),
        Column("TAKEN", right=True, name="right"), Column("DETAIL", cut="end"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            item["source"],
            Cell(item.get("action", ""), ACTIONS.get(item.get("action", ""), "")),
            item.get("job", ""),
            count(item.get("samples", 0)),
            count(item.get("right", 0)),
            Cell(item["error"], "bad") if item.get("error") else item.get("detail") or why(item),
        ]
        for item in items
    ]
    return Table(columns, rows, name="rewriting")


def why(item: Record) -> str:
    """Return what becomes of a rewriting, in words."""
    if item["action"] == "run":
        return "is queued" if item.get("job") else "would be queued"
    return REASONS[item["reason"]]


def problems(items: Iterable[Record]) -> Table:
    """Return a table of what is wrong with an exported file, by line of its lineage; 0 is the file as a whole."""
    columns = [Column("LINE", right=True), Column("PROBLEM", cut="end")]
    return Table(columns, [[str(item["line"]), item["text"]] for item in items])


def summary(item: Record) -> str:
    """Return a recipe in one line: `r3 sky.toml: done, 8,871 rows`."""
    said = several(item.get("rows", 0), "row") if item["state"] == "done" else item.get("detail", "")
    if item["state"] == "waiting" and not said and item.get("funnel"):
        sampled = item["funnel"][0]
        said = f"{sampled['rows_out']:,} of {sampled['rows_in']:,} {sampled['unit']}"
    return f"{item['recipe']} {item['name']}: {item['state']}" + (f", {said}" if said else "")
