"""Lines and rows about the daemon: from its replies, or from outside while it does not answer. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rwkvctl.cli.render import Cell, Role
from rwkvctl.protocol.replies import InfoReply
from rwkvctl.protocol.service import FamilyView, MetricsReply, SettingView
from rwkvctl.text.quantities import duration, size
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

LATE_S: Final = 0.5
"""An event loop that is later than this keeps people waiting."""

NAME_WIDTH: Final = 9
DEFAULT: Final = "default"


class OutsideView(NamedTuple):
    """The daemon seen from outside: what the service manager says, and how many of its workers live."""

    service: str = ""
    engines: int = 0
    runners: int = 0
    local: bool = True


class DaemonReplies(NamedTuple):
    """The daemon's replies about itself: version and paths, metrics, settings, and notes."""

    info: InfoReply
    metrics: MetricsReply
    settings: Mapping[str, SettingView]
    notes: Sequence[str] = ()


class DoctorResult(NamedTuple):
    """One check of `rwkvctl doctor`: its name, verdict, explanation and remedy."""

    name: str
    verdict: str
    what: str
    remedy: str


VERDICTS: Final[dict[str, Cell]] = {
    "ok": Cell("✓ ok", "ok"), "missing": Cell("✗ missing", "bad"), "optional": Cell("– optional", "warn"),
}  # fmt: skip
ORDER: Final = ("missing", "optional", "ok")


def short(origin: str) -> str:
    """Return where a setting came from in few cells: `$RWKVCTL_REAP`, `--home`, FILE:LINE."""
    return origin.replace("environment ", "$").removeprefix("flag ")


SETTINGS: Final[tuple[Column[SettingView], ...]] = (
    Column("SETTING", lambda row: Cell(row.name, "dim" if row.origin == DEFAULT else "bold"), 24, least=20),
    Column("VALUE", lambda row: str(row.value), 24, least=16, grow=1, cut="middle"),
    Column("FROM", lambda row: Cell(short(row.origin), "dim" if row.origin == DEFAULT else "info", row.origin), 24,
           least=18, grow=1, cut="middle"),
    Column("RESTART", lambda row: "needed" if row.restart else "", 7, rank=3),
    Column("MEANING", lambda row: Cell(row.help, "dim"), 40, least=20, grow=2, rank=2),
)  # fmt: skip
FINDINGS: Final[tuple[Column[DoctorResult], ...]] = (
    Column("VERDICT", lambda row: VERDICTS[row.verdict], 10, value=lambda row: ORDER.index(row.verdict)),
    Column("CHECK", lambda row: Cell(row.name, "bold"), 20, least=14),
    Column("WHAT", lambda row: row.what, 40, least=20, grow=2),
    Column("REMEDY", lambda row: Cell(row.remedy, "info"), 30, least=16, grow=1),
)


def value(metrics: MetricsReply, name: str, **labels: str) -> float | None:
    """Return one metric; None if the daemon does not report it."""
    found: FamilyView | None = next((family for family in metrics.items if family.name == name), None)
    figures = found.figures if found else ()
    return next((figure.value for figure in figures if labels.items() <= figure.labels.items()), None)


def line(name: str, *pieces: tuple[str, str]) -> Pieces:
    """Return a line of the panel: the name in a column of NAME_WIDTH cells, then the pieces."""
    return [(f" {name:<{NAME_WIDTH}} ", "dim"), *pieces]


def facts(state: ConsoleState, known: DaemonReplies) -> list[Pieces]:
    """Return the lines of a daemon that answers."""
    info, metrics = known.info, known.metrics
    spoken = f"{info.api_min}" if info.api_min == info.api_max else f"{info.api_min}–{info.api_max}"
    up = duration(max(0.0, state.heard_at - state.started)) if state.started else "?"
    resident, files = value(metrics, "process_resident_memory_bytes"), value(metrics, "process_open_fds")
    counts = [(whole(value(metrics, f"rwkvctl_{name}")), name) for name in ("samples", "scores")]
    stored, heard = whole(value(metrics, "rwkvctl_events_total")), whole(value(metrics, "rwkvctl_followers"))
    return [
        line("daemon", (info.version, "bold"), (f"  protocol {spoken}  pid {info.pid}  up {up}", ""),
             (f"  since {info.started[:16].replace('T', ' ')} UTC", "dim")),
        line("process", (f"{size(resident)} resident  {files or 0:.0f} open files", ""), *lag(metrics)),
        line("store", (f"{store(known.settings)}  {size(value(metrics, 'rwkvctl_store_bytes'))}", ""),
             *[(f"  {count} {name}", "") for count, name in counts]),
        line("disk", *disk(state, known.settings)),
        line("queue", (queue(state), "")),
        line("events", (f"{stored} stored, last received {state.seq:,}", ""), (f"  followers: {heard}", "dim")),
        *[line("note", (note, "warn")) for note in known.notes],
        line("backup", ("rwkvctl backup FILE", "info"), (" copies the store while the daemon works", "dim")),
    ]  # fmt: skip


def whole(figure: float | None) -> str:
    """Return a count with separators; `?` if the daemon does not report it."""
    return "?" if figure is None else f"{figure:,.0f}"


def lag(metrics: MetricsReply) -> list[tuple[str, str]]:
    """Return the event loop's lag now and its maximum of the last minute in ms; empty if the daemon reports none."""
    now, worst = (value(metrics, f"rwkvctl_event_loop_lag_{name}seconds") for name in ("", "worst_"))
    if now is None or worst is None:
        return []
    return [("  lag ", "dim"), (f"{1000 * now:.0f} ms", "warn" if now > LATE_S else ""), (" worst in a minute ", "dim"),
            (f"{1000 * worst:.0f} ms", "warn" if worst > LATE_S else "")]  # fmt: skip


def store(settings: Mapping[str, SettingView]) -> str:
    """Return the kind of the store and its place."""
    where = str(settings["store"].value) if "store" in settings else "?"
    kind = "SQLite" if where.endswith(".sqlite") else "PostgreSQL" if where != "?" else ""
    return f"{kind} {where}".strip()


def disk(state: ConsoleState, settings: Mapping[str, SettingView]) -> list[tuple[str, str]]:
    """Return the free disk space, and the limit below which no job is started."""
    least = settings["min_free_disk_bytes"].value if "min_free_disk_bytes" in settings else 0
    limit = least if isinstance(least, int) else 0
    role = "bad" if state.disk_free_bytes < limit else "warn" if state.disk_free_bytes < 4 * limit else ""
    said = [(f"{size(state.disk_free_bytes)} free", role)]
    return [*said, (f"  no job starts below {size(limit)}", "dim")] if limit else said


def queue(state: ConsoleState) -> str:
    """Return the number of jobs in each state, without states that have none: `12 done  3 queued`."""
    return "  ".join(f"{count:,} {name}" for name, count in sorted(state.counts.items()) if count) or "no job yet"


def gone(state: ConsoleState, now: float, outside: OutsideView) -> list[Pieces]:
    """Return the lines of a daemon that does not answer: what can be seen from outside."""
    since = f"gone for {duration(max(0.0, now - state.lost_at))}" if state.heard_at else "not connected yet"
    left = duration(max(0.0, state.retry_at - now))
    lines = [
        line("daemon", (since, "bad"), (f"  next try in {left}; ^r tries now", "dim")),
        line("socket", (state.problem, "warn")),
    ]
    if not outside.local:
        return [*lines, line("workers", ("on another machine: not visible from here", "dim"))]
    lines.append(
        line("service", (outside.service or "systemd knows no service rwkvctl", "" if outside.service else "dim"))
    )
    return [*lines, line("workers", *workers(outside)), line("log", ("journalctl -u rwkvctl -n 50", "info"))]


def workers(outside: OutsideView) -> list[tuple[str, str]]:
    """Return how many engines and runners are still alive while the daemon is gone."""
    if not outside.engines + outside.runners:
        return [("no engine or runner is alive", "dim")]
    role: Role = "ok"
    return [(f"{outside.engines} engines and {outside.runners} runners are alive", role),
            ("; they continue, and the next daemon adopts them", "dim")]  # fmt: skip


def service_sentence(text: str) -> str:
    """Return the output of `systemctl show` as a sentence; empty if there is no such unit."""
    known = dict(pair.split("=", 1) for pair in text.split("\n") if "=" in pair)
    if known.get("LoadState") != "loaded":
        return ""
    said = f"rwkvctl.service {known.get('ActiveState', '?')} ({known.get('SubState', '?')})"
    if known.get("Result", "success") != "success":
        said += f", ended by {known['Result']} {known.get('ExecMainStatus', '')}".rstrip()
    restarts = known.get("NRestarts", "0")
    return said + (f", restarted {restarts} times" if restarts != "0" else "")


def census(commands: Iterable[list[str]], home: str) -> tuple[int, int]:
    """Count the engines and runners of a home among command lines; of all homes if it is unknown."""
    ours = [words for words in commands if not any(word.endswith("shim.py") for word in words[:6])]
    ours = [words for words in ours if not home or any(home in word for word in words)]
    return sum("rwkv_engine" in words for words in ours), sum("rwkv_daemon.runner" in words for words in ours)
