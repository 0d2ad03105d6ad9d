"""Replies of the daemon as tables: which fields, in which order, in which words.

`tests/unit/rwkvctl/cli/tables/test_core_tables.py` draws every reply of `rwkvctl.protocol.routes` with these.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import Cell, Column, Role, Table, amount, joined, share, state_cell
from rwkvctl.protocol.states import TERMINAL
from rwkvctl.scoreboard import score_notes
from rwkvctl.text.quantities import Amount, all_done, bar, count, duration, percent, size

BAR: Final = 10
NULL: Final = Amount("null", None)
"""A score without a number. A pipe gets nothing in its place: the reason stands in another column."""
ACTIONS: Final[dict[str, tuple[str, Role]]] = {
    "run": ("▸ run", "ok"), "resume": ("▸ resume", "ok"), "skip": ("· skip", "dim"), "hold": ("! hold", "warn"),
}  # fmt: skip


NOTHING_MATCHES: Final = (
    "no match: no model or no benchmark matches the filters\n"
    "`rwkvctl models` and `rwkvctl benchmarks` list all; `--models builtin` always works"
)


def headline(status: Record) -> str:
    """Return the first line of `status`: node, uptime, the number of jobs in each state, recipes at work, free disk,
    and when all will be done."""
    counts = status["counts"]
    states = ", ".join(f"{counts[state]} {state}" for state in counts if counts[state]) or "no jobs"
    disk = size(status.get("disk_free_bytes"))
    parts = [status["node"] or "daemon", f"up {duration(status['uptime_s'])}", states, recipes(status), f"{disk} free"]
    return " · ".join(part for part in (*parts, whole(status)) if part)


def recipes(status: Record) -> str:
    """Return how many recipes are at work: `recipes: 2 waiting, 1 paused`; empty if none is."""
    counts = status.get("recipe_counts", {})
    said = ", ".join(f"{counts[state]} {state}" for state in ("waiting", "making", "paused") if counts.get(state))
    return f"recipes: {said}" if said else ""


def leases(items: Iterable[Record]) -> Table:
    """Return a table of the GPUs (or the CPU) and what holds them."""
    columns = [
        Column("LEASE"), Column("DEVICE", cut="end"), Column("USE"), Column("CONDITION", wide=True), Column("ENGINE"),
        *MEMORY, Column("UTIL %", right=True, name="util"), Column("W", right=True, wide=True, name="watts"),
        Column("°C", right=True, wide=True, name="celsius"), Column("WHY", cut="end"), Column("UUID", wide=True),
    ]  # fmt: skip
    rows = [
        [
            Cell(item.get("index") or item["id"], "bold"),
            item.get("name", ""),
            use_cell(item.get("use", "free"), item.get("condition", "ok")),
            condition_cell(item.get("condition", "ok")),
            item.get("engine") or "–",
            *memory_cells(item.get("memory_used_bytes"), item.get("memory_total_bytes")),
            percent(item.get("utilisation"), 0),
            count(item.get("power_w")),
            count(item.get("temperature_c")),
            joined([item.get("reason", ""), item.get("why", "")]),
            item["id"] if item.get("index") else "",
        ]
        for item in items
    ]
    return Table(columns, rows, name="lease")


def use_cell(use: str, condition: str) -> Cell:
    """Return a lease's use as a cell; a free lease that must not be used shows its condition."""
    if use == "free" and condition != "ok":
        return Cell(condition, "warn", use)
    roles: dict[str, Role] = {"leased": "ok", "zombie": "bad", "unknown": "warn", "free": "dim"}
    return Cell(use, roles.get(use, ""))


def condition_cell(condition: str) -> Cell:
    """Return a lease's condition as a cell: a warning unless it is `ok`."""
    return Cell(condition, "dim" if condition == "ok" else "warn")


MEMORY: Final = (Column("MEMORY", right=True, name="memory used"), Column("MEMORY TOTAL", piped=True))


def memory_cells(used: int | None, total: int | None) -> list[str]:
    """`1.2/4.0 GiB`, or a dash where it is not known, and for a pipe all that there is."""
    if used is None or not total:
        return [size(used), size(total)]
    return [Amount(f"{used / 2**30:.1f}/{total / 2**30:.1f} GiB", used), size(total)]


def engines(items: Iterable[Record]) -> Table:
    """Return a table of engine processes with their slots and their speeds in tokens/s."""
    columns = [
        Column("ENGINE"), Column("STATE"), Column("MODEL", cut="model"), Column("NUMERICS", wide=True),
        Column("LEASE"), Column("RUN/SLOTS", right=True, name="run"), Column("SLOTS", piped=True),
        Column("WAIT", right=True), Column("TOK/S", right=True),
        Column("PREFILL/S", right=True, wide=True), Column("DETAIL", cut="end", wide=True),
    ]  # fmt: skip
    rows = [
        [
            Cell(item["id"], "bold"),
            Cell(item["state"], engine_role(item["state"])),
            item["model"],
            item["numerics"],
            item["lease"],
            Amount(f"{item.get('running', 0)}/{item.get('slots', 0)}", item.get("running", 0)),
            count(item.get("slots", 0)),
            count(item.get("waiting", 0)),
            count(item.get("decode_tokens_per_s", 0)),
            count(item.get("prefill_tokens_per_s", 0)),
            item.get("detail", ""),
        ]
        for item in items
    ]
    return Table(columns, rows, name="engine")


def engine_role(state: str) -> Role:
    """Return the display role of an engine's state; `info` for any not listed."""
    roles: dict[str, Role] = {"ready": "ok", "failed": "bad", "gone": "dim"}
    return roles.get(state, "info")


def jobs(items: Iterable[Record], empty: str = "no jobs") -> Table:
    """Jobs in any state: progress for those that run, the reason for those that wait."""
    columns = [
        Column("JOB"), Column("STATE"), Column("MODEL", cut="model"), Column("BENCHMARK", cut="middle"),
        Column("KIND"), Column("PROGRESS", wide=True, drawn=True), Column("DONE", right=True),
        Column("TOTAL", piped=True), Column("SCORE ±CI", right=True, name="score"), Column("CI LOW", piped=True),
        Column("CI HIGH", piped=True), Column("ETA", right=True, wide=True), Column("WHY", cut="end"),
    ]  # fmt: skip
    rows = [
        [
            Cell(item["id"], "bold"),
            state_cell(item["state"]),
            item["model"],
            item["benchmark"],
            item["kind"],
            bar(share(item["done"], item.get("total", 0)), BAR) if item.get("done") else "",
            Amount(f"{item['done']:,}/{item.get('total', 0):,}" if item.get("done") else "–", item.get("done", 0)),
            count(item.get("total", 0)),
            score_text(item),
            *ends(score_metric(item) or {}),
            duration(item.get("eta_s")),
            why(item) or idle(item),
        ]
        for item in items
    ]
    return Table(columns, rows, empty, "job")


def why(item: Record) -> str:
    """Return why a job waits or how it ended: the reason's word, or the culprit, and the daemon's details."""
    reason, detail = item.get("reason", "") or item.get("failure", ""), item.get("detail", "")
    return f"{reason}: {detail}" if reason and detail else reason or detail


def idle(item: Record) -> str:
    """Return `no progress for 1m40s` for a job that stalls; empty for others."""
    return "" if item.get("idle_s") is None else f"no progress for {duration(item['idle_s'])}"


def score_metric(item: Record) -> Record | None:
    """Return the primary metric of a job's score; while it runs, the running mean. None if there is neither."""
    if score := item.get("score"):
        return dict(score["metrics"].get(score["primary"]) or {"value": None})
    return None if item["state"] in TERMINAL else item.get("running_score")


def score_text(item: Record) -> str:
    """Return that metric with its interval: `74.9 ±2.3`; `null` for a score without a value, a dash for none."""
    metric = score_metric(item)
    return value_with_interval(metric) if metric else "–"


def value_with_interval(metric: Record | None) -> str:
    """Return a value with the half-width of its 95 % interval, shares in percent: `74.9 ±2.3`; `null` if it is
    missing."""
    if not metric or metric.get("value") is None:
        return NULL
    half = half_interval(metric)
    return Amount(in_unit(metric["value"], metric) + (f" ±{half}" if half != "–" else ""), metric["value"])


def in_unit(value: float, metric: Record) -> str:
    """Return a share in percent, any other value with three decimals."""
    return percent(value) if metric.get("unit", "share") == "share" else amount(value, ".3f")


def half_interval(metric: Record) -> str:
    """Return the longer side of the 95 % interval from the value, as the interval need not be symmetric; a dash if
    unknown."""
    value, low, high = metric.get("value"), metric.get("ci_low"), metric.get("ci_high")
    return "–" if value is None or low is None or high is None else in_unit(max(value - low, high - value), metric)


def interval(metric: Record) -> str:
    """Return the 95 % interval as text, shares in percent: `72.6–77.2`; a dash if it is unknown."""
    low, high = metric.get("ci_low"), metric.get("ci_high")
    return "–" if low is None or high is None else f"{in_unit(low, metric)}–{in_unit(high, metric)}"


INTERVAL: Final = (
    Column("95 % CI", right=True, drawn=True), Column("CI LOW", piped=True), Column("CI HIGH", piped=True),
)  # fmt: skip


def interval_cells(metric: Record) -> list[str]:
    """Return the 95 % interval as one text for a terminal and as its two ends for a pipe."""
    return [interval(metric), *ends(metric)]


def ends(metric: Record) -> list[str]:
    """Return the two ends of the 95 % interval."""
    return [amount(metric.get(name), ".3f") for name in ("ci_low", "ci_high")]


def plan(rows: Iterable[Record]) -> Table:
    """Return a table of a plan: one row and one reason for each job."""
    columns = [
        Column("#", right=True, name="place"), Column("ACTION"), Column("MODEL", cut="model"),
        Column("BENCHMARK", cut="middle"), Column("KIND", cut="middle"), Column("SAMPLES", right=True),
        Column("EST", right=True),
        Column("START", right=True, wide=True), Column("WHERE", wide=True), Column("REASON"),
        Column("NUMERICS", wide=True), Column("JOB", wide=True), Column("DETAIL", cut="end"),
    ]  # fmt: skip
    cells = [
        [
            str(place),
            Cell(*ACTIONS.get(row["action"], (row["action"], "")), row["action"]),
            row["model"],
            row["benchmark"],
            row["kind"],
            count(row.get("samples")),
            duration(row.get("est_s")),
            start(row.get("starts_s")),
            place_of(row),
            row["reason"],
            row.get("numerics", ""),
            row.get("job", ""),
            joined([row.get("detail", ""), f"estimated {row['basis']}" if row.get("basis") else ""]),
        ]
        for place, row in enumerate(rows, 1)
    ]
    return Table(columns, cells, NOTHING_MATCHES)


def start(starts_s: float | None) -> str:
    """Return when a job is expected to start: `now`, `in 12m`; `–` if that is unknown."""
    if starts_s is None:
        return "–"
    return Amount("now" if starts_s < 1 else f"in {duration(starts_s)}", starts_s)


def place_of(row: Record) -> str:
    """Where it is expected to run, and whether its model is there already."""
    lease = row.get("lease", "")
    return f"{lease} ({'loads' if row.get('loads') else 'warm'})" if lease else "–"


def whole(reply: Record) -> str:
    """Return in how long everything that waits will be done, or why there is no ETA; empty if nothing waits."""
    return all_done(reply.get("eta_s"), reply.get("not_estimated", 0))


def reasons(rows: Iterable[Record], meanings: Mapping[Any, str]) -> Table:
    """Return a table of the reasons for which rows of a plan would not run: the number of rows and the meaning."""
    found: dict[str, int] = {}
    for row in rows:
        if row["action"] in {"skip", "hold"}:
            found[row["reason"]] = found.get(row["reason"], 0) + 1
    columns = [Column("NOT RUN", right=True), Column("REASON"), Column("MEANING", cut="end")]
    cells = [[count(number), reason, meanings.get(reason, "")] for reason, number in found.items()]
    return Table(columns, cells, name="reason")


def scores(items: Iterable[Record]) -> Table:
    """Scores with what qualifies them; a missing one shows its reason in place of a number."""
    columns = [
        Column("MODEL", cut="model"), Column("BENCHMARK", cut="middle"), Column("KIND", cut="middle"),
        Column("METRIC", wide=True), Column("%", right=True, name="value"), Column("±CI", right=True, name="ci half"),
        INTERVAL[0]._replace(wide=True), *INTERVAL[1:], Column("N", right=True), Column("TRUNC", right=True, calm=True),
        Column("NO ANS", right=True, calm=True), Column("ERR", right=True, calm=True), Column("CHANCE", right=True),
        Column("V", right=True, wide=True), Column("JOB"), Column("NOTE", cut="end"),
    ]  # fmt: skip
    return Table(columns, [score_row(item) for item in items], "no scores yet", "score")


def score_row(item: Record) -> list[str | Cell]:
    """Return the cells of one score for `scores`."""
    metric = item["metrics"].get(item["primary"]) or {}
    value = metric.get("value")
    errors = score_notes.failed(item)
    return [
        item["model"],
        item["benchmark"],
        item["kind"],
        item["primary"],
        Cell(NULL, "warn") if value is None else Cell(in_unit(value, metric), "bold"),
        half_interval(metric),
        *interval_cells(metric),
        count(item["n"]),
        count(score_notes.counted(item, "truncated")),
        count(score_notes.counted(item, "no_answer")),
        Cell(count(errors), "bad" if errors else ""),
        percent(item.get("chance")),
        str(item["version"]),
        item["job"],
        score_note(item, value),
    ]


def score_note(item: Record, value: float | None) -> str:
    """Return why a score has no number, or what qualifies it."""
    if value is None:
        return item.get("why_null") or "no value"
    judge = item.get("provenance", {}).get("judge", {})
    return joined([*score_notes.notes(item), judge.get("calibration", "")])


def models(items: Iterable[Record]) -> Table:
    """Return a table of models; a note says which do not load, and why, and which are behind endpoints."""
    columns = [
        Column("MODEL", cut="model"), Column("ARCH"), Column("DATA"), Column("PARAMS B", right=True),
        Column("CONTEXT", right=True), Column("DATE", wide=True), Column("SIZE", right=True), Column("SHA-256"),
        Column("PATH", cut="middle", wide=True), Column("NOTE", cut="end"),
    ]  # fmt: skip
    rows = [
        [
            Cell(item["name"], "bold"),
            item.get("architecture", ""),
            item.get("data_version", ""),
            parameters(item.get("parameters_b")),
            count(item.get("context")),
            item.get("date", ""),
            size(item["size_bytes"] or None),
            sha256_cell(item.get("sha256", ""), copying=item.get("copying", False)),
            item["path"],
            model_note(item),
        ]
        for item in items
    ]
    return Table(columns, rows, "no checkpoint found; put one into the weights folder (`rwkvctl config show`)")


def model_note(item: Record) -> str | Cell:
    """Return why a model cannot be loaded, or that it is no checkpoint of this node."""
    if item.get("broken"):
        return Cell(f"damaged: {item['broken']}", "bad")
    if item.get("api"):
        return f"behind an endpoint, {item['api']} API"
    return "" if item["path"] else "file is gone"


def sha256_cell(sha256: str, *, copying: bool) -> Cell:
    """Return the first 12 digits of a checkpoint's SHA-256, or why there is none yet."""
    return Cell(sha256[:12]) if sha256 else Cell("being copied" if copying else "not hashed", "dim")


def parameters(billions: float | None) -> str:
    """Parameters in billions, with digits where the model is small."""
    if billions is None:
        return "–"
    return amount(billions, ".1f" if billions >= 0.1 else ".4f")


def benchmarks(items: Iterable[Record]) -> Table:
    """The catalogue and whether its rows lie ready."""
    columns = [
        Column("BENCHMARK"), Column("DOMAIN"), Column("KINDS", cut="end"), Column("ROWS", right=True), Column("READY"),
        Column("SPLIT", wide=True), Column("V", right=True, wide=True), Column("LICENCE", wide=True, cut="end"),
        Column("TITLE", cut="end"), Column("USE"),
    ]  # fmt: skip
    rows = [
        [
            Cell(item["name"], "bold"),
            item["domain"],
            kinds(item.get("usual", ()), item["kinds"]),
            count(item.get("rows")),
            ready_cell(item),
            item["split"],
            str(item["version"]),
            item.get("licence", ""),
            item["title"],
            purpose_cell(item),
        ]
        for item in items
    ]
    return Table(columns, rows, "no benchmarks")


def ready_cell(item: Record) -> Cell:
    """Return whether a benchmark's rows are prepared; damaged ones must be prepared again."""
    if item.get("ready"):
        return Cell("✓ yes", "ok", "yes")
    return Cell("! damaged", "warn", "no") if item.get("damaged") else Cell("– no", "dim", "no")


def purpose_cell(item: Record) -> Cell:
    """Return `training` for a set that is there to be trained on; empty for all others."""
    return Cell("training" if item.get("training") else "", "dim")


def kinds(usual: Sequence[str], every: Sequence[str]) -> str:
    """Return the kinds that run by default, and how many more there are."""
    more = len(every) - len(usual)
    return ",".join(usual) + (f" +{more}" if more else "")


def changed(items: Iterable[Record]) -> Table:
    """Return a table of what a change did to each job."""
    columns = [Column("JOB"), Column("STATE"), Column("CHANGED"), Column("WHY NOT", cut="end")]
    rows = [
        [
            Cell(item["job"], "bold"),
            state_cell(item["state"]) if item["state"] else Cell("–", "dim"),
            "yes" if item["changed"] else "no",
            Cell(item["error"], "bad") if item.get("error") else Cell(item.get("still", ""), "warn"),
        ]
        for item in items
    ]
    return Table(columns, rows, "no jobs to change", "job")


def sample_rows(items: Iterable[Record], empty: str = "") -> Table:
    """Samples, one line each, for a pipe."""
    titles = ("SAMPLE", "ROW", "REPEAT", "VALUE", "REASON", "EXPECTED", "EXTRACTED", "DETAIL", "PROMPT", "COMPLETION",
              "ROW ID")  # fmt: skip
    rows: list[list[str | Cell]] = []
    for item in items:
        stages = item.get("stages", [])
        texts = ["\n".join(stage[name] for stage in stages) for name in ("prompt", "completion")]
        value = "" if item.get("value") is None else f"{item['value']:g}"
        extracted = item.get("extracted")
        first = [str(item["number"]), str(item["row"]), str(item["repeat"]), value, item["reason"]]
        rows.append(
            [
                *first,
                item.get("expected", ""),
                "" if extracted is None else extracted,
                item.get("detail", ""),
                *texts,
                item.get("row_id", ""),
            ]
        )
    return Table([Column(title) for title in titles], rows, empty)
