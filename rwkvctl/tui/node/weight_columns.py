"""Checkpoints as rows, and what is known of one: where it fits, what is loaded, what it was measured on. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rwkvctl.cli.render import Cell, joined
from rwkvctl.cli.tables.core_tables import parameters, sha256_cell
from rwkvctl.protocol.views import EngineView, LeaseView, ModelView, ScoreView
from rwkvctl.text.quantities import count, size
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.scores import summary
from rwkvctl.tui.shell.status_line import needs_somebody
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import Column

SCORES: Final = 6
ASLEEP: Final = frozenset({"gone", "failed", "unloading"})


class CheckpointRow(NamedTuple):
    """A checkpoint, its engines, its newest scores, and the devices it might run on."""

    item: ModelView
    engines: tuple[EngineView, ...] = ()
    scores: tuple[ScoreView, ...] = ()
    leases: tuple[LeaseView, ...] = ()


def path(row: CheckpointRow) -> str:
    """Return the path of the checkpoint; two folders may hold the same name."""
    return row.item.path


def rows_of(items: Iterable[ModelView], scores: Iterable[ScoreView], state: ConsoleState) -> list[CheckpointRow]:
    """Return the checkpoints with what the node knows of them."""
    measured: dict[str, list[ScoreView]] = {}
    for score in scores:
        measured.setdefault(score.model, []).append(score)
    loaded: dict[str, list[EngineView]] = {}
    for engine in state.engines.values():
        if engine.state not in ASLEEP:
            loaded.setdefault(engine.model, []).append(engine)
    leases = devices(state.leases.values())
    return [
        CheckpointRow(item, tuple(loaded.get(item.name, ())), tuple(measured.get(item.name, ())), leases)
        for item in items
    ]


def devices(leases: Iterable[LeaseView]) -> tuple[LeaseView, ...]:
    """Return the GPUs, or the CPU if there are none."""
    every = tuple(leases)
    gpus = tuple(lease for lease in every if not lease.id.startswith("cpu"))
    return gpus or every


def has_room(row: CheckpointRow, lease: LeaseView) -> bool:
    """Return whether a device is large enough; one of unknown size counts as large enough."""
    return not lease.memory_total_bytes or row.item.need_bytes <= lease.memory_total_bytes


def fits(row: CheckpointRow) -> Cell:
    """On which devices it fits, by their size; `now` what of that is not lost to the work is another question."""
    large = [lease for lease in row.leases if has_room(row, lease)]
    if not row.leases or not row.item.path or row.item.api:
        return Cell("–")
    if not large:
        return Cell("✗ none", "bad", "none")
    names = "all" if len(large) == len(row.leases) else ",".join(lease.index or lease.id for lease in large)
    return Cell(f"✓ {names}", "ok", names)


def fits_sentence(row: CheckpointRow) -> str:
    """Return a sentence with the memory a checkpoint needs, the largest device, and how many devices it fits on."""
    largest = max((lease.memory_total_bytes or 0 for lease in row.leases), default=0)
    need = f"needs at least {size(row.item.need_bytes)}" if row.item.need_bytes else "its memory need is not known"
    large = [lease for lease in row.leases if has_room(row, lease)]
    lost = [lease.index or lease.id for lease in large if needs_somebody(lease)]
    said = [need, f"the largest device has {size(largest)}" if largest else ""]
    said.append(f"fits {len(large)} of {len(row.leases)} devices" if row.leases else "")
    said.append(f"of which {', '.join(lost)} cannot be used now" if lost else "")
    return joined(said)


def state_cell(row: CheckpointRow) -> Cell:
    """Return whether the checkpoint can be loaded, and whether it is."""
    if row.item.broken:
        return Cell("✗ damaged", "bad", "damaged")
    if not row.item.path:
        return Cell("– gone", "dim", "gone")
    if row.item.api:
        return Cell("⇄ endpoint", "info", "endpoint")
    if not row.engines:
        return Cell("· cold", "dim", "cold")
    ready = any(engine.state == "ready" for engine in row.engines)
    return Cell("▸ warm" if ready else "◌ loading", "ok" if ready else "info", "warm" if ready else "loading")


def engines(row: CheckpointRow) -> str:
    """Return the ids of the engines that have the checkpoint loaded; `–` if there is none."""
    return " ".join(engine.id for engine in row.engines) or "–"


WEIGHTS: Final[tuple[Column[CheckpointRow], ...]] = (
    Column("MODEL", lambda row: Cell(row.item.name, "bold"), 34, least=31, grow=2, cut="model"),
    Column("STATE", state_cell, 10),
    Column("PARAMS B", lambda row: parameters(row.item.parameters_b), 8, value=lambda row: row.item.parameters_b,
           right=True),
    Column("SIZE", lambda row: size(row.item.size_bytes or None), 9, value=lambda row: row.item.size_bytes, right=True),
    Column("FITS", fits, 10, least=6, value=lambda row: row.item.need_bytes),
    Column("ENGINES", engines, 9, rank=3),
    Column("SCORES", lambda row: count(len(row.scores)), 6, value=lambda row: len(row.scores), right=True),
    Column("CONTEXT", lambda row: count(row.item.context), 7, value=lambda row: row.item.context, right=True, rank=5),
    Column("DATE", lambda row: row.item.date or "–", 10, rank=2),
    Column("DATA", lambda row: row.item.data_version or "–", 5, rank=6),
    Column("SHA-256", lambda row: sha256_cell(row.item.sha256, copying=row.item.copying), 12, rank=4),
    Column("ARCH", lambda row: row.item.architecture or "–", 6, rank=7),
    Column("PATH", path, 40, least=30, rank=9, grow=1, cut="middle"),
)  # fmt: skip


def about(row: CheckpointRow, shown: Mapping[str, Any]) -> list[Pieces]:
    """Return the detail lines of a checkpoint; `shown` is the output of `weights show` on its tensors, if known."""
    item = row.item
    if item.api:
        server = f" behind an endpoint ({item.api} API); `rwkvctl endpoints` shows its server, budget and state"
        return [[(server, "")], [(f" identity {item.sha256}", "")], *summary.lines(row.scores, SCORES, of_model=True)]
    lines: list[Pieces] = [[(f" it does not load: {item.broken}", "bad")]] if item.broken else []
    facts = {
        "file": f"{item.path}  {size(item.size_bytes)}",
        "sha256": item.sha256
        or (item.copying and "it is being copied")
        or "not hashed yet: the first job or `rwkvctl weights verify` does it",
        "shape": shape(shown),
        "tensors": tensors(shown),
        "memory": fits_sentence(row),
        "engines": joined(map(engine_words, row.engines)),
    }
    lines += [[(f" {title:<8} ", "dim"), (text, "")] for title, text in facts.items() if text]
    return [*lines, *summary.lines(row.scores, SCORES, of_model=True)]


def engine_words(engine: EngineView) -> str:
    """Return an engine's id, state, device, numerics and used slots in one phrase."""
    return f"{engine.id} {engine.state} on {engine.lease} ({engine.numerics}, {engine.running}/{engine.slots})"


def shape(shown: Mapping[str, Any]) -> str:
    """Return layers, width, heads and vocabulary in words, or why they are not known."""
    if "layers" not in shown:
        return str(shown.get("detail", ""))
    heads = f"{shown['heads']} heads of {shown['head_size']}"
    return f"{shown['layers']} layers, width {shown['width']:,}, {heads}, vocabulary {shown['vocabulary']:,}"


def tensors(shown: Mapping[str, Any]) -> str:
    """Tensors, their numbers and types, and what a sequence's state takes."""
    if "tensors" not in shown:
        return ""
    kinds = " and ".join(shown["dtypes"])
    state = f"a state is {size(shown['state_bytes'])}"
    return f"{shown['tensors']:,} of {shown['parameters']:,} numbers in {kinds}, {shown['layout']} names, {state}"


def tally(rows: Sequence[CheckpointRow]) -> str:
    """Return how many checkpoints there are, their total size, how many are loaded or damaged, and how many models are
    behind endpoints."""
    total = sum(row.item.size_bytes for row in rows)
    warm, damaged = sum(bool(row.engines) for row in rows), sum(bool(row.item.broken) for row in rows)
    remote = sum(bool(row.item.api) for row in rows)
    files = len(rows) - remote
    said = f"{files} checkpoint{'s' * (files != 1)} · {size(total)} · {warm} warm"
    said += f" · {remote} endpoint{'s' * (remote != 1)}" if remote else ""
    return said + (f" · {damaged} damaged" if damaged else "")
