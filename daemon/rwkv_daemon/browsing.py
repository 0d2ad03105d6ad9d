"""Requests of whoever looks through samples: pages of them, the verdicts of all, the same row in other jobs."""

import asyncio
import json
from collections.abc import Sequence
from typing import Final

from rwkv_daemon import views
from rwkv_daemon.judging import answer_of
from rwkv_daemon.node import Node
from rwkv_daemon.operating import find_job
from rwkv_daemon.scores import asked_rows, effective_kind
from rwkv_daemon.second_names import is_same_work
from rwkv_daemon.store import JobRow, Row
from rwkv_daemon.store.browsing import Wanted, cut_off, doubted, outline_page, page, same, searched
from rwkv_daemon.store.judging import ToJudge
from rwkv_daemon.store.samples import CURSOR, stages_of
from rwkv_data.errors import DataError
from rwkvctl.protocol import messages as m
from rwkvctl.protocol.errors import Exit, RefusedError

MOST: Final = 1000
MOST_OUTLINED: Final = 50_000
MOST_SEARCHED: Final = 5_000
"""Samples whose texts are read for one request: a fraction of a second."""

SUBJECTS_KEPT: Final = 16


async def samples(node: Node, request: m.SamplesRequest) -> m.SamplesReply:
    """One page of samples."""
    job = await with_samples(node, request.job)
    limit = max(1, min(request.limit, MOST))
    wanted = Wanted(request.wrong, request.reason, request.cut, request.text, request.numbers[:MOST])
    rows = await page(
        node.store, job.id, job.grade_key, wanted, latest=request.latest, after=cursor(request.after), limit=limit
    )
    stages = [stage["name"] for stage in json.loads(job.configuration)["stages"]]
    more = len(rows) == limit and not request.latest
    return m.SamplesReply(
        items=await views.sample_views(node, job, rows, stages, tail=max(0, request.tail)),
        next=place_after(rows) if more else -1,
    )


async def with_samples(node: Node, name: str) -> JobRow:
    """A job by name. Raises RefusedError also for one whose work another job had done."""
    job = await find_job(node, name)
    if is_same_work(job):
        raise RefusedError(
            "same-work", f"{job.name} has no samples of its own: it {job.detail}.", exit_code=Exit.NOT_FOUND
        )
    return job


def cursor(after: int) -> int:
    """A cursor that the store can take."""
    return max(-1, min(after, 2**62))


def place_after(rows: Sequence[Row]) -> int:
    """The cursor of the page after these."""
    return int(rows[-1]["row"] * CURSOR + rows[-1]["repeat"])


async def outline(node: Node, request: m.OutlineRequest) -> m.OutlineReply:
    """The verdicts of samples, a page of them."""
    job = await with_samples(node, request.job)
    limit = max(1, min(request.limit, MOST_SEARCHED if request.text else MOST_OUTLINED))
    place = {"after": cursor(request.after), "limit": limit}
    if request.text:
        looked_at = await searched(node.store, job.id, job.grade_key, request.text, **place)
        rows = [row for row in looked_at if row["hit"]]
    else:
        rows = looked_at = await outline_page(node.store, job.id, job.grade_key, **place)
    subjects = await subjects_of(node, job) if request.subjects else ()
    return await outlined(node, job, rows, subjects, place_after(looked_at) if len(looked_at) == limit else -1)


async def outlined(node: Node, job: JobRow, rows: Sequence[Row], subjects: Sequence[str], after: int) -> m.OutlineReply:
    """Rows of the store as an outline."""
    reasons = list(dict.fromkeys(row["reason"] for row in rows))
    letters = {reason: chr(ord("a") + place) for place, reason in enumerate(reasons)}
    cut = await cut_off(node.store, job.id, rows[0]["row"], rows[-1]["row"]) if rows else set()
    doubts = await doubted(node.store, job.id, job.grade_key)
    names = sorted(set(subjects))
    places = {name: place for place, name in enumerate(names)}
    return m.OutlineReply(
        numbers=tuple(row["number"] for row in rows),
        rows=tuple(row["row"] for row in rows),
        repeats=tuple(row["repeat"] for row in rows),
        verdicts="".join(letters[row["reason"]] for row in rows),
        reasons=tuple(reasons),
        cut=tuple(row["number"] for row in rows if (row["row"], row["repeat"]) in cut) if cut else (),
        doubted=tuple(row["number"] for row in rows if row["number"] in doubts) if doubts else (),
        subjects=tuple(names),
        subject_of=tuple(places[subjects[row["row"]]] for row in rows) if subjects else (),
        next=after,
    )


async def subjects_of(node: Node, job: JobRow) -> Sequence[str]:
    """The subject of each row that a job asked, empty where there are none. Rows of a job never change, so they are
    read once."""
    kept = node.subjects
    if job.id not in kept:
        kept[job.id] = await asyncio.to_thread(read_subjects, node, job)
    found = kept[job.id]
    while len(kept) > SUBJECTS_KEPT:
        del kept[next(iter(kept))]
    return found


def read_subjects(node: Node, job: JobRow) -> Sequence[str]:
    """The same from the rows themselves."""
    try:
        by = effective_kind(node, job).group_by
        rows = asked_rows(node, job)[0] if by else None
    except DataError:
        return ()
    return tuple(str(row.get(by, "")) for row in rows or ())


async def same_elsewhere(node: Node, request: m.SameRequest) -> m.SameReply:
    """A job's sample in other jobs of its benchmark. Where their rows are others, the same number is the same question
    only if the same answer is expected."""
    job = await find_job(node, request.job)
    place = (max(0, min(request.row, 2**40)), max(0, min(request.repeat, CURSOR)))
    after = place[0] * CURSOR + place[1] - 1
    own = await page(node.store, job.id, job.grade_key, Wanted(), after=after, limit=1)
    if not own or (own[0]["row"], own[0]["repeat"]) != place:
        return m.SameReply(items=())
    expected = own[0]["expected"].split()
    found = await same(node.store, job.id, job.benchmark, place, max(1, min(request.limit, MOST)))
    return m.SameReply(items=tuple(map(same_view, (row for row in found if row["expected"].split() == expected))))


def same_view(row: Row) -> m.SameView:
    """One of them."""
    return m.SameView(
        job=f"j{row['id']}", model=row["model"], kind=row["kind"], version=row["version"], number=row["number"],
        value=row["value"], reason=row["reason"], extracted=row["extracted"], finished=row["finished"],
    )  # fmt: skip


async def exchange(node: Node, request: m.ExchangeRequest) -> m.ExchangeReply:
    """What the judge is asked about a sample. Raises RefusedError if the job has none of that number."""
    job = await find_job(node, request.job)
    numbers = (max(-1, min(request.number, 2**62)),)
    found = await page(node.store, job.id, job.grade_key, Wanted(numbers=numbers), after=-1, limit=1)
    if not found:
        text = f"{job.name} has no sample {request.number}."
        raise RefusedError("no-such-sample", text, f"`rwkvctl samples {job.name}` lists them.", Exit.NOT_FOUND)
    said = json.loads(found[0]["judge"])
    try:
        rule = effective_kind(node, job).grader.judge
        rows, problem = await asyncio.to_thread(asked_rows, node, job)
    except DataError as error:
        return m.ExchangeReply(said=said, problem=str(error))
    if rule is None or rows is None:
        return m.ExchangeReply(said=said, problem=problem or "no judge is asked about samples of this kind")
    sample = await to_judge(node, job, found[0])
    try:
        asked = rule.ask(rows[sample.row], sample.extracted, answer_of(sample))
    except (KeyError, TypeError, ValueError) as error:
        return m.ExchangeReply(rule=rule.name, said=said, problem=f"the rule cannot ask about this row: {error}")
    return m.ExchangeReply(rule=f"{rule.name} {rule.version}", asked=tuple(map(messages, asked)), said=said)


def messages(asked: Sequence[object]) -> tuple[dict[str, str], ...]:
    """The messages of one chat request."""
    return tuple({name: str(text) for name, text in message.items()} for message in asked if isinstance(message, dict))


async def to_judge(node: Node, job: JobRow, row: Row) -> ToJudge:
    """A sample as the judge is shown it."""
    place = (row["row"], row["repeat"])
    stages = (await stages_of(node.store, job.id, [place]))[place]
    texts, stops = tuple(s["text"] for s in stages), tuple(s["stop"] for s in stages if s["stop"])
    return ToJudge(row["number"], *place, row["extracted"] or "", row["expected"], texts, stops)
