"""`rwkvctl doctor`."""

from typing import Final

from rwkvctl.context import Context
from rwkvctl.doctor import Verdict, examine
from rwkvctl.protocol.errors import Exit
from rwkvctl.render import Cell, Column, Table
from rwkvctl.verbs import verb

VERDICTS: Final[dict[Verdict, Cell]] = {
    "ok": Cell("✓ ok", "ok"), "missing": Cell("✗ missing", "bad"), "optional": Cell("– absent", "warn"),
}  # fmt: skip


@verb
def doctor(context: Context) -> int:
    """What is missing on this machine, what that means, and how to get it.

    Exit code 1 if something is missing that a node needs.

    $ rwkvctl doctor
    """
    found = list(examine(context.config, context.client))
    rows = [[Cell(item.name, "bold"), VERDICTS[item.verdict], item.what, Cell(item.remedy, "info")] for item in found]
    columns = [Column("CHECK"), Column("STATE"), Column("WHAT", cut="end"), Column("HOW TO GET IT", cut="end")]
    context.show_local("rwkvctl.doctor/1", {"items": [item._asdict() for item in found]}, Table(columns, rows))
    return Exit.FAILED if any(item.verdict == "missing" for item in found) else Exit.OK
