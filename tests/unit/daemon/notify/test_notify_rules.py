"""Which events become notices, what a try comes to, and what is sent."""

import hashlib
import hmac
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rwkv_daemon.notify.delivery_outcome import FIRST_WAIT_S, LONGEST_WAIT_S, of_status, wait_s
from rwkv_daemon.notify.notify_command import filled
from rwkv_daemon.notify.regression import fell, in_words
from rwkv_daemon.notify.rules import Notice, begins_work, notice_of, queue_empty
from rwkv_daemon.notify.signing import signature
from rwkv_daemon.store.queries.notifications import WorkLeft
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.views import ComparisonView, MetricView

AT = "2026-11-22T03:00:00.000Z"


def event(kind: str, seq: int = 9, **values: object) -> Event:
    return Event(kind=kind, at=AT, seq=seq, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("happened", "name"),
    [
        (event("job.state", job="j1", text="m b k: failed (boom)", data={"state": "failed"}), "job-failed"),
        (event("job.state", job="j1", data={"state": "done"}), None),
        (event("job.state", job="j1", data={"state": "stopped"}), None),
        (event("gpu.condition", text="GPU 3", data={"condition": "quarantined"}), "gpu-quarantined"),
        (event("gpu", text="GPU 3", data={"condition": "cooldown"}), None),
        (event("judge", text="judge-x", data={"kind": "outage"}), "judge-outage"),
        (event("judge", text="judge-x", data={"kind": "recovered"}), "judge-outage"),
        (event("judge", text="judge-x", data={"kind": "key-out"}), None),
        (event("disk", text="3 MiB left", data={"low": True}), "disk-low"),
        (event("killed", text="e1 was ended", data={"alarm": True, "said": "it ended 3"}), "killed"),
        (event("disk", text="enough", data={"low": False}), None),
        (event("job.progress", data={"state": "failed"}), None),
    ],
)
def test_what_somebody_is_told_of(happened: Event, name: str | None) -> None:
    found = notice_of(happened, "node-1")
    assert (found.event if found else None) == name
    if found:
        assert found.at == AT
        assert found.text
        assert json.loads(found.body)["schema"] == "rwkvctl.notice/1"


def test_the_same_event_is_the_same_notice_after_a_restart() -> None:
    failed = event("job.state", job="j1", data={"state": "failed"})
    first, second = notice_of(failed, "n"), notice_of(failed, "n")
    later = notice_of(event("job.state", 10, job="j1", data={"state": "failed"}), "n")
    assert first is not None
    assert second is not None
    assert later is not None
    assert first.id == second.id != later.id


@pytest.mark.parametrize(
    ("left", "empty"),
    [(WorkLeft(0, 0), True), (WorkLeft(0, 2), True), (WorkLeft(1, 0), False), (WorkLeft(3, 2), False)],
)
def test_the_queue_is_empty_when_nothing_goes_on_by_itself(left: WorkLeft, empty: bool) -> None:
    found = queue_empty(left, event("job.state"), "n")
    assert (found is not None) == empty
    if found and left.aside:
        assert "2 jobs are held" in found.text


def test_work_begins_with_a_dispatch_or_a_job_that_goes_on() -> None:
    assert begins_work([event("session")])
    assert begins_work([event("daemon"), event("job.state", data={"state": "queued"})])
    assert not begins_work([event("job.state", data={"state": "done"}), event("weights")])


@pytest.mark.parametrize(
    ("status", "arrived", "final"),
    [(200, True, False), (204, True, False), (301, False, True), (307, False, True), (400, False, True),
     (401, False, True), (404, False, True), (410, False, True), (408, False, False), (425, False, False),
     (429, False, False), (500, False, False), (503, False, False), (102, False, False)],
)  # fmt: skip
def test_what_a_status_means(status: int, arrived: bool, final: bool) -> None:
    outcome = of_status(status)
    assert (not outcome.error, outcome.final) == (arrived, final)


@given(st.integers(1, 10_000), st.integers())
def test_waits_grow_to_an_hour_and_no_further(tries: int, seed: int) -> None:
    wait = wait_s(tries, random.Random(seed))
    assert 0.8 * FIRST_WAIT_S <= wait <= 1.2 * LONGEST_WAIT_S
    assert wait <= 1.2 * FIRST_WAIT_S * 2.0 ** min(tries - 1, 20)


@given(st.text(min_size=1, max_size=40), st.integers(0, 2**40), st.binary(max_size=200))
def test_a_receiver_can_check_the_signature(secret: str, timestamp: int, body: bytes) -> None:
    scheme, _, hexadecimal = signature(secret, timestamp, body).partition("=")
    wanted = hmac.new(secret.encode(), str(timestamp).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert (scheme, hexadecimal) == ("sha256", wanted)
    assert signature(secret, timestamp + 1, body) != signature(secret, timestamp, body)


@given(st.text(max_size=60))
def test_what_is_filled_in_stays_one_argument_on_one_line(text: str) -> None:
    notice = Notice(id="1", event="test", at=AT, node="{text}", text=text)
    found = filled(("mail", "-s", "rwkvctl: {text}", "{node}", "{event}", "{other}"), notice)
    assert len(found) == 6
    assert found[3:] == ["{text}", "test", "{other}"]
    assert "\n" not in found[2]
    assert "\0" not in found[2]


def comparison(verdict: str, value: float | None) -> ComparisonView:
    return ComparisonView(
        benchmark="b", kind="k", verdict=verdict, a=0.8, b=0.7, p=0.001, metric="accuracy",  # type: ignore[arg-type]
        difference=MetricView(value=value),
    )  # fmt: skip


def test_a_regression_is_significant_and_larger_than_the_margin() -> None:
    assert fell(comparison("worse", -0.1), 0.05)
    assert not fell(comparison("worse", -0.1), 0.1)
    assert not fell(comparison("no difference shown", -0.1), 0.0)
    assert not fell(comparison("worse", None), 0.0)
    assert in_words(comparison("worse", -0.1)) == "accuracy 0.700 after 0.800 (p 0.001)"
    picked = structs.replace(comparison("worse", -0.1), noted=("both: rows 0:5",))
    assert in_words(picked) == "accuracy 0.700 after 0.800 (p 0.001); both: rows 0:5"
