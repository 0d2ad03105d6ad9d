"""Answers about samples: pages of them, the verdicts of all, the same row in other jobs."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from rwkv_daemon.api import state_views
from rwkv_daemon.api.request_state import RequestState
from rwkv_daemon.api.requests.job_control import find_job
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.catalogue.second_names import is_same_work
from rwkv_daemon.changes.records import Records
from rwkv_daemon.jobs.judge_jobs import answer_of
from rwkv_daemon.jobs.row_names import row_names, row_subjects
from rwkv_daemon.jobs.score_writer import asked_rows, effective_kind
from rwkv_daemon.rules.comparability import row_numbering
from rwkv_daemon.rules.page_size import MOST_ON_A_PAGE, page_size
from rwkv_daemon.samples.text_index import IndexedWindows
from rwkv_daemon.samples.window_search import SearchPage, Windows, search_windows
from rwkv_daemon.store import JobRow, StoreRow
from rwkv_daemon.store.queries.sample_pages import (  # fmt: skip
    SampleFilter,
    cut_off,
    doubted,
    newest,
    newest_of,
    outline_page,
    page,
    page_of,
    same,
    searched,
    window,
    window_of_newest,
)
from rwkv_daemon.store.queries.samples import CURSOR, stages_of
from rwkv_daemon.store.queries.verdicts import ToJudge
from rwkv_data.definition.errors import DataError
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import ExchangeReply, OutlineReply, SameReply, SamplesReply
from rwkvctl.protocol.requests import ExchangeRequest, OutlineRequest, SameRequest, SamplesRequest
from rwkvctl.protocol.views import SameView, SampleView

MOST_OUTLINED: Final = 20_000
MOST_SEARCHED: Final = 1_000_000
"""Samples that one request may search for a text; its time limit usually ends it sooner."""

BATCH: Final = 50
MOST_CHARACTERS: Final = 8_000_000
"""Samples whose texts are read at once (BATCH), and characters of one reply; a page with more text is shorter."""

SUBJECTS_KEPT: Final = 16
NAMES_KEPT: Final = 4


async def samples(
    records: Records, catalogue: NodeCatalogue, request_state: RequestState, request: SamplesRequest
) -> SamplesReply:
    """Answer `GET /v1/jobs/{job}/samples`: a page of graded samples with their texts. It holds fewer than `limit` where
    the texts are long or the search is not finished (`looking`)."""
    job = await with_samples(records, request.job)
    limit = page_size(request.limit)
    wanted = SampleFilter(request.wrong, request.reason, request.cut, request.text, request.numbers[:MOST_ON_A_PAGE])
    found = await found_samples(records, job, wanted, latest=request.latest, after=cursor(request.after), limit=limit)
    items = await views_of(records, job, found.rows, tail=max(0, request.tail))
    if items:
        items = with_names(items, await names_of(records, catalogue, request_state, job))
    if len(items) < len(found.rows):
        found = replace(found, next=place_of(found.rows[len(items) - 1], latest=request.latest), looking=False)
    following = -1 if found.next is None else found.next
    return SamplesReply(items=items, next=following, looked=found.looked, looking=found.looking)


async def names_of(
    records: Records, catalogue: NodeCatalogue, request_state: RequestState, job: JobRow
) -> Sequence[str]:
    """Return what each row that a job asked is called. Read once for some jobs, as rows of a job never change."""
    return await read_once(request_state.row_names, NAMES_KEPT, job, partial(row_names, records, catalogue, job))


async def read_once(
    kept: dict[int, Sequence[str]], most: int, job: JobRow, read: Callable[[], Sequence[str]]
) -> Sequence[str]:
    """Return what `read` finds for a job, run in a thread, or what is kept of it; `most` jobs are kept, the latest."""
    if job.id not in kept:
        kept[job.id] = await asyncio.to_thread(read)
    found = kept[job.id]
    while len(kept) > most:
        del kept[next(iter(kept))]
    return found


def with_names(items: Sequence[SampleView], names: Sequence[str]) -> tuple[SampleView, ...]:
    """Return samples with the names of their rows, where these are known."""
    known = (names[item.row] if item.row < len(names) else "" for item in items)
    return tuple(msgspec.structs.replace(item, row_id=name) for item, name in zip(items, known, strict=True))


async def found_samples(
    records: Records, job: JobRow, wanted: SampleFilter, *, latest: bool, after: int, limit: int
) -> SearchPage:
    """Return the samples of a page. With a filter, any number of samples may have to be read for it."""
    asked = (records.store, job.id, job.grade_key, wanted)
    if wanted.sql and not wanted.numbers:
        ask = newest_of if latest else page_of
        windows = await windows_of(records, job, wanted.text, latest=latest)
        found = await search_windows(after, windows, partial(ask, *asked), enough=limit)
        if len(found.rows) == limit:
            found.next = place_of(found.rows[-1], latest=latest)
        return found
    if latest:
        rows = await newest(*asked, before=after, limit=limit)
    else:
        rows = await page(*asked, after=after, limit=limit)
    return SearchPage(rows, place_of(rows[-1], latest=latest) if len(rows) == limit else None)


async def windows_of(records: Records, job: JobRow, text: str, *, latest: bool = False) -> Windows:
    """Return the windows in which a text is searched; if the job's texts are indexed, only those that may contain
    it."""
    if latest:
        return partial(window_of_newest, records.store, job.id)
    indexed = await IndexedWindows.of(records.store, job, text) if text else None
    return indexed.window if indexed else partial(window, records.store, job.id)


async def views_of(records: Records, job: JobRow, rows: Sequence[StoreRow], *, tail: int) -> tuple[SampleView, ...]:
    """Return samples with their texts, fewer if the texts are long."""
    stages = [stage["name"] for stage in json.loads(job.configuration)["stages"]]
    items: list[SampleView] = []
    characters = 0
    for start in range(0, len(rows), BATCH):
        if characters > MOST_CHARACTERS:
            break
        batch = await state_views.sample_views(records, job, rows[start : start + BATCH], stages, tail=tail)
        characters += sum(len(stage.prompt) + len(stage.completion) for item in batch for stage in item.stages)
        items += batch
    return tuple(items)


async def with_samples(records: Records, name: str) -> JobRow:
    """Return a job by name. Raises RefusedError if there is none, or if its score is another job's."""
    job = await find_job(records, name)
    if is_same_work(job):
        raise RefusedError(
            "same-work", f"{job.name} has no samples of its own: it {job.detail}.", exit_code=Exit.NOT_FOUND
        )
    return job


def cursor(after: int) -> int:
    """Return a cursor within the range that the store accepts."""
    return max(-1, min(after, 2**62))


def place_of(row: StoreRow, *, latest: bool = False) -> int:
    """Return the cursor of the page after a sample."""
    return int(row["number"] if latest else row["row"] * CURSOR + row["repeat"])


async def outline(
    records: Records, catalogue: NodeCatalogue, request_state: RequestState, request: OutlineRequest
) -> OutlineReply:
    """Answer `GET /v1/jobs/{job}/outline`: the verdicts of a page of samples, without their texts."""
    job = await with_samples(records, request.job)
    limit, after = max(1, request.limit), cursor(request.after)
    if request.text:
        asked = partial(searched, records.store, job.id, job.grade_key, request.text)
        windows, most = await windows_of(records, job, request.text), min(limit, MOST_SEARCHED)
        found = await search_windows(after, windows, asked, enough=MOST_OUTLINED, most=most)
        if len(found.rows) == MOST_OUTLINED:
            found.next = place_of(found.rows[-1])
    else:
        limit = min(limit, MOST_OUTLINED)
        rows = await outline_page(records.store, job.id, job.grade_key, after=after, limit=limit)
        found = SearchPage(rows, place_of(rows[-1]) if len(rows) == limit else None, len(rows))
    subjects = await subjects_of(records, catalogue, request_state, job) if request.subjects else ()
    return await outlined(records, job, found, subjects)


async def outlined(records: Records, job: JobRow, found: SearchPage, subjects: Sequence[str]) -> OutlineReply:
    """Return samples of the store as an outline."""
    cut, doubts, rows = set[tuple[int, int]](), set[int](), found.rows
    if rows:
        numbers = [row["number"] for row in rows]
        cut = await cut_off(records.store, job.id, rows[0]["row"], rows[-1]["row"])
        doubts = await doubted(records.store, job.id, job.grade_key, min(numbers), max(numbers))
    return await asyncio.to_thread(outline_of, found, cut, doubts, subjects)


def outline_of(found: SearchPage, cut: set[tuple[int, int]], doubts: set[int], subjects: Sequence[str]) -> OutlineReply:
    """Return the outline of the samples found: `cut` holds (row, repeat) of those truncated at the token limit,
    `doubts` the numbers of those to review, `subjects` the subject of each row."""
    rows = found.rows
    reasons = list(dict.fromkeys(row["reason"] for row in rows))
    letters = {reason: chr(ord("a") + place) for place, reason in enumerate(reasons)}
    names = sorted(set(subjects))
    places = {name: place for place, name in enumerate(names)}
    return OutlineReply(
        numbers=tuple(row["number"] for row in rows),
        rows=tuple(row["row"] for row in rows),
        repeats=tuple(row["repeat"] for row in rows),
        verdicts="".join(letters[row["reason"]] for row in rows),
        reasons=tuple(reasons),
        cut=tuple(row["number"] for row in rows if (row["row"], row["repeat"]) in cut) if cut else (),
        doubted=tuple(row["number"] for row in rows if row["number"] in doubts) if doubts else (),
        subjects=tuple(names),
        subject_of=tuple(places[subjects[row["row"]]] for row in rows) if subjects else (),
        next=-1 if found.next is None else found.next,
        looked=found.looked,
        looking=found.looking,
    )


async def subjects_of(
    records: Records, catalogue: NodeCatalogue, request_state: RequestState, job: JobRow
) -> Sequence[str]:
    """Return the subject of each row that a job asked, empty if the benchmark has none. Read once per job, as rows of a
    job never change."""
    return await read_once(request_state.subjects, SUBJECTS_KEPT, job, partial(row_subjects, records, catalogue, job))


async def same_elsewhere(records: Records, request: SameRequest) -> SameReply:
    """Answer `GET /v1/jobs/{job}/same`: a sample of a job as other jobs of its benchmark have it, if they number its
    rows alike. Where their rows differ, the same row number counts as the same question only if the same answer is
    expected; but a rewriting has its original beside it also if it could not be graded."""
    job = await find_job(records, request.job)
    place = (max(0, min(request.row, 2**40)), max(0, min(request.repeat, CURSOR)))
    after = place[0] * CURSOR + place[1] - 1
    own = await page(records.store, job.id, job.grade_key, SampleFilter(), after=after, limit=1)
    if not own or (own[0]["row"], own[0]["repeat"]) != place:
        return SameReply(items=())
    expected = own[0]["expected"].split()
    original = 0 if job.has_variants else job.source_job or 0  # the repeats of variants are other ones
    found = await same(records.store, job.id, job.benchmark, place, first=original, limit=page_size(request.limit))
    numbering = row_numbering(json.loads(job.configuration))
    alike = (row for row in found if row_numbering(json.loads(row["configuration"])) == numbering)
    items = (row for row in alike if row["expected"].split() == expected or row["id"] == original)
    return SameReply(items=tuple(same_view(row, original=row["id"] == original) for row in items))


def same_view(row: StoreRow, *, original: bool) -> SameView:
    """Return a sample of another job as `GET /v1/jobs/{job}/same` shows it."""
    return SameView(
        job=f"j{row['id']}", model=row["model"], kind=row["kind"], version=row["version"], number=row["number"],
        value=row["value"], reason=row["reason"], extracted=row["extracted"], finished=row["finished"],
        original=original,
    )  # fmt: skip


async def exchange(records: Records, catalogue: NodeCatalogue, request: ExchangeRequest) -> ExchangeReply:
    """Answer `GET /v1/jobs/{job}/exchange`: what the judge is asked about a sample. Raises RefusedError if the job has
    no such sample."""
    job = await find_job(records, request.job)
    numbers = (max(-1, min(request.number, 2**62)),)
    found = await page(records.store, job.id, job.grade_key, SampleFilter(numbers=numbers), after=-1, limit=1)
    if not found:
        text = f"{job.name} has no sample {request.number}."
        raise RefusedError("no-such-sample", text, f"`rwkvctl samples {job.name}` lists them.", Exit.NOT_FOUND)
    said = json.loads(found[0]["judge"])
    try:
        rule = effective_kind(catalogue, job).grader.judge
        rows, problem = await asyncio.to_thread(asked_rows, records, catalogue, job)
    except DataError as error:
        return ExchangeReply(said=said, problem=str(error))
    if rule is None or rows is None:
        return ExchangeReply(said=said, problem=problem or "no judge is asked about samples of this kind")
    sample = await to_judge(records, job, found[0])
    try:
        asked = rule.ask(rows[sample.row], sample.extracted, answer_of(sample))
    except (KeyError, TypeError, ValueError) as error:
        return ExchangeReply(rule=rule.name, said=said, problem=f"the rule cannot ask about this row: {error}")
    return ExchangeReply(rule=f"{rule.name} {rule.version}", asked=tuple(map(messages, asked)), said=said)


def messages(asked: Sequence[object]) -> tuple[dict[str, str], ...]:
    """Return the messages of one chat request as text, without items that are not messages."""
    return tuple({name: str(text) for name, text in message.items()} for message in asked if isinstance(message, dict))


async def to_judge(records: Records, job: JobRow, row: StoreRow) -> ToJudge:
    """Return a stored sample with its texts, in the form from which the judge's request is made."""
    place = (row["row"], row["repeat"])
    stages = (await stages_of(records.store, job.id, [place]))[place]
    texts, stops = tuple(s["text"] for s in stages), tuple(s["stop"] for s in stages if s["stop"])
    return ToJudge(row["number"], *place, row["extracted"] or "", row["expected"], texts, stops)
