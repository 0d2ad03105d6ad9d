"""What the service manager is told, as text; and sockets that it passes, as variables."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.api import socket_activation
from rwkv_daemon.host.sd_notify import address, message, watchdog_s
from rwkv_daemon.upkeep.service_status import summary
from rwkvctl.protocol.views import LeaseView
from rwkvctl.settings import config

FIELD = st.text(st.characters(codec="utf-8"), max_size=60)


def test_a_datagram_has_a_line_for_each_field() -> None:
    assert message(READY="1", STATUS="2 jobs run") == b"READY=1\nSTATUS=2 jobs run\n"


@given(FIELD)
def test_no_value_can_begin_a_field_of_its_own(text: str) -> None:
    lines = message(STATUS=text, READY="1").decode().split("\n")
    assert [line.partition("=")[0] for line in lines] == ["STATUS", "READY", ""]


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("/run/notify", "/run/notify"), ("@abc", "\0abc"), ("", None), ("vsock:2:1", None), ("relative", None)],
)
def test_the_address(variable: str, expected: str | None) -> None:
    assert address(variable) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_that_it_names(variables: dict[str, str], expected: float | None) -> None:
    assert watchdog_s(variables, 7) == expected


def test_what_is_said_to_this_process_is_not_handed_on() -> None:
    environ = {"NOTIFY_SOCKET": "/run/n", "LISTEN_FDS": "1", "WATCHDOG_USEC": "1", "PATH": "/bin"}
    taken = config.take_service_variables(environ)
    assert environ == {"PATH": "/bin"}
    assert taken == {"NOTIFY_SOCKET": "/run/n", "LISTEN_FDS": "1", "WATCHDOG_USEC": "1"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "many", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_sockets_for_another_process_are_not_ours(variables: dict[str, str]) -> None:
    assert socket_activation.listeners(variables) == {}


def test_the_status_line_names_what_an_operator_asks_first() -> None:
    leases = [LeaseView(id="cpu:0"), LeaseView(id="GPU-1"), LeaseView(id="GPU-2", use="unknown"), LeaseView(id="GPU-3")]
    jobs = {"generating": 2, "judging": 1, "queued": 4, "held": 1, "done": 90}
    assert summary(jobs, 2, leases, "") == "3 jobs run, 5 wait; 2 engines; GPUs: 2 free, 1 unknown"
    assert summary({}, 0, leases[:1], "the disk is full").endswith("GPUs: none; the disk is full")
