"""How much one client may ask for, and tokens."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.api import rate_limits, tls_tokens
from rwkv_daemon.api.rate_limits import RateLimiter
from rwkv_daemon.rules.roles import Role
from rwkvctl.protocol.errors import ConfigError

A, B = "a" * 32, "b" * 40


# -- requests a second


def test_a_burst_passes_then_the_rate_counts() -> None:
    meter = RateLimiter()
    assert [meter.allows(1, 100.0, rate=2, burst=3) for _ in range(5)] == [True, True, True, False, False]
    assert [meter.allows(1, 101.0, rate=2, burst=3) for _ in range(3)] == [True, True, False]
    assert meter.allows(2, 101.0, rate=2, burst=3), "others have buckets of their own"


def test_a_clock_that_goes_back_gives_and_takes_nothing() -> None:
    meter = RateLimiter()
    assert meter.allows(1, 100.0, rate=1, burst=2)
    assert meter.allows(1, 50.0, rate=1, burst=2)
    assert not meter.allows(1, 50.0, rate=1, burst=2)


@given(st.lists(st.floats(0, 2), max_size=200), st.floats(0.5, 50), st.integers(1, 20))
def test_never_more_than_the_burst_and_the_rate(steps: list[float], rate: float, burst: int) -> None:
    meter, now, passed = RateLimiter(), 0.0, 0
    for step in steps:
        now += step
        passed += meter.allows("x", now, rate=rate, burst=burst)
    assert passed <= burst + rate * now + 1e-6


def test_those_who_are_gone_are_forgotten() -> None:
    meter = RateLimiter()
    for who in range(5000):
        meter.allows(who, who * 1.0, rate=1, burst=10)
    assert len(meter.buckets) <= rate_limits.MOST_METERS + 1


def test_who_has_just_been_refused_is_not_forgotten_for_the_number_of_others() -> None:
    meter = RateLimiter()
    assert [meter.allows("greedy", 0.0, rate=1, burst=2) for _ in range(3)] == [True, True, False]
    for who in range(rate_limits.MOST_METERS + 1):
        meter.allows(who, 0.0, rate=1, burst=2)
    assert not meter.allows("greedy", 0.0, rate=1, burst=2)


# -- connections


@pytest.mark.parametrize(("files", "most"), [(64, 16), (1024, 256), (4096, 1024), (65536, 4096), (10**6, 4096)])
def test_connections_leave_the_daemon_its_files(files: int, most: int) -> None:
    assert rate_limits.connections(files) == most
    assert 2 * most + rate_limits.share(most).connections < files


def test_a_thousand_followers_of_one_user_fit_where_files_are_plenty() -> None:
    assert rate_limits.share(rate_limits.connections(65536)).connections > 1000
    assert rate_limits.share(rate_limits.connections(4096)).connections > 1000


# -- tokens


def tokens(tmp_path: Path, text: str) -> tuple[tls_tokens.Token, ...]:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    return tls_tokens.tokens(path)


def test_a_token_has_a_role_and_a_name(tmp_path: Path) -> None:
    found = tokens(tmp_path, f"# who\n\nviewer dashboard {A}\noperator ci {B}\n")
    assert [(one.role, one.name) for one in found] == [(Role.VIEWER, "dashboard"), (Role.OPERATOR, "ci")]
    assert tls_tokens.found_in(found, f"Bearer {B}") is found[1]
    assert tls_tokens.found_in(found, f"bearer  {A} ") is found[0]
    for header in ("", A, f"Basic {A}", f"Bearer {A}x", f"Bearer {A[:-1]}", "Bearer", "Bearer \xff", f"Bearer {A} {B}"):
        assert tls_tokens.found_in(found, header) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no token"),
        (f"operator {A}", "tokens:1: a line is ROLE NAME TOKEN"),
        (f"# x\nowner ci {A}", "tokens:2.*a role is viewer, operator or admin"),
        ("operator ci short", "tokens:1: a token has 20 characters"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_by_line_and_not_repeated(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        tokens(tmp_path, text)
    assert A not in str(caught.value)


def test_a_file_of_tokens_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tokens(tmp_path, f"viewer x {A}")
    (tmp_path / "tokens").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        tls_tokens.tokens(tmp_path / "tokens")


@pytest.mark.parametrize(
    ("text", "address"),
    [("10.0.0.5:7000", ("10.0.0.5", 7000)), ("[::1]:0", ("::1", 0)), ("node7:443", ("node7", 443))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert tls_tokens.address_of(text) == address


@pytest.mark.parametrize("text", ["7000", ":7000", "host", "host:", "host:70000", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        tls_tokens.address_of(text)
