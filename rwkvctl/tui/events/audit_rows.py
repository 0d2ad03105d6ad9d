"""The audit trail as rows: changes, who made them, and their outcome. Pure."""

from typing import Final

import msgspec

from rwkvctl.cli.render import Cell, clock
from rwkvctl.cli.tables.audit_table import ROLES
from rwkvctl.protocol.audit import AuditView
from rwkvctl.tui.widgets.table_columns import Column


def outcome(row: AuditView) -> Cell:
    """Return the outcome as a cell, in the colour that ROLES gives to the word before a colon."""
    return Cell(row.outcome, ROLES.get(row.outcome.partition(":")[0], ""))


COLUMNS: Final[tuple[Column[AuditView], ...]] = (
    Column("DATE", lambda row: Cell(row.at[5:10], "dim"), 5, rank=2, value=lambda row: row.at),
    Column("AT", lambda row: Cell(clock(row.at), "dim"), 8, value=lambda row: row.at),
    Column("USER", lambda row: Cell(row.user, "bold"), 10, cut="middle"),
    Column("VERB", lambda row: row.verb, 12),
    Column("TARGET", lambda row: row.target, 16, least=8, grow=2),
    Column("OUTCOME", outcome, 16, least=10, grow=1),
    Column("UID", lambda row: "–" if row.uid < 0 else str(row.uid), 6, rank=3, right=True, value=lambda row: row.uid),
    Column("PID", lambda row: str(row.pid or "–"), 7, rank=4, right=True, value=lambda row: row.pid),
    Column("#", lambda row: Cell(str(row.id), "dim"), 6, rank=5, right=True, value=lambda row: row.id),
)


def asked(row: AuditView) -> str:
    """Return the request of an entry in one line."""
    return msgspec.json.encode(row.data).decode() if row.data else "no details recorded"
