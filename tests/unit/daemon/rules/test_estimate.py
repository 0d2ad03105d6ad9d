"""What work is expected to take, and when: what is measured is used, what is not stays unknown."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.forecast import ForecastJob, ForecastLease, forecast
from rwkv_daemon.rules.rate_estimate import SETTLED, EngineTimeMeter, MeasuredRate, MeasuredRates, RateKey, blended

HERE = RateKey("gsm8k", "free_response", "fast", "H100")
MEASURED = MeasuredRate("aaa", HERE, 0.5, 1000, size=6_000)


@pytest.mark.parametrize(
    ("weights", "size", "place", "expected"),
    [
        ("aaa", 6_000, HERE, (0.5, "same")),
        ("aaa", 0, HERE, (0.5, "same")),
        ("bbb", 6_100, HERE, (0.5, "size")),
        ("bbb", 12_000, HERE, (1.0, "scaled")),
        ("bbb", 3_000, HERE, (0.25, "scaled")),
        ("bbb", 0, HERE, None),  # a model of which nothing is known
        ("aaa", 6_000, HERE._replace(benchmark="mmlu"), None),
        ("aaa", 6_000, HERE._replace(kind="cot"), None),
        ("aaa", 6_000, HERE._replace(device="A100"), None),
        ("aaa", 6_000, HERE._replace(numerics="fp32"), None),
    ],
)
def test_a_rate_is_that_of_the_same_work_or_of_the_nearest_model(
    weights: str, size: int, place: RateKey, expected: tuple[float, str] | None
) -> None:
    assert MeasuredRates.of([MEASURED]).sample_s(weights, size, place) == expected


def test_without_history_nothing_is_known() -> None:
    assert MeasuredRates().sample_s("aaa", 6_000, HERE) is None


def test_the_nearest_size_decides_and_a_new_measurement_takes_the_old_ones_place() -> None:
    rates = MeasuredRates.of([MEASURED, MeasuredRate("ccc", HERE, 4.0, 10, size=60_000)])
    assert rates.sample_s("bbb", 50_000, HERE) == (4.0 * 50 / 60, "scaled")
    rates.put(replace(MEASURED, sample_s=0.7))
    assert rates.sample_s("aaa", 6_000, HERE) == (0.7, "same")


def test_a_mean_follows_a_machine_that_has_changed() -> None:
    assert blended(None, 2.0, 100) == (2.0, 100)
    mean, samples = blended(replace(MEASURED, samples=1_000_000), 1.5, 1000)
    assert mean == pytest.approx(1.0), "a million old samples count no more than as many as are new"
    assert samples == 1_001_000


def test_a_pace_is_engine_time_for_samples_and_is_not_told_from_a_few() -> None:
    meter = EngineTimeMeter(first_done=10)
    meter.note(1.0)
    assert meter.sample_s is None, "what it had done before it was watched tells nothing"
    meter.note(1.0, 10 + SETTLED - 1)
    assert meter.sample_s is None
    meter.note(2.0, 10 + SETTLED)
    assert meter.sample_s == pytest.approx(4.0 / SETTLED)


def test_a_job_that_outlasts_what_others_needed_is_no_longer_judged_by_them() -> None:
    meter = EngineTimeMeter()
    meter.note(0.0, 0)
    meter.note(9.0, 0)
    assert not meter.disproves(10.0)
    meter.note(2.0, 1)
    assert meter.disproves(10.0)
    meter.note(2.0, SETTLED)
    assert not meter.disproves(10.0), "its own pace says more"


# -- forecasts


A, B = "a", "b"


def test_jobs_follow_each_other_on_the_lease_that_is_free_first_and_loading_counts() -> None:
    loads = [ForecastJob(1, A, 100.0), ForecastJob(2, A, 10.0), ForecastJob(3, B, 10.0), ForecastJob(4, B, 5.0)]
    found = forecast(loads, [ForecastLease("g0", A), ForecastLease("g1")], {A: 20.0, B: 20.0}).jobs
    assert (found[1].starts_s, found[1].ends_s, found[1].lease, found[1].loads) == (0.0, 100.0, "g0", False)
    assert (found[2].starts_s, found[2].ends_s, found[2].lease, found[2].loads) == (20.0, 30.0, "g1", True)
    assert (found[3].starts_s, found[3].lease, found[3].loads) == (50.0, "g1", True)
    assert (found[4].starts_s, found[4].ends_s, found[4].loads) == (60.0, 65.0, False)


def test_a_warm_lease_is_waited_for_while_that_is_sooner_than_loading() -> None:
    found = forecast(
        [ForecastJob(1, A, 10.0), ForecastJob(2, A, 10.0)], [ForecastLease("g0", A), ForecastLease("g1")], {A: 30.0}
    ).jobs
    assert [found[number].lease for number in (1, 2)] == ["g0", "g0"]


def test_unknown_work_takes_its_lease_and_the_end_of_everything_is_unknown() -> None:
    loads = [ForecastJob(1, A, None, "g0"), ForecastJob(2, B, 10.0)]
    found = forecast(loads, [ForecastLease("g0", A), ForecastLease("g1", B)], {})
    assert found.jobs.keys() == {2}
    assert found.unknown == 1
    assert found.ends_s is None


def test_behind_unknown_work_on_every_lease_nothing_is_said() -> None:
    found = forecast([ForecastJob(1, A, None), ForecastJob(2, A, 10.0)], [ForecastLease("g0", A)], {})
    assert (dict(found.jobs), found.unknown) == ({}, 2)


def test_an_empty_queue_is_done_and_a_node_without_leases_can_say_nothing() -> None:
    assert forecast([], [ForecastLease("g0")], {}).ends_s == 0.0
    assert forecast([ForecastJob(1, A, 1.0)], [], {}).ends_s is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 100)), max_size=40),
    st.integers(1, 6),
    st.floats(0, 20),
)
def test_a_forecast_keeps_every_lease_busy_with_one_job_at_a_time(
    drawn: list[tuple[str, float]], leases: int, load_s: float
) -> None:
    loads = [ForecastJob(number, kind, work_s) for number, (kind, work_s) in enumerate(drawn)]
    found = forecast(loads, [ForecastLease(f"g{n}") for n in range(leases)], dict.fromkeys("abc", load_s))
    assert found.jobs.keys() == {load.id for load in loads}
    for lease in {job.lease for job in found.jobs.values()}:
        mine = sorted((job.starts_s, job.ends_s) for job in found.jobs.values() if job.lease == lease)
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(mine))
    total = sum(work_s for _, work_s in drawn)
    ends_s = found.ends_s
    assert ends_s is not None
    assert total / leases - 1e-6 <= ends_s <= total + load_s * len(drawn) + 1e-6
