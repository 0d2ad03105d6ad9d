"""The screen Judge against a real daemon and a judge on loopback: a job that it judges, and one whose judge is out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_judge
import pytest

OWN = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule

JUDGED = replace(
    SUMS.default_kind, name="free_response_judge", grader=replace(judged(EXACT, rule("rwkv-skills-v1")), version="1")
)
BENCHMARK = replace(SUMS, name="judged_sums", kinds=by_name([JUDGED]))
"""


@pytest.fixture
def judge() -> Iterator[Any]:
    """A judge that answers what the test says."""
    with fake_judge.in_thread(fake_judge.FakeJudge()) as running:
        yield running


@pytest.fixture
def judged_node(new_node: Any, judge: Any, tmp_path: Path) -> Any:
    """A node with the judge, and a benchmark that needs one."""
    folder = tmp_path / "config" / "rwkvctl" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "judged_sums.py").write_text(OWN)
    node = new_node()
    node.settings |= {
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "JUDGE_MODEL": "fake-judge-1", "JUDGE_BASE_URL": judge.url,
        "JUDGE_API_KEY": "sk-hidden-" + "k" * 20,
    }  # fmt: skip
    return node.start()


async def test_a_judge_is_seen_at_work_and_asked_again_where_it_gave_no_verdict(
    judged_node: Any, judge: Any, pressing: Any
) -> None:
    judge.behave = lambda asked: fake_judge.Do("no verdict in this")
    (job,) = judged_node.dispatch(only_datasets=["judged_sums"], limit=12, settings={"temperature": "1000"})
    unjudged = judged_node.wait_for_state(job, "done", "failed")["score"]["unjudged"]
    assert unjudged
    async with pressing(judged_node) as hands:
        text = await hands.press("9", see=("fake-judge-1", "✗ FAIL", "spent", "no budget is set", job, "trusted"))
        assert "hidden" not in text
        assert "kkkkk" not in text  # the last four of it tell one key from another
        await hands.press("tab", "tab")
        await hands.press("e", see=(f"Ask the judge again about {unjudged} samples of {job}", "rwkvctl regrade"))
        await hands.press("escape")
        await hands.gone("Ask the judge again")
        await hands.press("p", see=("1 paused", "the judge is paused by"))
        await hands.press("p", see="nothing is paused")
        judge.behave = lambda asked: fake_judge.Do("True")
        await hands.press("e", see="Ask the judge again")
        await hands.press("y", see=f"{job} judging")
        await hands.see("none lacks a verdict")
        assert hands.app.commands[-1] == f"rwkvctl regrade {job}"
        await hands.press("e", see="Select a finished job")
        await hands.press("R", see="all keys will be tried again")
        assert hands.app.commands[-1] == "rwkvctl judge retry"
        await hands.press("r", "x")
        await hands.see("judge-judged-")
        await hands.press("escape")


async def test_without_a_judge_it_says_what_to_set(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(80, 24), read_only=True) as hands:
        await hands.press("9", see=("no judge and no endpoint is configured", "JUDGE_MODEL", "none lacks a verdict"))
        await hands.press("R", see="read-only")
