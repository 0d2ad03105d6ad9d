"""Maths answers that never end hold up no other answer, and never more worker processes than there are lanes."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_for

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.graders.maths import grader
from rwkv_data.graders.maths import lanes as math_lanes
from rwkv_data.graders.maths.lanes import AnswerClient, Lanes
from rwkv_data.graders.maths.maths_worker import Overrun

# Answers all tasks but "hang": that one runs out of its quick second at once, and in a slow lane is at work until `go`
CHILD = """
import json, os, pathlib, signal, sys, time
marks = pathlib.Path(sys.argv[1])
print('{"ready": {}}', flush=True)
for line in sys.stdin:
    task = json.loads(line)
    if task["do"] == "hang":
        if task["cpu_s"] > 1:
            (marks / f"slow-{os.getpid()}").touch()
            while not (marks / "go").exists():
                time.sleep(.01)
        else:
            (marks / f"quick-{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGPROF)
        time.sleep(60)
    took = task.get("took", 0)
    print(json.dumps({"pid": os.getpid(), "limit": task["cpu_s"], "took_s": took}), flush=True)
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def lanes(marks: Path) -> Iterator[Lanes]:
    opened = Lanes(cpu_s=5.0, quick=2, slow=1, argv=(sys.executable, "-c", CHILD, str(marks)))
    yield opened
    opened.close()


class Hanging:
    """An answer that never ends, in a thread of its own, as the runner grades."""

    def __init__(self, lanes: Lanes) -> None:
        self.ended_as = ""
        self.thread = threading.Thread(target=self._ask, args=(lanes,), daemon=True)
        self.thread.start()

    def _ask(self, lanes: Lanes) -> None:
        try:
            AnswerClient(lanes).ask_twice("hang")
        except Overrun as error:
            self.ended_as = str(error)


def test_answers_that_never_end_hold_up_no_other(lanes: Lanes, marks: Path) -> None:
    """There are more such answers than lanes of both kinds."""
    hanging = [Hanging(lanes) for _ in range(6)]
    wait_for(lambda: list(marks.glob("slow-*")), "one of them is in the slow lane")
    wait_for(lambda: len(list(marks.glob("quick-*"))) == 6, "all of them have had their second in a quick lane")
    pids = {AnswerClient(lanes).ask_twice("equal")["pid"] for _ in range(20)}
    assert [one.ended_as for one in hanging] == [""] * 6, "all the good ones were done while these were not"
    assert len(list(marks.glob("slow-*"))) == 1, "they wait for each other"
    children = [process._child for process in lanes.workers]
    assert len(children) == 3
    assert pids <= {child.pid for child in children[:2] if child}, "good answers stay in the quick lanes"
    (marks / "go").touch()
    for one in hanging:
        one.thread.join()
        assert "tried twice: it took more processor time" in one.ended_as


def test_a_slow_lane_gives_way(lanes: Lanes) -> None:
    slow, quick = AnswerClient(lanes).ask("equal"), AnswerClient(lanes).ask_twice("equal")
    assert (slow["limit"], quick["limit"]) == (5.0, math_lanes.QUICK_S)
    priorities = [os.getpriority(os.PRIO_PROCESS, reply["pid"]) for reply in (slow, quick)]
    assert priorities[0] == min(priorities[1] + math_lanes.NICENESS, 19), "also where all of us are niced"


def test_many_answers_at_once_start_one_worker_unless_it_stays_busy(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(math_lanes, "PATIENCE_S", 60.0)
    pids: list[int] = []
    threads = [
        threading.Thread(target=lambda: pids.append(AnswerClient(lanes).ask_twice("equal")["pid"])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 8
    assert len(set(pids)) == 1
    monkeypatch.setattr(math_lanes, "PATIENCE_S", 0.01)
    with lanes.quick():
        assert AnswerClient(lanes).ask_twice("equal")["pid"] not in pids


def test_all_comparisons_of_an_answer_have_a_limit_together(lanes: Lanes) -> None:
    client = AnswerClient(lanes)
    for _ in range(4):
        client.ask_twice("equal", took=9.0)
    with pytest.raises(Overrun, match="together"):
        client.ask_twice("equal", took=9.0)
    assert AnswerClient(lanes).ask_twice("equal", took=9.0)["limit"] == math_lanes.QUICK_S, (
        "the next answer has its own"
    )


def test_the_functions_of_a_job_share_their_lanes() -> None:
    with math_lanes.lanes(7.5) as one:
        with math_lanes.lanes(7.5) as other, math_lanes.lanes(8.5) as third:
            assert one is other
            assert one is not third
            pid = AnswerClient(one).ask_twice("equal", golds=["1"], answers=["1.0"])
            assert pid["equal"] is True
            assert [process._child is not None for process in one.workers].count(True) == 1
        child = next(process._child for process in one.workers if process._child)
        assert child.poll() is None, "somebody has them open"
    assert child.poll() is not None


def test_a_tower_of_powers_beside_good_answers() -> None:
    row = {"question": "Q", "answer": "x^2+5"}
    answers = ["9^{9^{9^{9}}}x", "3^{3*10^8}", "x^2+5", "5+x^2", "x^2+6"]
    found: dict[str, Grade] = {}

    def grade(text: str) -> None:
        with grader.GRADER.open(cpu_s=0.5) as one:
            found[text] = one(row, Answer(text))

    threads = [threading.Thread(target=grade, args=(text,)) for text in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[text].value for text in answers] == [0.0, 0.0, 1.0, 1.0, 0.0]
    assert found["3^{3*10^8}"].reason == "timeout", found
