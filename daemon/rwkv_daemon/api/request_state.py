"""State that request handlers share: access rights, remembered replies, and changes that are still being made."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from rwkv_daemon.api.grants import Grants
from rwkv_daemon.api.last_known import LastReplies
from rwkv_daemon.api.shared_status import SharedStatus
from rwkv_daemon.store.queries.bulk import BulkOrder


@dataclass(slots=True)
class RequestState:
    """Access rights, remembered replies, and changes that are still being made."""

    grants: Grants = field(default_factory=Grants)
    last_replies: LastReplies = field(default_factory=LastReplies)
    shared_status: SharedStatus = field(default_factory=SharedStatus)
    orders: dict[str, BulkOrder] = field(default_factory=dict)
    """Bulk changes that are being made, by their request ids."""

    ordered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a bulk change was stored."""

    underway: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    """Changes that are being made, by their request ids."""

    subjects: dict[int, Sequence[str]] = field(default_factory=dict)
    """Job id -> the subject of each of its rows; filled when samples of the job are looked through."""

    row_names: dict[int, Sequence[str]] = field(default_factory=dict)
    """Job id -> what each of its rows is called; filled when samples of the job are looked at."""
