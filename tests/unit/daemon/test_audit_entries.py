"""What a request is written down as."""

import json

import msgspec
import pytest

from rwkv_daemon.changes import audit
from rwkvctl.protocol import messages as m


@pytest.mark.parametrize(
    ("request_", "verb", "target"),
    [
        (m.StopRequest(jobs=("j1", "j2"), request_id="x"), "stop", "j1 j2"),
        (m.StopRequest(all=True), "stop", "all"),
        (m.ResumeRequest(session="20260131_120000_ab12"), "resume", "20260131_120000_ab12"),
        (m.DispatchRequest(selection=m.Selection(models=("builtin",))), "dispatch", ""),
        (m.JudgeRetry(), "judge retry", ""),
        (m.ReviewMark(sample=7, decision="right"), "review", "7"),
        (m.SearchSelect(model="g1", benchmarks=("gsm8k",)), "search select", "g1"),
        (m.ImportRequest(path="/old/results"), "import", "/old/results"),
    ],
)
def test_verb_and_target(request_: msgspec.Struct, verb: str, target: str) -> None:
    entry = audit.entry_of(request_)
    assert (entry.verb, entry.target, entry.written) == (verb, target, False)
    assert "request_id" not in entry.data


def test_an_entry_is_bounded() -> None:
    jobs = tuple(f"j{number}" for number in range(100_000))
    data = audit.entry_of(m.StopRequest(jobs=jobs)).data
    assert len(json.dumps(data)) < 2 * audit.LONGEST_DATA
    assert "j0" in str(data["cut"])


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (m.ChangedReply(items=(m.ChangedJob(job="j1", state="done", changed=False),)), "unchanged"),
        (m.ChangedReply(items=(m.ChangedJob(job="j1", state="stopped", changed=True),)), "done"),
        (m.ChangedReply(items=()), "unchanged"),
        (m.JudgeReply(judges=()), "done"),
    ],
)
def test_what_a_reply_says_of_itself(reply: m.AnyReply, outcome: str) -> None:
    assert audit.outcome_of(reply) == outcome
