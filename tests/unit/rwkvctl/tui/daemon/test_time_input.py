"""Moments as an operator types them."""

from datetime import UTC, datetime

import pytest

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.tui.daemon.time_input import moment

NOW = datetime(2026, 11, 22, 10, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02:58", "2026-11-22T02:58:00.000Z"),
        ("@02:58:41", "2026-11-22T02:58:41.000Z"),
        ("10:31", "2026-11-21T10:31:00.000Z"),
        ("-2h", "2026-11-22T08:30:15.000Z"),
        ("90s", "2026-11-22T10:28:45.000Z"),
        ("11-21 02:58", "2026-11-21T02:58:00.000Z"),
        ("12-24 18:00", "2025-12-24T18:00:00.000Z"),
        ("2026-11-01T12:00Z", "2026-11-01T12:00:00.000Z"),
    ],
)
def test_it_is_the_last_one_before_now(text: str, expected: str) -> None:
    assert moment(text, NOW) == expected


@pytest.mark.parametrize("text", ["25:00", "10:61", "02-30 10:00", "soon", "", "-x"])
def test_what_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises((RwkvctlError, ValueError), match=r"\w"):
        moment(text, NOW)
