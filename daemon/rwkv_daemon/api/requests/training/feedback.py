"""Answers about the feedback on a checkpoint of a watched folder."""

from functools import partial

import msgspec

from rwkv_daemon.api.requests.training.watches import find, is_meant, no_such_checkpoint
from rwkv_daemon.node import Node
from rwkv_daemon.rules.plan import SelectionError
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.store import WatchedRow
from rwkv_daemon.store.wall_time import now
from rwkv_daemon.training import watch_task
from rwkv_daemon.training.feedback.compose import FeedbackQuestion, FeedbackSources, feedback
from rwkv_daemon.training.feedback.page import page, step_in_words
from rwkv_daemon.training.feedback_task import in_order, question
from rwkv_daemon.training.folders.watched_folder import WatchedFolder, watched_view
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.training.feedback import FeedbackReply, FeedbackRequest, FeedbackReveal


async def show(node: Node, request: FeedbackRequest) -> FeedbackReply:
    """Answer `GET /v1/watches/{watch}/feedback`, or say how far it is. Raises RefusedError if no such checkpoint is
    measured."""
    folder, asked = await asked_of(node, request, reveal=False)
    found = await node.comparisons.questions.answer(("feedback", request), partial(feedback, sources_of(node), asked))
    if isinstance(found, QuestionProgress):
        target = watched_view(asked.rows[asked.target])
        return FeedbackReply(watch=folder.row.called, name=folder.row.name, checkpoint=target, looking=found.sentence)
    return with_page(node, found, wanted=request.page)


async def reveal(node: Node, request: FeedbackReveal) -> FeedbackReply:
    """Answer `POST /v1/watches/reveal`. Raises RefusedError if nothing is held back."""
    folder, asked = await asked_of(node, request, reveal=True)
    if asked.part != "report":
        text = f"No rows of {folder.row.called} are held back: its feedback is of all rows."
        raise RefusedError("nothing-held-back", text, "A suite with hold_back = true holds some back.", Exit.REFUSED)
    found = await node.comparisons.questions.answer(
        ("reveal", request), partial(feedback, sources_of(node), asked), patient=True
    )
    assert isinstance(found, FeedbackReply)
    return with_page(node, found, wanted=request.page)


def sources_of(node: Node) -> FeedbackSources:
    return FeedbackSources(node.records, node.catalogue, node.comparisons)


def with_page(node: Node, found: FeedbackReply, *, wanted: bool) -> FeedbackReply:
    """Return a feedback with its time, and with the lines of its page."""
    found = msgspec.structs.replace(found, as_of=now(), node=node.records.hostname)
    lines = page(found).removesuffix("\n").split("\n") if wanted else ()
    return msgspec.structs.replace(found, page=tuple(lines))


async def asked_of(node: Node, request: FeedbackRequest, *, reveal: bool) -> tuple[WatchedFolder, FeedbackQuestion]:
    """Return the watch, and what is asked about it. Raises RefusedError."""
    folder = find(await watch_task.known(node.records, node.catalogue, node.watches), request.watch)
    rows = in_order(folder)
    target = place_of(folder, rows, request)
    try:
        return folder, question(sources_of(node), folder, rows, target, best=request.best, reveal=reveal)
    except SelectionError as error:
        suite, called = folder.selection.suite, folder.row.called
        text = f"Whether rows of {called} are held back cannot be told: benchmarks.toml has no suite {suite} any more."
        hint = f"Put [suites.{suite}] back, then `rwkvctl reload`."
        raise RefusedError("no-such-suite", text, hint, Exit.REFUSED) from error


def place_of(folder: WatchedFolder, rows: list[WatchedRow], request: FeedbackRequest) -> int:
    """Return the place of the checkpoint that is meant: without a name or a step, the newest whose jobs are over, else
    the newest. Raises RefusedError if it is not measured."""
    called, named = folder.row.called, bool(request.checkpoint or request.step >= 0)
    if bool(request.checkpoint) + (request.step >= 0) + request.best > 1:
        raise RefusedError("bad-request", "Name a checkpoint, or a step, or the best one.", "", Exit.USAGE)
    meant = [row for row in folder.rows.values() if is_meant(folder, row, request)]
    if not meant and named:
        raise no_such_checkpoint(called, request.checkpoint or f"of {step_in_words(request.step)}")
    numbers = {row.id for row in meant}
    measured = [place for place, row in enumerate(rows) if row.id in numbers]
    if not measured and named:
        row = max(meant, key=lambda one: one.id)
        why = f": {row.reason}" if row.reason else ""
        said = f"{row.name} is {row.state}{why}".rstrip(".")
        raise RefusedError("not-measured", said + "." * (said[-1] != "?"), "", Exit.NOT_FOUND)
    if not measured:
        hint = f"`rwkvctl watch show {called}` says what became of each."
        raise RefusedError("not-measured", f"No checkpoint of {called} is measured yet.", hint, Exit.NOT_FOUND)
    over = [place for place in measured if rows[place].state != "dispatched"]
    return max(measured, key=lambda place: rows[place].id) if named else max(over or measured)
