"""What a request is written down as."""

import json

import msgspec
import pytest

from rwkv_daemon.changes import audit
from rwkvctl.protocol.gpus import GpuChange
from rwkvctl.protocol.replies import ChangedReply, JudgeReply
from rwkvctl.protocol.requests import (
    DispatchRequest,
    ImportRequest,
    JudgeRetry,
    ResumeRequest,
    ReviewMark,
    SearchSelect,
    Selection,
    StopRequest,
)
from rwkvctl.protocol.routes import AnyReply
from rwkvctl.protocol.views import ChangedJob


@pytest.mark.parametrize(
    ("request_", "verb", "target"),
    [
        (StopRequest(jobs=("j1", "j2"), request_id="x"), "stop", "j1 j2"),
        (StopRequest(all=True), "stop", "all"),
        (ResumeRequest(session="20260131_120000_ab12"), "resume", "20260131_120000_ab12"),
        (DispatchRequest(selection=Selection(models=("builtin",))), "dispatch", ""),
        (JudgeRetry(), "judge retry", ""),
        (ReviewMark(sample=7, decision="right"), "review", "7"),
        (SearchSelect(model="g1", benchmarks=("gsm8k",)), "search select", "g1"),
        (ImportRequest(path="/old/results"), "import", "/old/results"),
        (GpuChange(action="reserve", gpus=("0", "1"), reason="training"), "gpus", "reserve 0 1"),
    ],
)
def test_verb_and_target(request_: msgspec.Struct, verb: str, target: str) -> None:
    entry = audit.entry_of(request_)
    assert (entry.verb, entry.target, entry.written) == (verb, target, False)
    assert "request_id" not in entry.data


def test_an_entry_is_bounded() -> None:
    jobs = tuple(f"j{number}" for number in range(100_000))
    data = audit.entry_of(StopRequest(jobs=jobs)).data
    assert len(json.dumps(data)) < 2 * audit.LONGEST_DATA
    assert "j0" in str(data["cut"])


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (ChangedReply(items=(ChangedJob(job="j1", state="done", changed=False),)), "unchanged"),
        (ChangedReply(items=(ChangedJob(job="j1", state="stopped", changed=True),)), "done"),
        (ChangedReply(items=()), "unchanged"),
        (JudgeReply(judges=()), "done"),
    ],
)
def test_what_a_reply_says_of_itself(reply: AnyReply, outcome: str) -> None:
    assert audit.outcome_of(reply) == outcome
