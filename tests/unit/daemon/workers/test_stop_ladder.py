"""The ladder of a stop, and what is wanted of a runner: tables and orders, without processes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.jobs.stop_intents import FIRST, intent_of
from rwkv_daemon.rules.placement import EngineKind
from rwkv_daemon.scheduling.pauses import Pause, Pauses
from rwkv_daemon.store import JobRow
from rwkv_daemon.workers.stop_ladder import WORDS, Patience, StopLadder, StopStep, after
from rwkvctl.settings.fields import Settings

PATIENCE = Patience(batch_s=60, ask_s=30, term_s=20, sweep_s=60)

JOB = JobRow(
    id=7, session="s", model="m", weights_path="/w", weights_sha256="f" * 64, benchmark="b", kind="k", version=1,
    state="generating", reason="", detail="", priority=0, generation_key="g", grade_key="g", settings="{}",
    configuration="{}", grader="g", grader_version="1", grading="{}", benchmark_version=1, rows_sha256="r", seed=0,
    row_limit=None, numerics="fp32", repeats=1, stages=1, total=10, done=0, stages_done=0, right_sum=0.0, attempt=1,
    restarts=0, engine=1, run_log_dir="", queued="", started="", finished="", group_name="night",
)  # fmt: skip


@pytest.mark.parametrize(
    ("step", "waited_s", "expected"),
    [
        (StopStep.BATCH, 59, StopStep.BATCH),
        (StopStep.BATCH, 60, StopStep.ASK),
        (StopStep.ASK, 29, StopStep.ASK),
        (StopStep.ASK, 31, StopStep.TERM),
        (StopStep.TERM, 21, StopStep.KILL),
        (StopStep.KILL, 2, StopStep.SWEEP),
        (StopStep.SWEEP, 59, StopStep.SWEEP),
        (StopStep.SWEEP, 61, StopStep.STUCK),
        (StopStep.STUCK, 1e9, StopStep.STUCK),
    ],
)
def test_each_rung_has_its_time(step: StopStep, waited_s: float, expected: StopStep) -> None:
    assert after(step, waited_s, PATIENCE) is expected


@given(st.sampled_from(list(StopStep)), st.floats(0, 1e6), st.floats(0, 1e3))
def test_a_ladder_only_climbs_one_rung_at_a_time(step: StopStep, waited_s: float, patience_s: float) -> None:
    patience = Patience(patience_s, patience_s, patience_s, patience_s)
    assert step <= after(step, waited_s, patience) <= step + 1


@given(st.lists(st.sampled_from([StopStep.BATCH, StopStep.ASK, StopStep.KILL]), min_size=1, max_size=20))
def test_a_milder_wish_never_takes_a_rung_back(wishes: list[StopStep]) -> None:
    ladder, highest = StopLadder(), StopStep.NONE
    for wish in wishes:
        entered = ladder.reach(wish, PATIENCE)
        assert entered == (wish > highest)
        highest = max(highest, wish)
        assert ladder.step is highest


def test_with_no_patience_everything_is_stuck_after_six_looks() -> None:
    ladder = StopLadder()
    patience = replace(PATIENCE, batch_s=0, ask_s=0, term_s=0, sweep_s=0)
    assert ladder.reach(StopStep.ASK, patience)
    seen = [ladder.step]
    for _ in range(6):
        ladder.since -= 10
        ladder.reach(StopStep.ASK, patience)
        seen.append(ladder.step)
    assert seen == [
        StopStep.ASK,
        StopStep.TERM,
        StopStep.KILL,
        StopStep.SWEEP,
        StopStep.STUCK,
        StopStep.STUCK,
        StopStep.STUCK,
    ]


@pytest.mark.parametrize("step", [StopStep.ASK, StopStep.TERM, StopStep.SWEEP])
def test_what_an_earlier_daemon_had_begun_is_done_once_more_and_not_begun_anew(step: StopStep) -> None:
    ladder = StopLadder.resumed(int(step))
    assert ladder.reach(StopStep.ASK, PATIENCE)
    assert ladder.step is step
    assert not ladder.reach(StopStep.ASK, PATIENCE)
    fresh = StopLadder.resumed(0)
    assert fresh.reach(StopStep.ASK, PATIENCE)
    assert fresh.step is StopStep.ASK


def test_every_rung_has_words_and_every_intent_a_beginning() -> None:
    assert set(WORDS) == set(StopStep)
    assert set(FIRST) == {"stop", "pause", "yield", "stalled"}
    assert Patience.of(Settings()).on(StopStep.SWEEP) == Settings().stop_kill_s


def pause(scope: str, name: str = "", why: str = "") -> Pause:
    return Pause(scope, name, "2026-11-01T02:58:00.000Z", "alice", why)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("standing", "starts", "runs"),
    [
        ([], True, True),
        ([pause("queue")], False, False),
        ([pause("model", "m")], False, False),
        ([pause("model", "other")], True, True),
        ([pause("group", "night")], False, False),
        ([pause("group", "day")], True, True),
        ([pause("node")], False, True),
        ([pause("node"), pause("model", "m")], False, False),
    ],
)
def test_what_a_pause_covers(standing: list[Pause], starts: bool, runs: bool) -> None:
    pauses = Pauses({(p.scope, p.name): p for p in standing})
    assert (not pauses.covers(JOB), not pauses.ends(JOB)) == (starts, runs)


def test_a_suspect_is_tried_alone_and_a_full_disk_covers_everybody() -> None:
    pauses = Pauses(trials={EngineKind(JOB.weights_sha256, "fp32"): 7})
    assert not pauses.covers(JOB)
    assert "j7 is tried alone" in pauses.covers(replace(JOB, id=8))
    assert not pauses.covers(replace(JOB, id=8, numerics="exact"))
    pauses.disk = "no room"
    assert pauses.covers(JOB) == pauses.ends(JOB) == "no room"


def test_a_pause_says_who_since_when_and_why() -> None:
    assert pause("queue", why="training").sentence == (
        "the queue is paused by alice since 2026-11-01T02:58:00Z: training"
    )
    assert pause("model", "m").sentence.startswith("model m is paused by alice")
    assert Pauses({("node", ""): pause("node")}).draining is not None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"state": "stopping"}, "stop"),
        ({"state": "stopping", "wanted": "pause"}, "stop"),
        ({"wanted": "pause"}, "pause"),
        ({"wanted": "hold"}, "pause"),
        ({"wanted": "fail"}, "pause"),
    ],
)
def test_the_intent_follows_from_what_is_stored(changes: dict[str, str], expected: str) -> None:
    assert intent_of(replace(JOB, **changes), Pauses()) == expected
    paused = Pauses({("queue", ""): pause("queue")})
    assert intent_of(replace(JOB, **changes), paused) == (expected or "yield")
