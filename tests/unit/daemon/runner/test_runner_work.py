"""What a runner has left to do, in what order it is sent, and how it is put into requests."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules import work_keys
from rwkv_daemon.runner import job_run
from rwkv_daemon.runner.ask import Asker, answer_of, same_row
from rwkv_daemon.runner.engine_client import EngineDiedError
from rwkv_daemon.runner.job_run import JobRun
from rwkv_daemon.runner.samples_file import SamplesFile
from rwkv_daemon.runner.work_left import SUSPECT_DEATHS, SampleQueues, SampleUnit, open_work
from rwkv_daemon.workers.run_directory import EngineEndpoint, JobSpec, Record, RunDir, SampleRecord, StageRecord
from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkvctl.protocol.engine import ContinuationScore, Generated, Sampling, Scored, Stops, Usage


def grade(_row: Row, answer: Answer) -> Grade:
    return Grade(1.0, answer.text, "", "right")


def ask(row: Row) -> str:
    return f"Q: {row['q']}\nA:"


def tail(row: Row) -> str:
    return f"\nSo {row['q']} ="


def letters(_row: Row) -> tuple[str, ...]:
    return " A", " B"


GRADER = Grader.of("g", "1", grade)
THINK = Stage(name="think", mode="generate", prompt=ask, sampling=Sampling(max_tokens=9), stops=Stops(tokens=("\n",)))
ANSWER = Stage(name="answer", mode="generate", prompt=tail)
CHOOSE = Stage(name="choose", mode="choose", prompt=tail, choices=letters)
ROWS: list[Row] = [{"q": "1+1"}, {"q": "2+2"}, {"q": "3+3"}]
SPEC = JobSpec(
    job=12, attempt=3, earlier=(), model="m", benchmark="b", kind="k", settings={}, seed=42, limit=None, repeats=2,
    data_dir="", rows_sha256="", generation_key="", grade_key="",
)  # fmt: skip


def asker(*stages: Stage) -> Asker:
    kind = Kind(name="k", profile="p", profile_version=1, stages=stages, grader=GRADER, repeats=2)
    return Asker(SPEC, kind, ROWS, open_work(len(ROWS), 2, len(stages), []))


def stage_record(row: int, repeat: int, stage: int, **more: Any) -> StageRecord:
    return StageRecord(row=row, repeat=repeat, stage=stage, **more)


def sample(row: int, repeat: int) -> SampleRecord:
    return SampleRecord(row=row, repeat=repeat, value=1.0, reason="right")


def every_unit(work: SampleQueues) -> list[SampleUnit]:
    return [*work.pending, *work.suspects, *work.ungraded]


# -- what is left


def test_a_fresh_job_has_every_sample_in_row_order() -> None:
    work = open_work(3, 2, 2, [])
    assert [(u.row, u.repeat, u.stage) for u in work.pending] == [(r, k, 0) for r in range(3) for k in range(2)]
    assert work.left == 6


def test_what_earlier_attempts_finished_is_not_asked_again() -> None:
    first = [stage_record(0, 0, 0, prompt_ids=(0, 7), ids=(8,)), stage_record(0, 0, 1), sample(0, 0)]
    second = [stage_record(0, 1, 0, ids=(9,)), stage_record(1, 0, 1), stage_record(1, 1, 0), stage_record(1, 1, 1)]
    work = open_work(2, 2, 2, first + second)
    assert [(u.row, u.repeat, u.stage) for u in work.pending] == [(0, 1, 1), (1, 0, 0)]
    assert [(u.row, u.repeat) for u in work.ungraded] == [(1, 1)]
    assert work.prompt_ids == {(0, 0): (0, 7)}
    assert work.left == 3


def test_the_first_of_two_records_of_one_stage_counts() -> None:
    """A stage that was stored twice (an answer that came late) keeps the completion the store has, too."""
    work = open_work(1, 1, 2, [stage_record(0, 0, 0, text="first"), stage_record(0, 0, 0, text="second")])
    assert [record.text for record in work.pending[0].stages] == ["first"]


def test_records_of_rows_beyond_a_limit_are_no_work() -> None:
    assert open_work(1, 1, 1, [sample(5, 0), stage_record(7, 3, 0)]).left == 1


PLACES = st.tuples(st.integers(0, 3), st.integers(0, 2))
RECORDS = st.one_of(
    st.builds(lambda p: sample(*p), PLACES),
    st.builds(lambda p, s, t: stage_record(p[0], p[1], s, text=t), PLACES, st.integers(0, 2), st.text(max_size=3)),
)


@given(st.lists(st.lists(RECORDS, max_size=20), max_size=3), st.integers(1, 3))
def test_nothing_is_lost_and_nothing_is_done_twice(attempts: list[list[Record]], stages: int) -> None:
    records = [record for attempt in attempts for record in attempt]
    work = open_work(4, 3, stages, records)
    graded = {(r.row, r.repeat) for r in records if isinstance(r, SampleRecord)}
    units = every_unit(work)
    places = Counter((u.row, u.repeat) for u in units)
    assert set(places) == {(r, k) for r in range(4) for k in range(3)} - graded
    assert all(count == 1 for count in places.values())
    assert work.left == len(units)
    for unit in units:
        assert [record.stage for record in unit.stages] == list(range(unit.stage))
        stored = {
            r.stage for r in records if isinstance(r, StageRecord) and (r.row, r.repeat) == (unit.row, unit.repeat)
        }
        assert unit.stage not in stored, "a stored stage is not asked again"
        assert (unit in work.ungraded) is (unit.stage >= stages)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=30), st.integers(1, 7))
def test_a_batch_holds_units_of_one_stage_and_never_a_suspect(drawn: list[tuple[int, int]], most: int) -> None:
    work = SampleQueues(stages=3)
    for number, (stage, deaths) in enumerate(drawn):
        work.add(SampleUnit(number, 0, [stage_record(number, 0, s) for s in range(stage)], deaths))
    taken: list[SampleUnit] = []
    while batch := work.take(most):
        assert len(batch) <= most
        assert len({unit.stage for unit in batch}) == 1
        taken += batch
    assert all(unit.deaths < SUSPECT_DEATHS for unit in taken)
    assert sorted(u.row for u in [*taken, *work.suspects]) == list(range(len(drawn)))
    began = [bool(unit.stage or unit.deaths) for unit in taken]
    assert began == sorted(began, reverse=True), "what has begun goes before what is fresh"


def kept_by(engine: str, row: int) -> SampleUnit:
    return SampleUnit(row, 0, [stage_record(row, 0, 0)], kept=(engine, f"item-{row}", 0))


def test_an_engine_gets_the_units_whose_state_it_keeps_then_fresh_ones_then_those_another_is_late_with() -> None:
    work = SampleQueues(stages=2)
    for unit in (SampleUnit(0, 0), kept_by("e1", 1), kept_by("e2", 2), kept_by("e1", 3)):
        work.add(unit)
    batches = [[unit.row for unit in work.take(64, "e2")] for _ in range(4)]
    assert batches == [[2], [0], [1, 3], []]


def test_a_unit_under_which_its_engine_died_goes_to_any_engine_before_fresh_ones() -> None:
    work = SampleQueues(stages=2)
    work.add(SampleUnit(0, 0))
    died = kept_by("e1", 1)
    died.deaths = 1
    work.add(died)
    assert [unit.row for unit in work.take(64, "e2")] == [1]


# -- suspects


ENGINE = EngineEndpoint(engine="e1", socket="/nowhere")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[JobRun]:
    kind = Kind(name="k", profile="p", profile_version=1, stages=(THINK,), grader=GRADER)
    with SamplesFile(tmp_path / "samples-3.jsonl") as samples:
        yield JobRun(SPEC, RunDir(tmp_path), kind, ROWS, SampleQueues(stages=1), samples, engines={ENGINE})


async def test_a_suspect_waits_until_nothing_is_in_flight_and_then_nothing_joins_it(run: JobRun) -> None:
    async def at_once() -> list[SampleUnit] | None:
        asked = asyncio.ensure_future(run.next_units(ENGINE))
        for _ in range(20):
            await asyncio.sleep(0)
        if asked.done():
            return asked.result()
        asked.cancel()
        return None

    run.work.add(SampleUnit(0, 0))
    others = await run.next_units(ENGINE)
    run.work.add(SampleUnit(1, 0, deaths=SUSPECT_DEATHS))
    run.work.add(SampleUnit(2, 0))
    assert await at_once() is None, "others are in flight"
    await run.give_back(batch_of(run, []))
    assert [unit.row for unit in others] == [0]
    assert [unit.row for unit in await run.next_units(ENGINE)] == [1]
    assert await at_once() is None, "the suspect is alone"
    await run.give_back(batch_of(run, []))
    assert [unit.row for unit in await run.next_units(ENGINE)] == [2]


async def test_an_engine_that_is_not_named_any_more_gets_no_further_batch(run: JobRun) -> None:
    run.work.add(SampleUnit(0, 0))
    run.engines = set()
    assert await run.next_units(ENGINE) == []
    assert run.in_flight == 0


def batch_of(run: JobRun, left: list[SampleUnit]) -> Any:
    """A request that is over, with the units it left unanswered."""
    batch = run.asker.batch([SampleUnit(0, 0)], "e1")
    batch.waiting = {(str(number), 0): unit for number, unit in enumerate(left)}
    return batch


async def test_a_unit_that_kills_three_engines_is_given_up_and_its_neighbours_are_not(run: JobRun) -> None:
    killer, neighbour = SampleUnit(0, 0), SampleUnit(1, 0)
    run.work.left = 2
    for units in ([killer, neighbour], [killer, neighbour]):
        batch = batch_of(run, units)
        run.count_deaths(batch, "gone")
        batch.waiting.clear()
    run.count_deaths(batch_of(run, [killer]), "gone")
    assert run.work.left == 1
    (line,) = (run.folder.path / "samples-3.jsonl").read_bytes().splitlines()
    record = json.loads(line)
    assert (record["row"], record["value"], record["reason"]) == (0, None, "error")
    run.work.add(neighbour)
    assert list(run.work.suspects) == [neighbour]


class BrokenRelay:
    """A client whose relay breaks off every time, as it does when the daemon is killed."""

    endpoint, died, asked = ENGINE, False, 0

    async def ask(self, _batch: Any) -> AsyncIterator[Generated]:
        self.asked += 1
        raise EngineDiedError("the answer ended early", answering=True)
        yield

    async def ended_from_outside(self) -> bool:
        return False


@pytest.mark.parametrize(("api", "deaths"), [("completions", 0), ("", SUSPECT_DEATHS + 1)])
async def test_a_relay_that_breaks_off_is_no_samples_fault(
    run: JobRun, monkeypatch: pytest.MonkeyPatch, api: str, deaths: int
) -> None:
    monkeypatch.setattr(job_run, "AWAY_S", 0.0)
    run.spec = msgspec.structs.replace(run.spec, api=api)
    unit, relay = SampleUnit(0, 0), BrokenRelay()
    run.work.add(unit)
    feeding = asyncio.ensure_future(run.feed(relay))
    while relay.asked < (SUSPECT_DEATHS + 1 if deaths else 9):
        await asyncio.sleep(0)
    run.engines = set()
    await run.notify()
    await feeding
    assert unit.deaths == deaths


# -- requests


def lines(batch: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in batch.body.split(b"\n")]


def test_fresh_repeats_of_a_row_share_an_item_and_each_has_its_own_key() -> None:
    units = [SampleUnit(0, 0), SampleUnit(0, 1), SampleUnit(1, 0)]
    batch = asker(THINK, ANSWER).batch(units, "e1")
    first, second = lines(batch)
    assert batch.route == "/v1/generate"
    assert (first["id"], first["n"], first["text"], first["keep"]) == ("12.3.0.0.0.0", 2, "Q: 1+1\nA:", True)
    assert first["keys"] == [work_keys.random_key(42, 0, 0, 0), work_keys.random_key(42, 0, 1, 0)]
    assert second.get("n", 1) == 1
    assert second["keys"] == [work_keys.random_key(42, 1, 0, 0)]
    assert (first["sampling"], first["stops"], first["group"]) == ({"max_tokens": 9}, {"tokens": ["\n"]}, "j12")
    assert batch.waiting == {(first["id"], 0): units[0], (first["id"], 1): units[1], (second["id"], 0): units[2]}


def test_a_unit_that_saw_a_death_gets_an_item_and_an_id_of_its_own() -> None:
    units = [SampleUnit(0, 0), SampleUnit(0, 1, deaths=1), SampleUnit(0, 2)]
    assert [[u.repeat for u in group] for group in same_row(units)] == [[0], [1, 2]]
    ask_again = asker(THINK)
    assert ask_again.name(SampleUnit(0, 1, deaths=1)) != ask_again.name(SampleUnit(0, 1))


def second_stage(row: int, repeat: int, engine: str) -> SampleUnit:
    return SampleUnit(row, repeat, [stage_record(row, repeat, 0, ids=(8, 9))], kept=(engine, "12.3.0.0.0.0", repeat))


def test_a_later_stage_goes_on_where_the_engine_is_and_sends_ids_to_another() -> None:
    builder = asker(THINK, ANSWER)
    builder.work.prompt_ids[0, 0] = (0, 5)
    same, other = lines(builder.batch([second_stage(0, 0, "e1"), second_stage(0, 1, "e2")], "e1"))
    assert same["continue_from"] == {"id": "12.3.0.0.0.0", "index": 0, "tail": "\nSo 1+1 ="}
    assert not same.keys() & {"ids", "text", "tail"}
    assert (other["ids"], other["tail"]) == ([0, 5, 8, 9], "\nSo 1+1 =")
    assert not other.keys() & {"continue_from", "text"}
    assert (same["keys"], other["keys"]) == ([work_keys.random_key(42, 0, 0, 1)], [work_keys.random_key(42, 0, 1, 1)])
    assert not same.get("keep")


def test_repeats_of_a_later_stage_never_share_an_item() -> None:
    builder = asker(THINK, ANSWER)
    assert len(lines(builder.batch([second_stage(0, k, "e1") for k in range(3)], "e1"))) == 3


def test_choices_are_scored() -> None:
    builder = asker(THINK, CHOOSE)
    builder.work.prompt_ids[0, 0] = (0, 5)
    batch = builder.batch([second_stage(0, 0, "e1"), second_stage(0, 1, "e2")], "e1")
    same, other = lines(batch)
    assert batch.route == "/v1/score"
    assert same["continuations"] == other["continuations"] == [" A", " B"]
    assert same["continue_from"]["tail"] == other["tail"] == "\nSo 1+1 ="
    assert other["context_ids"] == [0, 5, 8, 9]
    assert set(batch.waiting) == {(same["id"], 0), (other["id"], 0)}


# -- answers


def test_a_prompt_and_its_ids_are_written_once_for_each_row_and_stage() -> None:
    builder = asker(THINK, ANSWER)
    answer = Generated(id="x", ids=(8,), text="t", stop="stop_token", usage=Usage(prompt=3), prompt_ids=(0, 5))
    first, second = (builder.stage_record(SampleUnit(0, repeat), answer, "e1", 0.0) for repeat in range(2))
    assert (first.prompt, first.prompt_ids, first.prompt_tokens) == ("Q: 1+1\nA:", (0, 5), 3)
    assert (second.prompt, second.prompt_ids) == (None, ())
    later = builder.stage_record(second_stage(0, 0, "e1"), answer, "e1", 0.0)
    assert (later.prompt, later.prompt_ids) == ("\nSo 1+1 =", ())
    assert builder.work.prompt_ids == {(0, 0): (0, 5)}


def test_the_likeliest_choice_is_recorded_and_graded() -> None:
    builder = asker(CHOOSE)
    scores = tuple(ContinuationScore(logprob=value, tokens=1, greedy=False) for value in (-3.0, -1.0))
    record = builder.stage_record(SampleUnit(0, 0), Scored(id="x", scores=scores), "e1", 0.0)
    assert (record.choice, record.text, record.logprobs, record.ids) == (1, " B", (-3.0, -1.0), ())
    unit = SampleUnit(0, 0, [stage_record(0, 0, 0, stop="length", text="long"), record])
    assert answer_of(unit).logprobs == record.logprobs
    assert (answer_of(unit).text, answer_of(unit).stops) == (" B", ("length",))


def test_over_a_chat_api_the_prompt_that_was_sent_is_kept() -> None:
    said = replace(THINK, user=lambda row: f"What is {row['q']}?")
    spec = msgspec.structs.replace(SPEC, api="chat")
    one = Asker(spec, replace(asker(said).kind, stages=(said,)), ROWS, open_work(len(ROWS), 2, 1, []))
    unit = one.work.pending[0]
    item = one.chat_item([unit])
    record = one.stage_record(unit, Generated(id=item.id, index=0, text="2", stop="stop_token"), "endpoint:qwq", 0.0)
    assert [turn.content for turn in item.messages] == [record.prompt] == ["What is 1+1?"]
