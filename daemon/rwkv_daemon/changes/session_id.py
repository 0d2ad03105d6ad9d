"""Names of sessions: jobs that were queued, or imported, together."""

import secrets
from datetime import UTC, datetime


def new_session_id() -> str:
    """Return a session id that says when it began: 20261128_163445_1f2e."""
    return f"{datetime.now(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(2)}"
