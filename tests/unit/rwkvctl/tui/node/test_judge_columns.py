"""What the screen Judge shows of the judge: endpoints, keys, cost, requests in flight, and jobs that lack verdicts."""

from typing import Any

import pytest

from rwkvctl.cli import doctor
from rwkvctl.protocol.replies import JudgeReply
from rwkvctl.protocol.views import (
    JobView,
    JudgeEndpointView,
    JudgeFlightView,
    JudgeJobView,
    JudgeView,
    MetricView,
    ScoreView,
)
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node import judge_columns
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import text_of

OUT = {"name": "sk-…99b0", "state": "out: the key is not accepted", "in_flight": 0, "allowed": 16}
OK = {"name": "sk-…1f2a", "state": "ok", "in_flight": 8, "allowed": 16}


def endpoint(*keys: dict[str, object], **more: Any) -> JudgeEndpointView:
    return JudgeEndpointView(name="judge.example", keys=keys, **more)


def judge(**more: Any) -> JudgeView:
    given = {"usage": {"prompt_tokens": 1200, "completion_tokens": 34, "cost": 1.93}} | more
    return JudgeView(role="judge", model="judge-x", **given)


def text(lines: list[Pieces]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


@pytest.mark.parametrize(
    ("one", "at", "said"),
    [
        (judge(), endpoint(OK), "✓ ready"),
        (judge(), endpoint(OK, in_flight=3), "▸ busy"),
        (judge(), endpoint(OK, OUT), "! 1/2 keys"),
        (judge(), endpoint(OUT), "✗ no keys"),
        (judge(parked="the budget is spent"), endpoint(OK), "! waiting"),
        (judge(), endpoint(), "✓ ready"),
        (judge(), endpoint(OK, counts={"ok": 258, "unreadable": 258}), "✗ FAIL"),
        (judge(), endpoint(OK, counts={"ok": 9999, "unreadable": 1}), "✗ FAIL"),
    ],
)
def test_whether_an_endpoint_answers(one: JudgeView, at: JudgeEndpointView, said: str) -> None:
    assert text_of(judge_columns.state_cell(judge_columns.Endpoint(one, at))) == said


def test_what_went_wrong_at_an_endpoint_is_counted() -> None:
    row = judge_columns.Endpoint(judge(), endpoint(OK, p50_s=0.44, counts={"ok": 3310, "429": 12, "retries": 15}))
    cells = {column.title: text_of(column.cell(row)) for column in judge_columns.ENDPOINTS}
    assert (cells["OK"], cells["429"], cells["TIMEOUT"], cells["RETRY"]) == ("3,310", "12", "0", "15")
    assert (cells["P50 S"], cells["P95 S"]) == ("0.4", "–")


def test_replies_without_a_verdict_are_failures_with_a_sentence() -> None:
    fails = endpoint(OK, counts={"ok": 258, "unreadable": 258})
    cells = {c.title: text_of(c.cell(judge_columns.Endpoint(judge(), fails))) for c in judge_columns.ENDPOINTS}
    assert cells["FAIL"] == "258"
    assert "258 replies of judge.example contained no readable verdict" in text(
        judge_columns.about(JudgeReply(judges=(judge(endpoints=(fails,)),)))
    )
    services = [{"role": "judge", "model": "x", "endpoints": [{"name": "j", "counts": {"unreadable": 258}}]}]
    (finding,) = doctor.judge(services, "rwkvctl judge")
    assert (finding.name, finding.verdict) == ("judge", "missing")
    assert finding.what.startswith("FAIL: 258 replies")
    services[0]["endpoints"][0]["counts"] = {"ok": 258}  # type: ignore[index]
    assert [one.verdict for one in doctor.judge(services, "rwkvctl judge")] == ["ok"]


def test_facts_say_cost_budget_cache_the_oldest_requests_and_masked_keys() -> None:
    flights = tuple(JudgeFlightView(job="j1", label=str(n), seconds=90 - n, attempt=1 + n) for n in range(5))
    said = text(
        judge_columns.about(
            JudgeReply(
                judges=(
                    judge(budget=20.0, budget_tokens=5000, budget_resets="daily", from_cache=1204, flights=flights,
                          outages=2, outage_s=73, parked="outage", endpoints=(endpoint(OUT),)),
                ),
                calibrations=("rule v1: right on 98 % of 50 rows",),
            )
        )
    )  # fmt: skip
    for words in ("1.93 for 1,234 tokens", "at most 20 and 5,000 tokens a day", "1,204 replies came from the cache",
                  "1m30s", "attempt 3", "outages: 2, 1m13s", "waits      outage", "sk-…99b0  out: the key",
                  "98 %"):  # fmt: skip
        assert words in said
    assert said.count("in flight  j1") == judge_columns.FLIGHTS
    assert "no budget is set" in judge_columns.budget(judge())


def test_jobs_at_the_judge_come_first_then_those_it_has_not_begun_then_scores_that_lack_verdicts() -> None:
    def job(name: str, **more: Any) -> JobView:
        return JobView(id=name, model="m", benchmark="b", kind="k", state="judging", session="s1", **more)

    state = ConsoleState(jobs={"j1": job("j1"), "j2": job("j2", reason="judge-not-configured")})
    score = ScoreView(job="j9", model="m", benchmark="b", kind="k", version=1, primary="accuracy", n=9, rows=9,
                      metrics={"accuracy": MetricView(value=None)}, repeats=1, unjudged=4, scored=5)  # fmt: skip
    at_work = JudgeJobView(job="j1", waiting=3, judged=5, unjudged=1, usage={"cost": 0.4})
    checked = JudgeJobView(job="check-j7")
    rows = judge_columns.jobs_of(JudgeReply(judges=(judge(jobs=(at_work, checked)),)), [score], state)
    assert [(row.job, row.state, row.unjudged) for row in rows] == [
        ("j1", "judging", 1), ("check-j7", "judge", 0), ("j2", "judging", 0), ("j9", "done", 4),
    ]  # fmt: skip
    assert rows[2].why == "judge-not-configured"
    said = text(judge_columns.regrade_question([rows[3]]))
    assert "about 4 samples of j9" in said
    assert "rwkvctl regrade j9" in said
