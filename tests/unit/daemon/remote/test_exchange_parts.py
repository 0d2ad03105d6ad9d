"""The exchange's parts without I/O: limits, keys, turns, budget, failures, raw replies."""

import asyncio
import contextlib
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.judge.judge_question import JudgeQuestion
from rwkv_daemon.remote.failures import back_off_s, failure_of, retry_after_s
from rwkv_daemon.remote.key_pool import FAILURES_TO_OPEN, NEVER, ApiKey, KeyPool
from rwkv_daemon.remote.limits import SPAN_S, MinuteWindow
from rwkv_daemon.remote.request import PendingRequest
from rwkv_daemon.remote.request_queue import RequestQueue
from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import BadReplyError, TokenUsage, chat_reply, error_text, tidy
from rwkv_daemon.remote.service_stats import quantile
from rwkv_daemon.remote.spending import Budget
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig
from rwkvctl.settings.secret import Secret


@given(st.integers(1, 20), st.lists(st.tuples(st.floats(0, 30), st.integers(1, 8), st.integers(0, 8)), max_size=60))
def test_no_minute_holds_more_than_the_limit(limit: int, wishes: list[tuple[float, int, int]]) -> None:
    window, now, sent = MinuteWindow(limit), 0.0, []
    for pause, amount, used in wishes:
        now = window.ready_at(now + pause, amount)
        entry = window.add(now, amount)
        window.settle(entry, min(used, amount))
        sent.append((now, min(used, amount), amount))
    for start, _, _ in sent:
        inside = [(used, amount) for at, used, amount in sent if start <= at < start + SPAN_S]
        assert sum(used for used, _ in inside) <= limit or any(amount > limit for _, amount in inside)


def test_a_window_without_limit_keeps_nothing() -> None:
    window = MinuteWindow(0)
    window.add(0.0, 5)
    assert window.ready_at(1.0, 10**9) == 1.0
    assert not window.entries


def test_what_is_larger_than_the_limit_goes_alone() -> None:
    window = MinuteWindow(10)
    assert window.ready_at(0.0, 50) == 0.0
    window.add(0.0, 5)
    assert window.ready_at(1.0, 50) == 60.0


def pool(keys: int = 2, **limits: Any) -> KeyPool:
    config = EndpointConfig(base_url="https://x.example/v1", **{"concurrency": 4} | limits)
    return KeyPool.of([(config, tuple(Secret(f"key-number-{n}-123456") for n in range(keys)))], random.Random(1))


def ask(pool: KeyPool, now: float) -> ApiKey | None:
    key = pool.pick(now, 100)
    if key:
        key.in_flight += 1
        key.last_used = now
        key.requests.add(now, 1)
    return key


def test_keys_take_turns_up_to_their_concurrency() -> None:
    one = pool(2, concurrency=2)
    taken = [ask(one, float(now)) for now in range(5)]
    assert [key and key.number for key in taken] == [1, 2, 1, 2, None]
    assert one.when(5.0, 100) is None


def test_requests_per_minute_of_a_key() -> None:
    one = pool(1, requests_per_min=2, concurrency=9)
    assert [bool(ask(one, now)) for now in (0.0, 1.0, 2.0, 59.0, 60.0, 60.5)] == [True, True, False, False, True, False]
    assert one.when(60.5, 1) == 61.0


def test_a_key_that_keeps_failing_is_probed_with_one_request() -> None:
    one = pool(1)
    key = one.keys[0]
    for _ in range(FAILURES_TO_OPEN):
        one.failed(key, 10.0, 5.0, "HTTP 500", None)
    assert (key.level, key.usable) == (1, False)
    assert one.outage() == "x.example: HTTP 500"
    one.failed(key, 10.1, 5.0, "HTTP 500", None)
    assert key.level == 1, "requests of the same round count once"
    ready = key.ready_at(10.2, 1)
    assert 10.4 < ready <= 12.0
    key.in_flight = 1
    assert key.ready_at(20.0, 1) == NEVER
    key.in_flight = 0
    one.failed(key, 20.0, 19.0, "HTTP 500", None)
    assert key.level == 2
    one.succeeded(key)
    assert (key.usable, one.outage(), key.ready_at(20.0, 1)) == (True, "", 20.0)


def test_a_429_pauses_and_halves_once_a_round() -> None:
    one = pool(1, concurrency=8)
    key = one.keys[0]
    one.throttled(key, 10.0, 9.0, 30.0)
    one.throttled(key, 10.1, 9.5, 20.0)
    assert (key.allowed, key.pause_until) == (4.0, 40.0)
    assert one.outage() == "", "a pause is no outage"
    for _ in range(40):
        one.succeeded(key)
    assert key.allowed == 8


@pytest.fixture
def loop() -> Any:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def test_a_403_is_the_keys_fault_if_it_never_worked_or_denies_all(loop: Any) -> None:
    def one(name: str) -> PendingRequest:
        return PendingRequest(name, JudgeQuestion("r", (), "", 1, 0.0), loop.create_future(), [])

    fresh = pool(1)
    assert fresh.denied(fresh.keys[0], one("a"), "HTTP 403")
    assert fresh.outage() == "x.example: HTTP 403"
    used = pool(1)
    used.succeeded(used.keys[0])
    first = one("a")
    assert not used.denied(used.keys[0], first, "HTTP 403")
    assert not used.denied(used.keys[0], first, "HTTP 403")
    assert first.denials == 2
    assert used.denied(used.keys[0], one("b"), "HTTP 403")
    used.revive()
    assert used.outage() == ""


def test_a_key_that_only_refuses_is_stopped(loop: Any) -> None:
    def one(name: str) -> PendingRequest:
        return PendingRequest(name, JudgeQuestion("r", (), "", 1, 0.0), loop.create_future(), [])

    fresh = pool(1)
    assert [fresh.refused(fresh.keys[0], one(name), "HTTP 400") for name in "aabc"] == [False, False, False, True]
    used = pool(1)
    used.succeeded(used.keys[0])
    assert not any(used.refused(used.keys[0], one(name), "HTTP 400") for name in "abcdef")


def always(_: str, __: PendingRequest) -> bool:
    return True


def line_of(loop: Any, **jobs: int) -> RequestQueue:
    line = RequestQueue()
    for job, count in jobs.items():
        for number in range(count):
            future = loop.create_future()
            line.add(
                job, PendingRequest(f"{job}{number}", JudgeQuestion("r", (), "", 1, 0.0), future, [job], queued=True)
            )
    return line


def drained(line: RequestQueue, now: float = 0.0) -> list[str]:
    taken = []
    while found := line.next(now, always):
        line.take(*found)
        taken.append(found[1].key)
    return taken


def test_jobs_take_turns(loop: Any) -> None:
    assert drained(line_of(loop, a=4, b=2, c=1)) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_priorities_come_first(loop: Any) -> None:
    line = line_of(loop, a=2, b=2, c=1)
    line.priorities = {"b": 5, "c": 5}
    assert drained(line) == ["b0", "c0", "b1", "a0", "a1"]


def test_a_job_that_may_not_is_passed_over(loop: Any) -> None:
    line = line_of(loop, a=2, b=1)
    found = line.next(0.0, lambda job, _: job != "a")
    assert found is not None
    assert found[1].key == "b0"


def test_what_is_put_aside_comes_back_first_and_not_before_its_time(loop: Any) -> None:
    line = line_of(loop, a=2)
    found = line.next(0.0, always)
    assert found is not None
    line.take(*found)
    line.put_aside(found[1], 5.0)
    assert (line.due(), len(line.requests())) == (5.0, 2)
    assert drained(line, 1.0) == ["a1"]
    assert drained(line, 5.0) == ["a0"]
    assert line.requests() == []


def test_a_shared_request_is_taken_once(loop: Any) -> None:
    line = line_of(loop, a=1, b=1)
    shared = PendingRequest("shared", JudgeQuestion("r", (), "", 1, 0.0), loop.create_future(), ["a", "b"], queued=True)
    line.add("a", shared)
    line.add("b", shared)
    assert len(line.requests()) == 3
    assert drained(line) == ["a0", "b0", "shared"]
    line.put_aside(shared, 3.0)
    line.add("b", shared)
    assert drained(line, 1.0) == []
    assert drained(line, 3.0) == ["shared"]


def test_the_budget_counts_what_is_in_flight() -> None:
    budget = Budget("the judge", JudgeConfig(budget=1.0, job_budget=0.6, job_budget_tokens=1000))
    most = TokenUsage(10, 10, 0.4)
    assert budget.refusal("a", most) == ""
    budget.hold("a", most)
    assert "budget of a" in budget.refusal("a", most)
    assert budget.refusal("b", most) == ""
    budget.hold("b", most)
    assert "judge's budget of 1" in budget.refusal("c", most)
    budget.release("a", most)
    budget.add("a", TokenUsage(10, 5, 0.1))
    assert budget.refusal("a", most) == ""
    assert budget.of("a") == TokenUsage(10, 5, 0.1)
    budget.forget("a")
    assert budget.of("a") == TokenUsage()
    assert budget.spent.cost == pytest.approx(0.1)
    assert "1,000 tokens" in budget.refusal("d", TokenUsage(900, 101, 0.0))


@pytest.mark.parametrize(("resets", "allowed"), [("daily", True), ("never", False)])
def test_a_daily_budget_begins_anew(resets: str, *, allowed: bool) -> None:
    today = ["mon"]
    budget = Budget("the judge", JudgeConfig(budget_tokens=100, budget_resets=resets), today=lambda: today[0])
    budget.add("a", TokenUsage(90, 0))
    assert budget.refusal("a", TokenUsage(20, 0))
    today[0] = "tue"
    assert (budget.refusal("a", TokenUsage(20, 0)) == "") is allowed


NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT", "date": "Fri, 20 Nov 2026 12:00:20 GMT"}, 10.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "99999999"}, 3600.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "Fri, 99 Nov 99999999999 12:00:30 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "error", "meaning"),
    [
        (408, {}, "again"),
        (409, {}, "again"),
        (425, {}, "again"),
        (500, {}, "again"),
        (503, {}, "again"),
        (599, {}, "again"),
        (101, {}, "again"),
        (429, {}, "throttled"),
        (429, {"code": "rate_limit_exceeded"}, "throttled"),
        (429, {"code": "insufficient_quota"}, "key"),
        (429, {"type": "insufficient_quota", "code": None}, "key"),
        (401, {}, "key"),
        (402, {}, "key"),
        (404, {}, "key"),
        (302, {}, "key"),
        (400, {"message": "Your credit balance is too low"}, "key"),
        (403, {}, "denied"),
        (400, {}, "refused"),
        (413, {}, "refused"),
        (422, {}, "refused"),
        (451, {}, "refused"),
        (204, {}, "refused"),
    ],
)
def test_what_a_failure_means(status: int, error: dict[str, Any], meaning: str) -> None:
    found = failure_of(status, {}, json.dumps({"error": error}).encode())
    assert found.meaning == meaning
    assert f"HTTP {status}" in found.text


def test_errors_of_any_shape_are_short_text() -> None:
    assert error_text(b'{"error": {"code": "c", "type": "t", "message": "m"}}') == ("c t", "m")
    assert error_text(b'{"error": "plain"}') == ("", "plain")
    assert error_text(b'{"message": "m"}') == ("", "m")
    assert error_text(b'{"error": [1]}') == ("", "")
    found = error_text(b'{"detail": [{"loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]}')
    assert found == ("", '[{"loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]')
    assert error_text(b"<html>\x1b[2J" + b"x" * 10_000)[1] == "<html>" + "x" * 294


def test_back_off_grows_with_jitter_up_to_a_minute() -> None:
    dice = random.Random(0)
    for level in (0, 1, 5, 10_000):
        waits = [back_off_s(level, dice) for _ in range(200)]
        top = min(0.5 * 2 ** min(level, 20), 60)
        assert top / 2 <= min(waits) < max(waits) <= top
        assert len({round(wait, 6) for wait in waits}) > 100


def body(content: object, **more: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}], **more}).encode()


def test_a_reply_off_the_wire() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    found = chat_reply(body("True", model="m\x00", usage=usage), 30)
    assert (found.text, found.model, found.cut, found.usage) == ("True", "m", False, TokenUsage(3, 2))
    parts = [{"type": "text", "text": "Tr"}, {"type": "image"}, 7, {"text": "ue"}]
    assert chat_reply(body(parts), 30).text == "True"
    assert chat_reply(body(None), 30).text == ""
    cut = {"choices": [{"finish_reason": "length", "message": {"content": "Tr"}}]}
    assert chat_reply(json.dumps(cut).encode(), 30).cut


@pytest.mark.parametrize(
    "usage",
    [
        None,
        7,
        [],
        {},
        {"prompt_tokens": True},
        {"prompt_tokens": -1},
        {"prompt_tokens": 1e9},
        {"prompt_tokens": "5"},
        {"prompt_tokens": 10**12},
    ],
)
def test_impossible_counts_are_estimated(usage: object) -> None:
    assert chat_reply(body("True", usage=usage), 300).usage == TokenUsage(108, 9)


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["choices", "message", "content", "usage", "model"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_a_reply_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadReplyError):
        assert len(chat_reply(data, 10).text.encode()) <= len(data)


def test_text_is_made_safe() -> None:
    assert tidy("a\x1b[31;1mb\x00\x9b\ud800\tc\n\r\u202e") == "ab\tc\n\u202e"
    assert len(tidy("x" * 10**6)) == 200_000


JUDGES = frozenset({"temperature"})


def test_what_an_endpoint_does_not_take_is_dropped_one_by_one() -> None:
    style = RequestStyle()
    first = style.instead("use 'max_completion_tokens' instead", JUDGES)
    assert first == RequestStyle(length_field="max_completion_tokens")
    assert first is not None
    second = first.instead("Unsupported value: 'temperature' (max_completion_tokens is fine)", JUDGES)
    assert second == RequestStyle(length_field="max_completion_tokens", without=JUDGES)
    assert second is not None
    third = second.instead("no idea", JUDGES)
    assert third == RequestStyle(structured=False, length_field="max_completion_tokens", without=JUDGES)
    assert third is not None
    assert third.instead("temperature max_completion_tokens", JUDGES) is None


SAMPLES = frozenset({"temperature", "top_k", "seed", "stop"})


@pytest.mark.parametrize(
    ("refusal", "without"),
    [
        ("Unrecognized request argument supplied: top_k", {"top_k"}),
        ("body.top_k: extra inputs; body.seed: extra inputs", {"top_k", "seed"}),
        ("Temperatures other than 1 are not supported", {"temperature"}),
        ("the prompt was stopped by top_kings; reseed it", None),
        ("no", None),
    ],
)
def test_only_fields_that_are_named_are_dropped(refusal: str, without: set[str] | None) -> None:
    found = RequestStyle(structured=False).instead(refusal, SAMPLES)
    assert (found and found.without) == without


def test_stop_strings_become_few_before_they_are_dropped() -> None:
    few = RequestStyle(structured=False).instead("stop: too many", SAMPLES)
    assert few is not None
    assert (few.most_stops, few.without) == (4, frozenset())
    none = few.instead("stop: not supported", SAMPLES)
    assert none is not None
    assert none.without == {"stop"}
    assert none.instead("stop: not supported", SAMPLES) is None


def test_what_worked_is_learnt_and_nothing_is_forgotten() -> None:
    known = RequestStyle(without=frozenset({"seed"}))
    tried = RequestStyle(structured=False, without=frozenset({"top_k"}), most_stops=4)
    found = known.learning(tried, SAMPLES, structured=False)
    taken = frozenset({"temperature", "seed", "stop"})
    assert found == RequestStyle(without=frozenset({"seed", "top_k"}), taken=taken, most_stops=4)
    assert not known.learning(tried, SAMPLES, structured=True).structured
    said = str(RequestStyle(structured=False, length_field="x", without=frozenset({"b", "a"}), most_stops=4))
    assert said == "without a JSON schema, with x, without a, b, with 4 stop strings at most"


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile(range(100), 0.95) == 95
