"""Looking through the samples of a job: filters, outlines, searches, and the same row elsewhere, on both databases."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.api import router
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.node import Node
from rwkv_daemon.store import NewJob, Store
from rwkv_daemon.store.queries.jobs import add_attempt, add_jobs, add_session
from rwkv_daemon.store.queries.samples import ingest
from rwkv_daemon.store.queries.verdicts import add_finding
from rwkv_daemon.workers.run_directory import SampleRecord, StageRecord
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.replies import ExchangeReply, OutlineReply, SameReply, SamplesReply
from rwkvctl.protocol.requests import ExchangeRequest, OutlineRequest, SameRequest, SamplesRequest
from rwkvctl.settings import config

JOB = NewJob(
    model="m", weights_path="/w/m.pth", weights_sha256="a", benchmark="gsm8k", kind="free_response", state="done",
    reason="", detail="", priority=0, generation_key="g", grade_key="h", settings="{}", grader="number",
    grader_version="1", configuration='{"stages": [{"name": "answer"}]}', grading="{}", benchmark_version=1,
    rows_sha256="r", seed=42, row_limit=None, numerics="fp32", repeats=1, stages=1, total=6, run_log_dir="",
)  # fmt: skip
REASONS = ("right", "wrong", "no_answer", "wrong", "right", "unjudged")


def records(reasons: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    for row, reason in enumerate(reasons):
        stop = "length" if reason == "no_answer" else "stop_token"
        text, prompt = f"It is {row}%.", f"User: Question {row}?"
        found.append(StageRecord(row=row, repeat=0, stage=0, text=text, prompt=prompt, stop=stop, seconds=0.5))
        value = None if reason == "unjudged" else float(reason == "right")
        found.append(
            SampleRecord(row=row, repeat=0, value=value, reason=reason, expected=f"A{row}", extracted=str(row))
        )
    return found


@pytest.fixture
async def node(store: Store, tmp_path: Path) -> Node:
    """Two jobs of one benchmark and one of another, and a sample that the checker doubts."""
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/"})
    jobs = [JOB, replace(JOB, model="n"), replace(JOB, benchmark="mmlu")]
    async with store.write() as db:
        await add_session(db, "s", "{}", "host", ("0", "c"))
        for number in await add_jobs(db, "s", jobs):
            await add_attempt(db, number, 1, f"uuid-{number}")
            await ingest(db, number, 1, "h", records(REASONS if number == 1 else REASONS[::-1]), 1)
        await add_finding(db, 1, "h", 2, needs_review=True, finding={"answer_correct": True})
    return Node.of(settings, store, NodeBenchmarks(settings.data_dir))


async def rows_of(node: Node, **wanted: Any) -> list[int]:
    reply = await router.answer(node, SamplesRequest(job="j1", **wanted))
    assert isinstance(reply, SamplesReply)
    return [item.row for item in reply.items]


async def test_samples_are_filtered(node: Node) -> None:
    assert await rows_of(node) == [0, 1, 2, 3, 4, 5]
    assert await rows_of(node, wrong=True) == [1, 2, 3, 5]
    assert await rows_of(node, reason="right") == [0, 4]
    assert await rows_of(node, cut=True) == [2]
    assert await rows_of(node, numbers=(4, 1, 99)) == [0, 3]
    assert await rows_of(node, reason="wrong", numbers=(1, 2)) == [1]


@pytest.mark.parametrize(
    ("text", "rows"),
    [("question 3", [3]), ("IS 4", [4]), ("a5", [5]), ("2%", [2]), ("_", []), ("!", []), ("it is", [0, 1, 2, 3, 4, 5])],
)
async def test_texts_are_found_in_any_case(node: Node, text: str, rows: list[int]) -> None:
    assert await rows_of(node, text=text) == rows
    reply = await router.answer(node, OutlineRequest(job="j1", text=text))
    assert isinstance(reply, OutlineReply)
    assert list(reply.rows) == rows


async def test_a_page_for_a_list_has_the_ends_of_texts(node: Node) -> None:
    reply = await router.answer(node, SamplesRequest(job="j1", tail=3, limit=1))
    assert isinstance(reply, SamplesReply)
    stage = reply.items[0].stages[0]
    assert (stage.prompt, stage.completion, stage.seconds) == (" 0?", "0%.", 0.5)


async def test_an_outline_says_every_verdict(node: Node) -> None:
    reply = await router.answer(node, OutlineRequest(job="j1"))
    assert isinstance(reply, OutlineReply)
    assert [reply.reasons[ord(letter) - ord("a")] for letter in reply.verdicts] == list(REASONS)
    assert (reply.numbers, reply.rows, set(reply.repeats)) == ((1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4, 5), {0})
    assert (reply.cut, reply.doubted, reply.subjects, reply.next) == ((3,), (2,), (), -1)


async def test_an_outline_comes_in_pages(node: Node) -> None:
    found: list[int] = []
    after = -1
    for _ in range(3):
        reply = await router.answer(node, OutlineRequest(job="j1", after=after, limit=2, text="is"))
        assert isinstance(reply, OutlineReply)
        found += reply.rows
        after = reply.next
    assert (found, after) == ([0, 1, 2, 3, 4, 5], 5 * 2**20)


async def test_a_search_that_finds_nothing_in_a_page_goes_on(node: Node) -> None:
    reply = await router.answer(node, OutlineRequest(job="j1", limit=4, text="question 5"))
    assert isinstance(reply, OutlineReply)
    assert (reply.rows, reply.next) == ((), 3 * 2**20)


async def test_the_same_row_of_the_same_benchmark(node: Node) -> None:
    reply = await router.answer(node, SameRequest(job="j1", row=2))
    assert isinstance(reply, SameReply)
    assert [(item.job, item.model, item.number, item.reason) for item in reply.items] == [("j2", "n", 9, "wrong")]
    nothing = await router.answer(node, SameRequest(job="j1", row=77))
    assert isinstance(nothing, SameReply)
    assert nothing.items == ()


async def test_an_exchange_without_a_judge_says_so(node: Node) -> None:
    reply = await router.answer(node, ExchangeRequest(job="j1", number=1))
    assert isinstance(reply, ExchangeReply)
    assert reply.problem
    with pytest.raises(RefusedError, match="has no sample 7"):
        await router.answer(node, ExchangeRequest(job="j1", number=7))
