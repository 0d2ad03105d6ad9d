"""The index that speeds up searching texts in large jobs; each is indexed in the background once it is done.

It only tells where a text cannot be; the remaining samples are read as without it, so the results are the same.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from rwkv_daemon.changes.records import Records
from rwkv_daemon.host.daemon_log import log
from rwkv_daemon.rules import ngram_filter
from rwkv_daemon.samples.long_reads import QuestionProgress
from rwkv_daemon.samples.paired_reading import pieces
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_daemon.store import JobRow, Store, StoreError, StoreRow
from rwkv_daemon.store.queries.comparing import GradedRun
from rwkv_daemon.store.queries.sample_pages import SampleWindow
from rwkv_daemon.store.queries.samples import CURSOR
from rwkv_daemon.store.queries.search_index import (  # fmt: skip
    IndexBlock,
    add_blocks,
    blocks,
    finish_index,
    forget_index,
    is_indexed,
    next_to_index,
    samples_of_rows,
    texts,
)
from rwkv_daemon.store.read_lanes import LaneReader, ReadLane, reading

LOOK_S: Final = 60.0
SAMPLES_READ: Final = 2_000
BLOCK_SAMPLES: Final = 64
BLOCK_CHARACTERS: Final = 64 * 1024
"""A block has at most BLOCK_SAMPLES samples and so much text, unless a single row has more."""

BLOCKS_READ: Final = 256
MOST_RANGES: Final = 200
REST: Final = 3
"""The pause after each page, as a multiple of its duration: it shares the interpreter with everything else."""

OURSELVES: Final = LaneReader(ReadLane.OWN, "the index")


async def index_forever(records: Records, waiting: WaitingJobs) -> None:
    """Index finished jobs, one after the other, until cancelled."""
    while True:
        try:
            job = None if waiting.disk_low else await next_to_index(records.store)
            if job is not None:
                await index(records, job)
                continue
        except StoreError as error:
            log.error("the index of texts has to wait: %s", error)
        await asyncio.sleep(LOOK_S)


async def index(records: Records, job: JobRow) -> None:
    """Index one job, in at most a quarter of the time, as nobody waits for it."""
    store, run, clock = records.store, GradedRun(job.id, job.grade_key), asyncio.get_running_loop().time

    async def read(after: int, upto: int) -> tuple[dict[int, int], list[tuple[int, str]]]:
        return await samples_of_rows(store, job.id, after, upto), await texts(store, run, after, upto)

    async with store.write() as db:
        await forget_index(db, job.id)
    with reading(OURSELVES):
        async for counts, found in pieces(store, [run], read, QuestionProgress(), SAMPLES_READ):
            began = clock()
            made = await asyncio.to_thread(blocks_of, counts, found)
            async with store.write() as db:
                await add_blocks(db, job.id, made)
            await asyncio.sleep(REST * (clock() - began))
    async with store.write() as db:
        if await finish_index(db, job):
            log.info("%s: its texts are indexed", job.name)


def blocks_of(counts: Mapping[int, int], found: Iterable[tuple[int, str]]) -> list[IndexBlock]:
    """Return the blocks of all these rows, from the number of samples of each and its texts."""
    by_row: dict[int, list[str]] = {row: [] for row in counts}
    for row, text in found:
        if row in by_row:
            by_row[row].append(text)
    made: list[IndexBlock] = []
    rows: list[int] = []
    samples = characters = 0
    for row, own in by_row.items():
        size = sum(map(len, own))
        if rows and (samples + counts[row] > BLOCK_SAMPLES or characters + size > BLOCK_CHARACTERS):
            made.append(block(rows, samples, by_row))
            rows, samples, characters = [], 0, 0
        rows.append(row)
        samples, characters = samples + counts[row], characters + size
    return [*made, block(rows, samples, by_row)] if rows else made


def block(rows: list[int], samples: int, by_row: Mapping[int, list[str]]) -> IndexBlock:
    """Return the index entry of consecutive rows: the first and the last row, their number of samples, and the n-gram
    filter of all their texts."""
    return IndexBlock(rows[0], rows[-1], samples, ngram_filter.bits_of(text for row in rows for text in by_row[row]))


class IndexedWindows:
    """The windows of a search: only rows that may contain the text."""

    def __init__(self, store: Store, job: int, pieces: tuple[int, ...]) -> None:
        self.store, self.job, self.pieces = store, job, pieces
        self.read: list[StoreRow] = []

    @classmethod
    async def of(cls, store: Store, job: JobRow, text: str) -> "IndexedWindows | None":
        """Return the windows; None if the index does not help."""
        wanted = ngram_filter.pieces_of(text)
        return cls(store, job.id, wanted) if wanted and await is_indexed(store, job) else None

    async def window(self, after: int, size: int, most: int) -> SampleWindow:
        """Return the next window with `size` samples to read, or up to `most` samples in all; the others do not contain
        the text."""
        row = (after + 1) // CURSOR
        known = [block for block in self.read if block["last"] >= row]
        if not known:
            self.read = known = await blocks(self.store, self.job, row, BLOCKS_READ)
        ranges: list[tuple[int, int]] = []
        count = wanted = 0
        upto = after
        for each in known:
            if count and (count >= most or wanted >= size or len(ranges) >= MOST_RANGES):
                break
            if ngram_filter.may_have(each["grams"], self.pieces):
                ranges.append((each["first"], each["last"]))
                wanted += each["samples"]
            count += each["samples"]
            upto = each["last"] * CURSOR + CURSOR - 1
        return SampleWindow(after, upto, count, upto if known else None, tuple(ranges))
