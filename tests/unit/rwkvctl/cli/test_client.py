"""What the CLI's HTTP client makes of bytes, and of paths."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rwkvctl.cli.client import API_MAX, API_MIN, lines, segment, target
from rwkvctl.protocol.routes import PROTOCOL


def test_versions_are_those_of_the_messages() -> None:
    assert API_MIN <= PROTOCOL <= API_MAX


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=9)), st.integers(1, 9))
def test_lines_do_not_depend_on_pieces(parts: list[bytes], size: int) -> None:
    text = b"\n".join(part.replace(b"\n", b"") for part in parts) + b"\n"
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    assert list(lines(iter(pieces))) == [line for line in text.split(b"\n") if line.strip()]


def test_paths_are_quoted() -> None:
    assert segment("a/b c?") == "a%2Fb%20c%3F"
    assert (
        target("/v1/jobs", {"state": None, "session": "", "wrong": True, "limit": 0}) == "/v1/jobs?wrong=true&limit=0"
    )
