"""The task that writes the feedback on each checkpoint when its jobs are over, and stores that as events."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from rwkv_daemon.catalogue.contents import kind_facts
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.compare.score_comparison import Key
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.scheduling.node_work import NodeWork
from rwkv_daemon.store import StoreError, WatchedRow
from rwkv_daemon.store.queries.training.watches import update_watched
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training import watch_task
from rwkv_daemon.training.feedback.compose import FeedbackQuestion, FeedbackSources, feedback
from rwkv_daemon.training.feedback.page import counts, in_words, page, step_in_words
from rwkv_daemon.training.folders.watched_folder import WatchedFolder, Watches
from rwkv_daemon.training.watch_policy import order_of
from rwkv_daemon.workers.crash_points import crash_point
from rwkv_data.definition.suites import SEARCH_OF, Suite
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.training.feedback import FeedbackReply, RowPartName
from rwkvctl.text.quantities import several

STORE_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class FeedbackEvent:
    """What is new of a checkpoint: its feedback (`done`), that it is the `best`, or that it has `collapsed`."""

    what: Literal["done", "best", "collapsed"]
    text: str
    data: Mapping[str, object] = field(default_factory=dict)


Collapses = dict[int, frozenset[tuple[str, str]]]
"""By watch, on what the checkpoint before had collapsed: nobody is told of the same again at each checkpoint."""


async def write_forever(work: NodeWork, sources: FeedbackSources, watches: Watches) -> None:
    """Write the feedback of checkpoints that are measured, until cancelled."""
    collapses: Collapses = {}
    while True:
        watches.measured.clear()
        try:
            await write_due(work, sources, watches, collapses)
        except StoreError as error:
            log.error("the feedback on checkpoints has to wait: %s", error)
            await asyncio.sleep(STORE_PAUSE_S)
            continue
        await watches.measured.wait()


async def write_due(work: NodeWork, sources: FeedbackSources, watches: Watches, collapses: Collapses) -> None:
    """Write each feedback that is due, in the order of the steps. Raises StoreError."""
    for number in list(await watch_task.known(work.records, sources.catalogue, watches)):
        while (folder := watches.folders.get(number)) is not None:
            row = next((one for one in in_order(folder) if one.needs_feedback), None)
            if row is None:
                break
            events = await write(sources, folder, row, collapses)
            await note(work, watches, number, row, events)


def in_order(folder: WatchedFolder) -> list[WatchedRow]:
    """Return the checkpoints of which jobs are queued or done, in the order of their steps."""
    rows = [row for row in folder.in_state("dispatched", "done", "parked") if row.job_numbers]
    return sorted(rows, key=lambda row: (order_of(row.name, row.step, row.modified_ns), row.id))


async def write(
    sources: FeedbackSources, folder: WatchedFolder, row: WatchedRow, collapses: Collapses
) -> Sequence[FeedbackEvent]:
    """Write the files of a checkpoint's feedback; returns what is new. Whatever is wrong with one checkpoint, the
    others have theirs. Raises StoreError."""
    called, rows = f"{folder.row.called}: {row.name}", in_order(folder)
    try:
        asked = question(sources, folder, rows, rows.index(row))
        found = await feedback(sources, asked, QuestionProgress())
        found = msgspec.structs.replace(found, as_of=now(), node=sources.records.hostname)
        place = folder_of(sources.records.config.home, folder, row)
        newest = all(one.state == "dispatched" for one in rows[rows.index(row) + 1 :])
        where = await asyncio.to_thread(written, place, found, newest)
    except StoreError:
        raise
    except (RwkvctlError, SelectionError) as error:
        return [FeedbackEvent("done", f"{called}: {row.reason}; there is no feedback: {error}")]
    except Exception as error:  # noqa: BLE001 - what is wrong with one checkpoint must not keep back the others
        log.exception("%s: the feedback failed", called)
        return [FeedbackEvent("done", f"{called}: {row.reason}; there is no feedback: {error!r}")]
    before = collapses.get(folder.row.id, frozenset())
    collapses[folder.row.id] = frozenset((item.benchmark, item.kind) for item in found.items if item.collapsed)
    return list(news(called, found, where, before))


def question(
    sources: FeedbackSources, folder: WatchedFolder, rows: Sequence[WatchedRow], target: int, *, best: bool = False,
    reveal: bool = False,
) -> FeedbackQuestion:  # fmt: skip
    """Return what is asked about one of a folder's checkpoints. Raises SelectionError if its suite is gone: then nobody
    knows whether rows are held back."""
    suite = sources.catalogue.benchmarks.suite_of(folder.selection)
    part: RowPartName = "all" if suite is None or not suite.hold_back else "report" if reveal else "search"
    return FeedbackQuestion(folder, rows, target, objective_of(sources.catalogue, folder.selection, suite), part, best)


def objective_of(catalogue: NodeCatalogue, selection: Selection, suite: Suite | None) -> list[Key]:
    """Return the benchmarks and kinds by which the best checkpoint is found: those that the suite declares, or else
    what is measured, if that is one. A declared benchmark of which no kind is measured stays, without a kind."""
    try:
        facts = kind_facts(selection, catalogue.benchmarks)
    except SelectionError:  # such as rows that are gone: what was declared still holds
        facts = []
    kinds = sorted({(fact.benchmark, fact.kind) for fact in facts if not fact.kind.startswith(SEARCH_OF)})
    found: list[Key] = []
    for name, kind in suite.objective if suite else ():
        meant = [key for key in kinds if key[0] == name and kind in {"", key[1]}]
        found += meant or [(name, kind)]
    return found or (kinds if len(kinds) == 1 else [])


def folder_of(home: Path, folder: WatchedFolder, row: WatchedRow) -> Path:
    """Return where the feedback on a checkpoint lies."""
    return home / "feedback" / folder.row.name / row.model


def written(place: Path, found: FeedbackReply, newest: bool) -> str:
    """Write the files of a feedback; returns where they are, or why they could not be written."""
    try:
        write_files(place, found, newest=newest)
    except OSError as error:
        return f"its feedback could not be written: {error.strerror or error}; `rwkvctl feedback` shows it"
    return f"see {place / 'feedback.md'}"


def write_files(place: Path, found: FeedbackReply, *, newest: bool) -> None:
    """Write a feedback as Markdown and as JSON, that of the `newest` checkpoint also in the folder above. Raises
    OSError."""
    files = {"feedback.md": page(found).encode(), "feedback.json": msgspec.json.format(msgspec.json.encode(found))}
    place.mkdir(parents=True, exist_ok=True)
    for folder in (place, place.parent) if newest else (place,):
        for name, content in files.items():
            part = folder / f".{name}.part"
            part.write_bytes(content)
            part.replace(folder / name)


def news(
    called: str, found: FeedbackReply, where: str, collapsed_before: Collection[tuple[str, str]] = ()
) -> Iterator[FeedbackEvent]:
    """Yield what is new of a checkpoint."""
    one = found.checkpoint
    step = f" ({step_in_words(one.step)})" if one.step is not None else ""
    compared = counts(item.baseline for item in found.items)
    against = f"; against {found.baseline}: {in_words(compared)}" if found.baseline else ""
    best = f"; best so far: {found.best}" if found.best else ""
    collapsed = {f"{item.benchmark} {item.kind}": item.collapsed for item in found.items if item.collapsed}
    fell = f"; collapsed on {', '.join(collapsed)}" if collapsed else ""
    done = f"scores of {found.done} of {several(found.asked, 'job')}"
    data = {"baseline": found.baseline, "against_baseline": compared, "best": found.best, "collapsed": collapsed,
            "done": found.done, "asked": found.asked}  # fmt: skip
    yield FeedbackEvent("done", f"{called}{step}: {done}{against}{best}{fell}; {where}", data)
    known = ([each for each in other.values if each and each.value is not None] for other in found.checkpoints)
    among = sum(len(values) == len(found.objective) for values in known)
    if found.best and found.best_model == one.model and among > 1:
        text = f"{called}{step} is the best of {among} by {' and '.join(found.objective)}"
        yield FeedbackEvent("best", text, data)
    new = any(item.collapsed and (item.benchmark, item.kind) not in collapsed_before for item in found.items)
    if new:
        said = "; ".join(f"{name}: {why}" for name, why in collapsed.items())
        yield FeedbackEvent("collapsed", f"{called}{step} has collapsed: {said}", data)


async def note(work: NodeWork, watches: Watches, number: int, row: WatchedRow, events: Sequence[FeedbackEvent]) -> None:
    """Store that a feedback was written, with its events, unless the checkpoint was measured again meanwhile."""
    crash_point("feedback-before-commit")
    async with watches.changing:
        folder = watches.folders.get(number)
        current = folder.rows.get(row.id) if folder is not None else None
        if folder is None or current is None or current.finished != row.finished:
            return
        async with work.records.change() as change:
            await update_watched(change.db, row.id, feedback=row.finished)
            for event in events:
                data: dict[str, object] = {
                    "what": event.what, "watch": folder.row.called, "checkpoint": row.name, "model": row.model,
                    "step": row.step,
                } | dict(event.data)  # fmt: skip
                await change.note("feedback", session=row.session, text=event.text, data=data)
        folder.rows[row.id] = replace(current, feedback=row.finished)
