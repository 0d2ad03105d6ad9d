"""Which waiting jobs begin to ask a model behind an endpoint."""

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.endpoint_places import AskEndpoint, EndpointFact, HoldJob, asks_endpoint, place
from rwkv_daemon.rules.placement import EngineKind, Wait, WaitingJob

QWQ, R1 = EngineKind("a" * 64, "chat"), EngineKind("b" * 64, "completions")
HERE = {QWQ: EndpointFact("qwq"), R1: EndpointFact("r1")}


def test_only_an_api_in_the_place_of_a_numerics_profile_means_an_endpoint() -> None:
    assert asks_endpoint(QWQ)
    assert asks_endpoint(R1)
    assert not asks_endpoint(EngineKind("a" * 64, "fp32"))


def test_the_more_urgent_job_comes_first_and_the_others_wait_for_a_runner() -> None:
    waiting = [WaitingJob(1, QWQ), WaitingJob(2, QWQ, priority=5), WaitingJob(3, QWQ)]
    first, second, third = place(waiting, {}, HERE, {}, 2)
    assert (first, second) == (AskEndpoint(2, "qwq"), AskEndpoint(1, "qwq"))
    assert isinstance(third, Wait)
    assert (third.job, third.reason) == (3, "endpoint-busy")
    assert "2 jobs ask qwq already" in third.detail


def test_jobs_that_run_count() -> None:
    (command,) = place([WaitingJob(1, QWQ)], {}, {QWQ: EndpointFact("qwq", jobs=4)}, {}, 4)
    assert isinstance(command, Wait)
    assert command.reason == "endpoint-busy"


def test_a_server_that_is_being_tried_out_is_not_asked_yet() -> None:
    endpoints = {QWQ: EndpointFact("qwq", parked="its server is being tried out")}
    assert place([WaitingJob(1, QWQ)], {}, endpoints, {}, 4) == [
        Wait(1, "endpoint-away", "its server is being tried out")
    ]


def test_without_its_model_in_the_configuration_a_job_is_held_whether_it_waits_or_runs() -> None:
    commands = place([WaitingJob(1, QWQ), WaitingJob(2, R1)], {7: QWQ, 8: R1}, {R1: EndpointFact("r1")}, {}, 4)
    assert commands == [HoldJob(7), HoldJob(1), AskEndpoint(2, "r1")]


def test_a_group_is_limited_over_all_endpoints() -> None:
    waiting = [WaitingJob(1, QWQ, group="night"), WaitingJob(2, R1, group="night"), WaitingJob(3, R1)]
    commands = place(waiting, {}, HERE, {"night": 1}, 4)
    assert AskEndpoint(1, "qwq") in commands
    assert AskEndpoint(3, "r1") in commands
    assert any(isinstance(one, Wait) and (one.job, one.reason) == (2, "group-limit") for one in commands)


JOBS = st.builds(
    WaitingJob,
    st.integers(1, 99),
    st.sampled_from([QWQ, R1, EngineKind("c" * 64, "chat")]),
    priority=st.integers(-2, 2),
    group=st.sampled_from(["", "night"]),
)


@given(
    st.lists(JOBS, max_size=12, unique_by=lambda job: job.id),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_every_job_gets_one_command_and_no_limit_is_exceeded(
    waiting: list[WaitingJob], most: int, left: int, running: int
) -> None:
    endpoints = {QWQ: EndpointFact("qwq", running), R1: EndpointFact("r1")}
    commands = place(waiting, {}, endpoints, {"night": left}, most)
    assert sorted(command.job for command in commands) == sorted(job.id for job in waiting)
    started = [command for command in commands if isinstance(command, AskEndpoint)]
    assert sum(command.endpoint == "qwq" for command in started) <= max(0, most - running)
    assert sum(command.endpoint == "r1" for command in started) <= most
    groups = {job.id: job.group for job in waiting}
    assert sum(groups[command.job] == "night" for command in started) <= left
