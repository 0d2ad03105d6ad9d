"""A job that makes no progress is told by what is usual for it."""

from rwkv_daemon.rules.job_pace import LEAST_S, JobPace


def test_a_job_starves_when_it_waits_far_longer_than_it_ever_did() -> None:
    pace = JobPace()
    assert pace.idle_s(1000.0) is None, "nothing is usual yet"
    for clock, done in ((0.0, 5), (2.0, 6), (10.0, 9), (11.0, 9)):
        pace.see(done, clock)
    assert pace.longest_s == 8.0
    assert pace.idle_s(10.0 + 24.0) is None, "three times the longest wait"
    assert pace.idle_s(10.0 + 100.0) == 100.0
    pace.see(10, 111.0)
    assert pace.idle_s(112.0) is None


def test_a_quick_job_is_not_called_idle_for_a_moment() -> None:
    pace = JobPace()
    for done in range(10):
        pace.see(done, 0.01 * done)
    assert pace.idle_s(LEAST_S - 1) is None
    assert pace.idle_s(2 * LEAST_S) is not None
