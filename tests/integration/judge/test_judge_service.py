"""The judge service with a real server on loopback, which behaves well or badly."""

import asyncio
import dataclasses
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from reply_caches import FileCache, MemoryCache
from waiting import LIMIT_S

from rwkv_daemon.judge.calibration import calibrate
from rwkv_daemon.judge.judge_service import JudgeTask
from rwkv_daemon.remote.limits import MinuteWindow
from rwkv_data.definition.answer import Answer
from rwkv_data.judges import RULES
from rwkv_data.judges.calibration import ROWS, rows_for
from rwkv_data.judges.checker import CHECKER, FLAGS, CheckerResult

KEYS = ("sk-first-key-0123456789abcd", "sk-second-key-0123456789efgh", "sk-third-key-0123456789ijkl")


@pytest.fixture
def keys_file(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    path.write_text("\n".join(KEYS) + "\n")
    path.chmod(0o600)
    return str(path)


async def test_right_answers_are_judged_and_counted(kit: Any, judge: Any) -> None:
    prices = kit.endpoint(judge, prompt_price=2.0, completion_price=10.0)
    async with kit.judging(prices) as running:
        outcomes = await running.judge(20)
        stats = running.service.stats()
    assert [outcome.status for outcome in outcomes] == ["judged"] * 20
    assert {outcome.value for outcome in outcomes} == {1.0}
    assert outcomes[0].replies == ("True",)
    assert outcomes[0].model == "fake-judge-1"
    assert outcomes[0].usage.cost == pytest.approx((100 * 2 + 10 * 10) / 1e6)
    assert (stats.usage.prompt_tokens, stats.usage.completion_tokens) == (2000, 200)
    assert stats.usage.cost == pytest.approx(20 * 300 / 1e6)
    assert stats.endpoints[0].counts == {"ok": 20}
    assert (stats.jobs[0].judged, stats.jobs[0].unjudged, stats.queue, stats.in_flight) == (20, 0, 0, 0)
    assert len(judge.asked) == 20
    assert judge.asked[0].document["model"] == "fake"
    assert judge.asked[0].document["temperature"] == 0.0


async def test_a_false_is_a_wrong_answer_and_garbage_is_none(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("False" if "What is 0 +" in asked.prompt else "I cannot say.")
    async with kit.judging(kit.endpoint(judge)) as running:
        wrong, garbage = await running.judge(2)
    assert (wrong.status, wrong.value) == ("judged", 0.0)
    assert (garbage.status, garbage.value, len(garbage.replies)) == ("invalid", None, 3)


async def test_an_unreadable_reply_is_asked_for_again(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("hm" if asked.number < 2 else "**False**.", finish="length")
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1)
    assert (outcome.status, outcome.value, outcome.asked) == ("judged", 0.0, 3)
    assert [asked.document["max_tokens"] for asked in judge.asked] == [1024, 2048, 2048]
    assert [asked.document["temperature"] for asked in judge.asked] == [0.0, 0.3, 0.3]


async def test_retry_after_holds_the_key_back(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: (
        kit.Do("slow down", 429, {"retry-after": "10"}) if asked.number == 0 else kit.Do("True")
    )
    async with kit.judging(kit.endpoint(judge, concurrency=1), speed=20.0) as running:
        outcomes = await running.judge(3)
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert judge.asked[1].at - judge.asked[0].at >= 10 / 20.0


async def test_retry_after_may_be_a_date(kit: Any, judge: Any) -> None:
    now = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
    form = "%a, %d %b %Y %H:%M:%S GMT"
    headers = {"retry-after": (now + timedelta(seconds=8)).strftime(form), "date": now.strftime(form)}
    judge.behave = lambda asked: kit.Do("slow down", 429, headers) if asked.number == 0 else kit.Do("True")
    async with kit.judging(kit.endpoint(judge), speed=20.0) as running:
        await running.judge(1)
    assert judge.asked[1].at - judge.asked[0].at >= 8 / 20.0


async def test_a_burst_of_500s_loses_nothing(kit: Any, judge: Any) -> None:
    async with kit.judging(kit.endpoint(judge, concurrency=8), speed=50.0) as running:
        # held until the verdicts before the burst were read: one read within it would end an outage, rightly
        burst = kit.Do("oops", 500, until=lambda: running.service.stats().endpoints[0].counts["ok"] >= 8)
        judge.behave = lambda asked: burst if 8 <= asked.number < 20 else kit.Do("True", delay_s=0.05)
        outcomes = await running.judge(40)
        stats = running.service.stats()
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert stats.endpoints[0].counts["ok"] == 40
    assert stats.endpoints[0].counts["5xx"] >= 3
    assert [event.kind for event in running.events] == ["outage", "recovered"]


async def test_one_poisonous_request_fails_and_the_others_go_on(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("oops", 500) if "What is 3 +" in asked.prompt else kit.Do(delay_s=0.01)
    async with kit.judging(kit.endpoint(judge, concurrency=2), speed=200.0, max_tries=4) as running:
        outcomes = await running.judge(400)
    assert [number for number, outcome in enumerate(outcomes) if outcome.status != "judged"] == [3]
    assert (outcomes[3].status, outcomes[3].value) == ("failed", None)
    assert "oops" in outcomes[3].detail


@pytest.mark.parametrize("behaviour", [{"hang": True}, {"drip_s": 0.02}, {"cut": True}])
async def test_hanging_dripping_and_cut_connections_are_tried_again(
    kit: Any, judge: Any, behaviour: dict[str, Any]
) -> None:
    judge.behave = lambda asked: kit.Do(**behaviour) if asked.number == 0 else kit.Do("True")
    async with kit.judging(kit.endpoint(judge), timeout_s=0.5) as running:
        (outcome,) = await running.judge(1)
    assert outcome.status == "judged"
    counts = running.service.stats().endpoints[0].counts
    assert counts["failed" if "cut" in behaviour else "timeout"] >= 1


@pytest.mark.parametrize(
    "body",
    [
        b"<html>a portal</html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": "True"}]}',
        b'{"choices": {"0": 1}}',
        b"[" * 100_000,
        b'{"choices": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe\x00",
        b'{"choices": [{"message": {"content": "' + b"x" * 2_000_000 + b'"}}]}',
    ],
)
async def test_what_is_no_completion_is_never_a_verdict(kit: Any, judge: Any, body: bytes) -> None:
    judge.behave = lambda asked: kit.Do(body=body) if asked.number == 0 else kit.Do("False")
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1)
    assert (outcome.status, outcome.value, outcome.replies) == ("judged", 0.0, ("False",))
    assert running.service.stats().endpoints[0].counts["failed"] == 1


async def test_a_compressed_reply_is_refused(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do(headers={"content-encoding": "gzip"} if asked.number == 0 else {})
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1)
    assert outcome.status == "judged"
    assert len(judge.asked) == 2


async def test_hostile_usage_and_text_are_made_harmless(kit: Any, judge: Any) -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": 10**30}
    judge.behave = lambda _: kit.Do("\x1b[31mTrue\x00\x07\ud800", usage=usage)
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1)
    assert outcome.replies == ("True",)
    assert 0 < outcome.usage.tokens < 1000


async def test_a_refused_key_leaves_the_rotation_and_the_others_go_on(
    kit: Any, judge: Any, keys_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    judge.behave = lambda asked: (
        kit.Do(f"Incorrect API key provided: {asked.key}", 401) if asked.key == KEYS[1] else kit.Do(delay_s=0.02)
    )
    async with kit.judging(kit.endpoint(judge, keys_file=keys_file, concurrency=2)) as running:
        outcomes = await running.judge(30)
        stats = running.service.stats()
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert {asked.key for asked in judge.asked} == set(KEYS)
    assert sum(asked.key == KEYS[1] for asked in judge.asked) <= 2
    assert [event.kind for event in running.events] == ["key-out"] * len(running.events)
    assert [key.state.startswith("out: the key is not accepted") for key in stats.endpoints[0].keys] == [0, 1, 0]
    everything = f"{stats}{running.events}{outcomes}{caplog.text}{running.service.exchange}{running.service.config}"
    assert not any(key in everything for key in KEYS)
    assert "…efgh" in everything


async def test_keys_share_the_work(kit: Any, judge: Any, keys_file: str) -> None:
    judge.behave = lambda _: kit.Do(delay_s=0.02, until=lambda: judge.most == 6)
    async with kit.judging(kit.endpoint(judge, keys_file=keys_file, concurrency=2)) as running:
        await running.judge(60)
    shares = [sum(asked.key == key for asked in judge.asked) for key in KEYS]
    assert min(shares) >= 15
    assert judge.most == 6


async def test_without_any_key_jobs_wait_and_nothing_is_wrong(kit: Any, judge: Any, keys_file: str) -> None:
    accepted: list[bool] = []
    judge.behave = lambda _: kit.Do("True") if accepted else kit.Do("no", 401)
    async with kit.judging(kit.endpoint(judge, keys_file=keys_file)) as running:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(running.judge(10))
            await kit.until(lambda: running.service.stats().parked.startswith("outage"))
            stats = running.service.stats()
            assert (stats.in_flight, stats.queue, stats.outages) == (0, 10, 1)
            assert stats.jobs[0].parked.startswith("outage")
            asked = len(judge.asked)
            await asyncio.sleep(0.3)
            assert len(judge.asked) == asked
            accepted.append(True)
            running.service.revive()
        assert {outcome.status for outcome in work.result()} == {"judged"}
        assert running.service.stats().parked == ""


async def test_an_endpoint_that_is_down_is_probed_until_it_is_back(kit: Any) -> None:
    fake = kit.FakeJudge()
    async with kit.serving(fake):
        pass
    async with kit.judging(kit.endpoint(fake), speed=40.0) as running:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(running.judge(20))
            await kit.until(lambda: running.service.stats().parked.startswith("outage"))
            await asyncio.sleep(0.5)
            assert running.service.stats().in_flight <= 1
            async with kit.serving(fake):
                await kit.until(work.done)
        assert {outcome.status for outcome in work.result()} == {"judged"}
        assert {event.kind for event in running.events} == {"outage", "recovered"}
        assert running.service.stats().outage_s > 0


async def test_a_second_endpoint_takes_over(kit: Any, judge: Any) -> None:
    down = kit.FakeJudge()
    async with kit.serving(down):
        pass
    async with kit.judging(kit.endpoint(down), kit.endpoint(judge)) as running:
        outcomes = await running.judge(40)
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert len(judge.asked) == 40


async def test_redirects_are_not_followed(kit: Any, judge: Any) -> None:
    async with kit.serving(kit.FakeJudge()) as other:
        judge.behave = lambda _: kit.Do("", 307, {"location": f"{other.url}/chat/completions"})
        async with kit.judging(kit.endpoint(judge)) as running, asyncio.timeout(LIMIT_S):
            async with asyncio.TaskGroup() as group:
                work = group.create_task(running.judge(1))
                await kit.until(lambda: "redirects" in running.service.stats().parked)
                running.service.cancel_job("j1")
            assert [outcome.status for outcome in work.result()] == ["stopped"]
    assert other.asked == []


async def test_a_schema_that_is_refused_is_dropped_and_not_offered_again(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: (
        kit.Do("response_format is not supported", 400)
        if "response_format" in asked.document
        else kit.Do("Fine.\nJudgement: Yes")
    )
    async with kit.judging(kit.endpoint(judge, concurrency=1)) as running:
        outcomes = await running.judge(5, rule="equality-v1")
    assert {outcome.value for outcome in outcomes} == {1.0}
    assert ["response_format" in asked.document for asked in judge.asked] == [True] + [False] * 5
    assert [event.kind for event in running.events] == ["manner"]


async def test_a_schema_is_offered_where_it_is_taken(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do('{"reasoning": "same", "judgement": "No"}')
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1, rule="equality-v1")
    assert (outcome.value, outcome.detail) == (0.0, "same")
    form = judge.asked[0].document["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"]["required"] == ["reasoning", "judgement"]


async def test_servers_that_want_other_fields_get_them(kit: Any, judge: Any) -> None:
    def behave(asked: Any) -> Any:
        if "max_tokens" in asked.document:
            return kit.Do("Unsupported parameter: max_tokens, use max_completion_tokens", 400)
        if "temperature" in asked.document:
            return kit.Do("Unsupported value: temperature", 400)
        return kit.Do("True")

    judge.behave = behave
    async with kit.judging(kit.endpoint(judge, concurrency=1)) as running:
        outcomes = await running.judge(3)
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert len(judge.asked) == 5


async def test_a_prompt_that_is_refused_stays_unjudged(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("too long", 400) if "What is 1 +" in asked.prompt else kit.Do("True")
    async with kit.judging(kit.endpoint(judge)) as running:
        outcomes = await running.judge(3, rule="rwkv-skills-v1")
    assert [outcome.status for outcome in outcomes] == ["judged", "refused", "judged"]
    assert "too long" in outcomes[1].detail
    assert running.events == []


async def test_a_moderated_prompt_does_not_take_the_keys_out(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("flagged", 403) if "What is 5 +" in asked.prompt else kit.Do("True")
    async with kit.judging(kit.endpoint(judge, concurrency=1)) as running:
        outcomes = await running.judge(30)
    assert [number for number, outcome in enumerate(outcomes) if outcome.status == "refused"] == [5]
    assert running.events == []


class Noted(MinuteWindow):
    """A window that notes when what was sent: times at the server shift with the machine's load."""

    sent: ClassVar[list[tuple[float, float]]] = []

    def add(self, now: float, amount: float) -> list[float]:
        self.sent.append((now, amount))
        return super().add(now, amount)


def most_within(sent: list[tuple[float, float]], span: float) -> float:
    """Return the largest sum of amounts within any span of time."""
    return max(sum(amount for at, amount in sent if start <= at < start + span) for start, _ in sent)


async def test_requests_per_minute_hold(kit: Any, judge: Any) -> None:
    Noted.sent.clear()
    async with kit.judging(kit.endpoint(judge, requests_per_min=20, concurrency=50), speed=60.0) as running:
        running.service.exchange.pool.keys[0].requests = Noted(20)
        started = time.monotonic()
        await running.judge(70)
    assert len(judge.asked) == len(Noted.sent) == 70
    assert 10 < most_within(Noted.sent, 60.0) <= 20
    assert time.monotonic() - started >= 3.0


async def test_tokens_per_minute_hold(kit: Any, judge: Any) -> None:
    """A request reserves the most tokens that it may take; the unused ones are released when its reply is there."""
    usage = {"prompt_tokens": 900, "completion_tokens": 100}
    judge.behave = lambda _: kit.Do(usage=usage, delay_s=0.005)
    async with kit.judging(kit.endpoint(judge, tokens_per_min=10_000, concurrency=4), speed=60.0) as running:
        started = time.monotonic()
        await running.judge(30)
        counted = running.service.exchange.pool.keys[0].tokens
        assert counted.total <= 10_000
    assert time.monotonic() - started >= 2.0
    assert 1000 in {entry[1] for entry in counted.entries}


async def test_nothing_is_paid_twice(kit: Any, judge: Any, tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "verdicts")
    async with kit.judging(kit.endpoint(judge), cache=cache) as running:
        first = await running.judge(10)
        again = await running.judge(10)
        assert running.service.stats().from_cache == 10
    assert len(judge.asked) == 10
    assert [outcome.cached for outcome in again] == [True] * 10
    assert sum(outcome.usage.tokens for outcome in again) == 0
    (tmp_path / "verdicts").open("ab").write(b'{"key": "torn')
    async with kit.judging(kit.endpoint(judge), cache=FileCache(tmp_path / "verdicts")) as running:
        later = await running.judge(11)
    assert len(judge.asked) == 11
    assert [outcome.value for outcome in later] == [outcome.value for outcome in first] + [1.0]
    assert len(FileCache(tmp_path / "verdicts").replies) == 11


async def test_fresh_asks_again(kit: Any, judge: Any) -> None:
    async with kit.judging(kit.endpoint(judge)) as running:
        await running.judge(1)
        judge.behave = lambda _: kit.Do("False")
        assert (await running.service.judge(running.task(0, fresh=True))).value == 0.0
        assert (await running.service.judge(running.task(0))).value == 0.0


async def test_same_questions_in_flight_share_one_reply(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do(delay_s=0.1)
    async with kit.judging(kit.endpoint(judge)) as running, asyncio.TaskGroup() as group:
        tasks = [running.task(7) for _ in range(5)]
        work = [group.create_task(running.service.judge(task)) for task in tasks]
    assert {one.result().value for one in work} == {1.0}
    assert len(judge.asked) == 1


async def test_an_endpoint_that_refuses_everything_is_stopped_and_said(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do("unknown parameter", 400)
    async with kit.judging(kit.endpoint(judge, concurrency=1)) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.judge(50))
        await kit.until(lambda: "refuses everything" in running.service.stats().parked)
        assert len(judge.asked) == 3
        running.service.cancel_job("j1")
    assert [outcome.status for outcome in work.result()].count("stopped") == 47


async def test_a_404_may_be_about_the_schema(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: (
        kit.Do("no endpoint takes this", 404) if "response_format" in asked.document else kit.Do("Judgement: No")
    )
    async with kit.judging(kit.endpoint(judge)) as running:
        (outcome,) = await running.judge(1, rule="equality-v1")
    assert outcome.value == 0.0


async def test_a_cache_that_cannot_be_written_costs_no_verdict(kit: Any, judge: Any) -> None:
    class Broken(MemoryCache):
        async def put(self, key: str, reply: Any, job: str) -> None:
            raise OSError("disk full")

    async with kit.judging(kit.endpoint(judge), cache=Broken()) as running:
        outcomes = await running.judge(2)
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert [event.kind for event in running.events] == ["cache", "cache"]


async def test_what_cannot_be_kept_is_never_paid_for_again_and_nothing_more_is_asked_until_it_is(
    kit: Any, judge: Any
) -> None:
    """A disk that is full for an hour must not cause the same questions to be paid for during that hour."""

    class Full(MemoryCache):
        full = True

        async def put(self, key: str, reply: Any, job: str) -> None:
            if self.full:
                raise OSError("the disk is full")
            await super().put(key, reply, job)

    cache = Full()
    async with kit.judging(kit.endpoint(judge, concurrency=1), cache=cache) as running, asyncio.TaskGroup() as group:
        first = await running.service.judge(running.task(1))
        again = await running.service.judge(running.task(1, fresh=True))
        other = group.create_task(running.judge(3, job="j2"))
        await kit.until(lambda: "cannot be kept" in running.service.stats().parked)
        assert len(judge.asked) == 1
        cache.full = False
        assert {outcome.status for outcome in [first, again, *await other]} == {"judged"}
    assert again.cached
    assert len(judge.asked) == len(cache.replies) == 4


async def test_a_slow_cache_does_not_make_anything_paid_twice(kit: Any, judge: Any) -> None:
    class Slow(MemoryCache):
        async def get(self, key: str) -> Any:
            found = await super().get(key)
            await asyncio.sleep(0.05 * len(judge.asked) + 0.05)
            return found

    async with kit.judging(kit.endpoint(judge), cache=Slow()) as running, asyncio.TaskGroup() as group:
        work = []
        for _ in range(10):
            work.append(group.create_task(running.service.judge(running.task(1))))
            await asyncio.sleep(0.013)
        work[0].cancel()
    assert {one.result().value for one in work[1:]} == {1.0}
    assert len(judge.asked) == 1


async def test_the_one_who_looks_into_the_cache_may_go(kit: Any, judge: Any) -> None:
    class Slow(MemoryCache):
        async def get(self, key: str) -> Any:
            await asyncio.sleep(0.1)

    async with kit.judging(kit.endpoint(judge), cache=Slow()) as running, asyncio.TaskGroup() as group:
        looker, other = (group.create_task(running.service.judge(running.task(1))) for _ in range(2))
        alone = group.create_task(running.service.judge(running.task(2)))
        await asyncio.sleep(0.03)
        looker.cancel()
        alone.cancel()
    assert other.result().value == 1.0
    assert len(judge.asked) == 1
    assert running.service.exchange.flights == {}


async def test_a_cache_that_cannot_be_read_is_heard_of(kit: Any, judge: Any) -> None:
    class Broken(MemoryCache):
        async def get(self, key: str) -> Any:
            raise OSError("no disk")

    async with kit.judging(kit.endpoint(judge), cache=Broken()) as running:
        with pytest.raises(OSError, match="no disk"):
            await running.service.judge(running.task(1))
    assert judge.asked == []


async def test_a_job_that_wants_the_same_goes_on_when_the_other_is_cancelled(kit: Any, judge: Any) -> None:
    gate = asyncio.Event()
    judge.behave = lambda asked: kit.Do(until=lambda: asked.number == 0 or gate.is_set())
    async with kit.judging(kit.endpoint(judge, concurrency=1)) as running, asyncio.TaskGroup() as group:
        shared = [running.task(number) for number in range(6)]
        first = [group.create_task(running.service.judge(task)) for task in shared]
        other = [group.create_task(running.service.judge(dataclasses.replace(task, job="j2"))) for task in shared]
        await kit.until(lambda: len(judge.asked) == 2)
        running.service.cancel_job("j1")
        gate.set()
    assert "stopped" in {one.result().status for one in first}
    assert {one.result().status for one in other} == {"judged"}
    assert len(judge.asked) == 6


async def test_what_is_in_flight_at_a_cancel_is_kept(kit: Any, judge: Any) -> None:
    gate = asyncio.Event()
    judge.behave = lambda _: kit.Do(until=gate.is_set)
    cache = MemoryCache()
    async with kit.judging(kit.endpoint(judge, concurrency=4), cache=cache, grace_s=LIMIT_S) as running:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(running.judge(20))
            await kit.until(lambda: len(judge.asked) == 4)
            running.service.cancel_job("j1")
        assert {outcome.status for outcome in work.result()} == {"stopped"}
        gate.set()
        await kit.until(lambda: len(cache.replies) == 4)
        assert running.service.stats().queue == 0
        running.service.close_job("j1")
        outcomes = await running.judge(20)
    assert {outcome.status for outcome in outcomes} == {"judged"}
    assert len(judge.asked) == 20


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_what_is_in_flight_at_a_stop_is_kept(kit: Any, judge: Any, how: str) -> None:
    gate = asyncio.Event()
    judge.behave = lambda _: kit.Do(until=gate.is_set)
    cache = MemoryCache()
    async with kit.judging(kit.endpoint(judge, concurrency=4), cache=cache, grace_s=LIMIT_S) as running:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(running.judge(20))
            await kit.until(lambda: len(judge.asked) == 4)
            running.service.stop() if how == "stop" else running.running.cancel()
            gate.set()
        statuses = [outcome.status for outcome in work.result()]
    assert statuses.count("judged") == 4
    assert statuses.count("stopped") == 16
    assert len(judge.asked) == len(cache.replies) == 4


async def test_a_daemon_that_ends_does_not_wait_for_a_judge_that_hangs(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do(hang=True)
    async with (
        asyncio.timeout(LIMIT_S),
        kit.judging(kit.endpoint(judge), grace_s=0.2, timeout_s=3600.0) as running,
        asyncio.TaskGroup() as group,
    ):
        work = group.create_task(running.judge(3))
        await kit.until(lambda: len(judge.asked) == 3)
        running.running.cancel()
    assert {outcome.status for outcome in work.result()} == {"stopped"}


async def test_a_big_job_does_not_starve_a_small_one(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do(delay_s=0.005)
    async with kit.judging(kit.endpoint(judge, concurrency=2)) as running, asyncio.TaskGroup() as group:
        group.create_task(running.judge(200, job="big"))
        await kit.until(lambda: len(judge.asked) >= 20)
        before = len(judge.asked)
        await running.judge(20, job="small")
        between = judge.prompts[before:]
    assert sum("of big" in prompt for prompt in between) <= 24


async def test_a_higher_priority_goes_first(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do(delay_s=0.005)
    async with kit.judging(kit.endpoint(judge, concurrency=2)) as running, asyncio.TaskGroup() as group:
        running.service.open_job("urgent", priority=5)
        group.create_task(running.judge(100, job="big"))
        await kit.until(lambda: len(judge.asked) >= 10)
        before = len(judge.asked)
        await running.judge(20, job="urgent")
        assert sum("of big" in prompt for prompt in judge.prompts[before:]) <= 4


async def test_the_budget_is_never_overdrawn_and_says_so(kit: Any, judge: Any) -> None:
    judge.behave = lambda _: kit.Do(delay_s=0.01)
    spot = kit.endpoint(judge, prompt_price=1000.0, completion_price=1000.0, concurrency=8)
    async with kit.judging(spot, budget=3.0) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.judge(60))
        await kit.until(lambda: "budget" in running.service.stats().parked)
        stats = running.service.stats()
        assert 1.0 < stats.usage.cost <= 3.0
        assert stats.in_flight == 0
        assert stats.queue > 0
        assert [event.kind for event in running.events] == ["budget"]
        running.service.cancel_job("j1")
    statuses = [outcome.status for outcome in work.result()]
    assert statuses.count("judged") == len(judge.asked) == round(stats.usage.cost / 0.11)
    assert set(statuses) == {"judged", "stopped"}


async def test_the_budget_of_one_job_does_not_hold_up_another(kit: Any, judge: Any) -> None:
    async with kit.judging(kit.endpoint(judge), job_budget_tokens=3000) as running, asyncio.TaskGroup() as group:
        group.create_task(running.judge(60, job="dear"))
        await kit.until(lambda: "budget of dear" in running.service.stats().parked)
        outcomes = await running.judge(5, job="cheap")
        assert {outcome.status for outcome in outcomes} == {"judged"}
        running.service.cancel_job("dear")


async def test_wall_time_ends_a_job_without_verdicts(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do() if asked.number < 3 else kit.Do("no", 500)
    async with kit.judging(kit.endpoint(judge, concurrency=1), max_runtime_s=60.0, speed=12.0) as running:
        outcomes = await running.judge(10)
    statuses = [outcome.status for outcome in outcomes]
    assert statuses.count("judged") == 3
    assert statuses.count("expired") == 7
    assert {outcome.value for outcome in outcomes if outcome.status == "expired"} == {None}


async def test_wall_times_stand_still_while_the_judge_is_paused(kit: Any, judge: Any) -> None:
    async with kit.judging(kit.endpoint(judge), max_runtime_s=600.0) as running, asyncio.TaskGroup() as group:
        service = running.service
        service.open_job("before")
        service.pause("paused by alice")
        work = [group.create_task(running.judge(5, job=job)) for job in ("before", "after")]
        await kit.until(lambda: len(service.jobs) == 2 and all(job.scopes for job in service.jobs.values()))
        assert [scope.when() for job in service.jobs.values() for scope in job.scopes] == [None] * 10
        left = {name: job.held_s for name, job in service.jobs.items()}
        assert all(0 < held <= 600 for held in left.values())
        at = service.clock.now()
        service.pause("")
        assert all(job.expires_at >= at + left[name] for name, job in service.jobs.items())
        assert {outcome.status for outcomes in work for outcome in await outcomes} == {"judged"}


async def test_a_pause_holds_everything(kit: Any, judge: Any) -> None:
    async with kit.judging(kit.endpoint(judge)) as running, asyncio.TaskGroup() as group:
        running.service.pause("paused by alice")
        work = group.create_task(running.judge(5))
        await asyncio.sleep(0.2)
        assert judge.asked == []
        assert running.service.stats().parked == "paused by alice"
        running.service.pause("")
        await work


async def test_pairs_are_asked_in_both_orders(kit: Any, judge: Any) -> None:
    judge.behave = lambda asked: kit.Do("[[B>A]]" if asked.number == 0 else "[[A>>B]]")
    task = JudgeTask(
        job="j1",
        row={"question": "Say hello.", "baseline": "Go away."},
        rule=RULES["arena-pairwise-v1"],
        extracted="Hello!",
        answer=Answer("Hello!"),
    )
    async with kit.judging(kit.endpoint(judge)) as running:
        outcome = await running.service.judge(task)
    assert outcome.value == 1.0
    assert outcome.finding is not None
    assert outcome.finding.parts == {"won": 4.0, "weight": 4.0, "agreed": 1.0}
    first, second = judge.prompts
    assert first.index("Go away.") < first.index("Hello!")
    assert second.index("Hello!") < second.index("Go away.")


async def test_the_checker_runs_through_the_same_service(kit: Any, judge: Any) -> None:
    said = {flag: flag == "answer_correct" for flag in FLAGS} | {"checker_cot": "7 is 7.0", "reason": "same value"}
    judge.behave = lambda _: kit.Do(f"Here it is:\n```json\n{json.dumps(said)}\n```")
    answer = Answer("7.0", earlier=("3 + 4 is 7",))
    task = JudgeTask(job="j1", row={"question": "3 + 4?", "answer": "7"}, rule=CHECKER, extracted="7.0", answer=answer)
    async with kit.judging(kit.endpoint(judge)) as running:
        outcome = await running.service.judge(task)
    assert isinstance(outcome.finding, CheckerResult)
    assert outcome.finding.needs_human_review
    assert outcome.finding.classes == ("answer_correct",)
    assert "3 + 4 is 7" in judge.asked[0].prompt


async def test_a_row_that_does_not_fit_the_rule_is_no_crash(kit: Any, judge: Any) -> None:
    task = JudgeTask(job="j1", row={}, rule=RULES["equality-v1"], extracted="7", answer=Answer("7"))
    async with kit.judging(kit.endpoint(judge)) as running:
        outcome = await running.service.judge(task)
    assert (outcome.status, outcome.value) == ("invalid", None)
    assert judge.asked == []


async def test_calibration_counts_what_a_judge_gets_wrong(kit: Any, judge: Any) -> None:
    rule = RULES["equality-v1"]
    truth = {rule.ask(known.row, known.answer.text, known.answer)[0][-1]["content"]: known for known in ROWS}

    def behave(asked: Any) -> Any:
        known = truth[asked.document["messages"][-1]["content"]]
        fooled = known.about in {"orders to the judge", "a near miss"}
        return kit.Do(f"Reasons.\nJudgement: {'Yes' if known.value or fooled else 'No'}")

    judge.behave = behave
    async with kit.judging(kit.endpoint(judge)) as running:
        found = await calibrate(running.service, rule)
    assert found.agreement.n == len(rows_for(rule)) >= 24
    assert (found.agreement.false_positives, found.agreement.false_negatives) == (2, 0)
    assert [about for about, _ in found.misjudged] == ["a near miss", "orders to the judge"]
    assert found.sentence().startswith("fake by equality-v1/1: 44 of 46 right (95.7%), 2 false positive")


async def test_two_services_share_nothing_but_the_cache(kit: Any, judge: Any) -> None:
    cache = MemoryCache()
    async with kit.judging(kit.endpoint(judge), cache=cache) as one:
        await one.judge(2)
    async with kit.judging(kit.endpoint(judge), cache=cache, model="other") as two:
        await two.judge(2)
    assert len(judge.asked) == 4
