"""Events as rows, the job log as a table, Markdown or CSV, and one job in detail."""

from collections.abc import Iterable

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table, amount, clock, state_cell
from rwkvctl.cli.tables.core_tables import value_with_interval, why
from rwkvctl.text.quantities import Amount, count
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.table_cells import csv_line, markdown_line, markdown_rule

ROLES: dict[str, Role] = {"failed": "bad", "quarantined": "bad", "held": "warn", "done": "ok"}

LOG_FIELDS = (
    "job", "queued", "user", "session", "model", "benchmark", "kind", "version", "state", "samples", "limit",
    "numerics", "settings", "metric", "value", "ci_low", "ci_high", "started", "finished", "config", "weights_sha256",
    "result", "suite", "note",
)  # fmt: skip
"""Columns of the job log in CSV, in order: fields of JobLogView."""


def event_cells(event: Record) -> list[str | Cell]:
    """One event as a row: number, time, kind, what it is about, and its sentence."""
    about = event.get("job") or event.get("engine") or event.get("session", "")
    data = event.get("data") or {}
    role = ROLES.get(str(data.get("state") or data.get("condition") or ""), "")
    return [str(event.get("seq", "")), event["at"], event["kind"], about, Cell(safe_line(event.get("text", "")), role)]


RESULT = tuple(Column(title, piped=True) for title in ("METRIC", "VALUE", "CI LOW", "CI HIGH", "WHY"))
"""A job's result for a pipe: the score in numbers, or why there is none."""


def job_log(items: Iterable[Record]) -> Table:
    """Return a table of the job log: each job with its score and settings."""
    columns = [
        Column("JOB"), Column("QUEUED"), Column("WHO"), Column("MODEL", cut="model"),
        Column("BENCHMARK", cut="middle"), Column("KIND"), Column("V", right=True, wide=True), Column("STATE"),
        Column("SAMPLES", right=True, wide=True),
        Column("RESULT", cut="end", drawn=True), *RESULT,
        Column("NOTE", cut="end", wide=True), Column("SUITE", wide=True),
        Column("SETTINGS", cut="end", wide=True), Column("CONFIG", wide=True),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = [
        [
            Cell(item["job"], "bold"),
            Cell(clock(item["queued"]), "", item["queued"]),
            item.get("user") or "–",
            item["model"],
            item["benchmark"],
            item["kind"],
            str(item["version"]),
            state_cell(item["state"]),
            count(item.get("samples", 0)),
            item.get("result", ""),
            item.get("metric", ""),
            *(amount(item.get(name), "g") for name in ("value", "ci_low", "ci_high")),
            "" if item.get("metric") else item.get("result", ""),
            item.get("note", ""),
            item.get("suite", ""),
            described(item),
            Cell(item.get("config", "")[:12], "dim", item.get("config", "")),
        ]
        for item in items
    ]
    return Table(columns, rows, "no job has been queued yet")


def described(item: Record) -> str:
    """Return the limit and the changed settings of a job as words: `limit=20 temperature=0.3`."""
    pairs = [f"limit={item['limit']}"] if item.get("limit") is not None else []
    return " ".join(pairs + [f"{name}={value}" for name, value in item.get("settings", {}).items()])


def log_markdown(items: Iterable[Record]) -> str:
    """The job log as a Markdown table, to be pasted into a report."""
    titles = (
        "job", "when", "who", "model", "benchmark", "kind", "state", "result", "settings", "config", "suite", "note",
    )  # fmt: skip
    rows = [
        (item["job"], item["queued"], item.get("user") or "–", item["model"], item["benchmark"], item["kind"],
         item["state"], item.get("result", ""), described(item), item.get("config", "")[:12],
         item.get("suite", ""), item.get("note", ""))
        for item in items
    ]  # fmt: skip
    return "".join([markdown_line(titles), markdown_rule(len(titles)), *map(markdown_line, rows)])


def log_csv(items: Iterable[Record]) -> str:
    """The job log as CSV, with every field."""
    lines = [csv_line(LOG_FIELDS)]
    for item in items:
        values = item | {"settings": described({"settings": item.get("settings", {})})}
        lines.append(csv_line([values.get(name) for name in LOG_FIELDS]))
    return "".join(lines)


def job(item: Record, dispatched: Record) -> Table:
    """Return a table of a job's fields and values, and of what its dispatch says of itself, without those that are
    empty."""
    score = item.get("score") or {}
    provenance = score.get("provenance") or {}
    facts: list[tuple[str, str | Cell]] = [
        ("job", Cell(item["id"], "bold")),
        ("state", state_cell(item["state"])),
        ("why", why(item)),
        ("model", item["model"]),
        ("benchmark", f"{item['benchmark']} {item['kind']}, version {item.get('version', 1)}"),
        ("samples", Amount(f"{item.get('done', 0)} of {item.get('total', 0)}", item.get("done", 0))),
        ("total", count(item.get("total", 0))),
        ("limit", "" if item.get("limit") is None else Amount(f"the first {item['limit']} rows", item["limit"])),
        ("picks", item.get("picks", "")),
        ("score", score_text(score)),
        ("warnings", "; ".join(score.get("warnings", ()))),
        ("settings", described({"settings": provenance.get("settings", {})})),
        ("seed", str(provenance.get("seed", ""))),
        ("numerics", item.get("numerics", "")),
        ("suite", dispatched.get("suite", "")),
        ("note", dispatched.get("note", "")),
        ("engine", item.get("engine", "")),
        ("attempts", str(item.get("attempt", 0))),
        ("queued", item.get("queued", "")),
        ("started", item.get("started", "")),
        ("finished", item.get("finished", "")),
        ("session", item.get("session", "")),
        ("made of samples of", item.get("source_job", "")),
        ("labels rows by", item.get("labels", "")),
        ("weights", item.get("weights", "")),
        ("weights sha256", str(provenance.get("weights_sha256", ""))),
        ("rows sha256", str(provenance.get("rows_sha256", ""))),
        ("generation key", item.get("generation_key", "")),
        ("grade key", str(provenance.get("grade_key", ""))),
    ]
    rows: list[list[str | Cell]] = [[name, value] for name, value in facts if value]
    return Table([Column("FIELD"), Column("VALUE", cut="end")], rows)


def score_text(score: Record) -> str:
    """Return the headline with its interval, or why there is none."""
    metric = score.get("metrics", {}).get(score.get("primary", ""))
    if not metric or metric.get("value") is None:
        return str(score.get("why_null", ""))
    return Amount(f"{score['primary']} {value_with_interval(metric)} (n {score.get('n', 0)})", metric["value"])
