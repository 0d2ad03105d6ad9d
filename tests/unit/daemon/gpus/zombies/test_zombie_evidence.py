"""Evidence against an orphan, and what the node must be like: tables, and what no history may ever allow."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.gpus.zombies.evidence import (
    FEWEST_LOOKS,
    LONGEST_GAP_S,
    GraceWindow,
    OrphanObservation,
    complete,
    gather,
)
from rwkv_daemon.gpus.zombies.policy import PER_GPU_S, PER_NODE_S, NodeStatus, always, by_itself

WINDOW = GraceWindow(grace_s=60, idle_s=120)
CLOCK = 1000.0
STILL = [OrphanObservation(CLOCK - 130 + second, 0.0, 5.0, 100) for second in range(131)]


def failing(looks: list[OrphanObservation], *, ended_s: float = 300.0, clock: float = CLOCK) -> set[str]:
    return {finding.name for finding in gather(looks, ended_s=ended_s, clock=clock, window=WINDOW) if not finding.holds}


def changed(at: int, **values: float | None) -> list[OrphanObservation]:
    return [replace(look, **values) if index == at else look for index, look in enumerate(STILL)]  # type: ignore[arg-type]


def test_an_orphan_that_is_dead_to_the_world() -> None:
    assert failing(STILL) == set()


CASES = {
    "its attempt ended a moment ago": (STILL, {"ended_s": 59.0}, {"ended"}),
    "one look": (STILL[-1:], {}, {"watched"}),
    "two looks far apart": ([STILL[0], STILL[-1]], {}, {"watched"}),
    "no look": ([], {}, {"watched", "idle", "no CPU time", "no log"}),
    "watched too short": (STILL[20:], {}, {"watched"}),
    "a gap in the middle": (STILL[:60] + STILL[70:], {}, {"watched"}),
    "the last look is old": (STILL, {"clock": CLOCK + LONGEST_GAP_S + 1}, {"watched", "idle", "no CPU time", "no log"}),
    "busy once": (changed(60, utilisation=0.01), {}, {"idle"}),
    "busy in the last look": (changed(130, utilisation=1.0), {}, {"idle"}),
    "utilisation unknown once": (changed(60, utilisation=None), {}, {"idle"}),
    "utilisation never known, as on MIG": ([replace(look, utilisation=None) for look in STILL], {}, {"idle"}),
    "it used the CPU": (changed(130, cpu_s=5.01), {}, {"no CPU time"}),
    "it wrote to its log": (changed(130, log_bytes=101), {}, {"no log"}),
    "its log was cut": (changed(130, log_bytes=0), {}, {"no log"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing(name: str) -> None:
    looks, given_, expected = CASES[name]
    assert failing(looks, **given_) == expected


def test_life_before_the_window_does_not_count() -> None:
    before = [
        OrphanObservation(look.at - 131, 0.9, float(index) / 100, index) for index, look in enumerate(STILL[:130])
    ]
    assert failing([*before, *(replace(look, cpu_s=5.0) for look in STILL)]) == set()


def test_the_longer_of_grace_and_window_must_have_been_watched() -> None:
    """The store's clock may have jumped: what it says of the end is not enough."""
    long = GraceWindow(grace_s=200, idle_s=120)
    found = gather(STILL, ended_s=1e9, clock=CLOCK, window=long)
    assert [finding.name for finding in found if not finding.holds] == ["watched"]


looks_of_any_kind = st.lists(
    st.builds(
        OrphanObservation,
        at=st.floats(0, 500, allow_nan=False),
        utilisation=st.sampled_from([0.0, 0.0, 0.0, 0.5, None]),
        cpu_s=st.sampled_from([1.0, 1.0, 1.0, 1.1]),
        log_bytes=st.sampled_from([7, 7, 8]),
    ),
    max_size=40,
).map(lambda looks: sorted(looks, key=lambda look: look.at))


@given(looks_of_any_kind, st.floats(0, 200), st.floats(0, 20))
def test_no_history_with_a_sign_of_life_is_enough(looks: list[OrphanObservation], ended_s: float, later: float) -> None:
    window = GraceWindow(grace_s=20, idle_s=30)
    clock = (looks[-1].at if looks else 0) + later
    if not complete(gather(looks, ended_s=ended_s, clock=clock, window=window)):
        return
    recent = [look for look in looks if look.at >= clock - window.idle_s]
    assert len(recent) >= FEWEST_LOOKS - 1
    assert later <= LONGEST_GAP_S
    assert ended_s >= window.grace_s
    assert {look.utilisation for look in recent} == {0.0}
    assert len({(look.cpu_s, look.log_bytes) for look in recent}) == 1
    assert clock - looks[0].at >= window.idle_s
    assert all(b.at - a.at <= LONGEST_GAP_S for a, b in pairwise(recent))


GOOD = NodeStatus(mode="auto", age_s=0.5, freshest_s=5, fault="", contained=False)
NODES = {
    "no look yet": ({"age_s": None}, {"fresh"}),
    "the sampler is silent": ({"age_s": 5.1}, {"fresh"}),
    "the self-test failed": ({"fault": "NVML lists pid 0"}, {"self-test"}),
    "in a container": ({"contained": True}, {"namespace"}),
}


@pytest.mark.parametrize("name", NODES)
def test_the_node_forbids_it_to_everybody(name: str) -> None:
    values, expected = NODES[name]
    found = always(replace(GOOD, **values))  # type: ignore[arg-type]
    assert {finding.name for finding in found if not finding.holds} == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, set()),
        ({"mode": "ask"}, {"mode"}),
        ({"mode": "off"}, {"mode"}),
        ({"draining": "the node is draining by root"}, {"draining"}),
        ({"recent": [(PER_GPU_S - 1, ("GPU-1",))]}, {"rate of the GPU"}),
        ({"recent": [(PER_GPU_S + 1, ("GPU-1",))]}, set()),
        ({"recent": [(5.0, ("GPU-2",))]}, set()),
        ({"recent": [(-5.0, ("GPU-1",))]}, {"rate of the GPU"}),
        ({"recent": [(100.0, (f"GPU-{n}",)) for n in (2, 3, 4)]}, {"rate of the node"}),
        ({"recent": [(PER_NODE_S + 1, (f"GPU-{n}",)) for n in (2, 3, 4)]}, set()),
    ],
)
def test_the_daemon_by_itself_needs_more(values: dict[str, object], expected: set[str]) -> None:
    found = by_itself(replace(GOOD, **values), ["GPU-1"])  # type: ignore[arg-type]
    assert {finding.name for finding in found if not finding.holds} == expected
