"""`rwkvctl doctor`: report what is missing on this machine and how to get it."""

from typing import Final

from rwkvctl.cli.context import Context
from rwkvctl.cli.doctor import CheckResult, Verdict, examine
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Cell, Column, Role, Table
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import fit, safe_line

VERDICTS: Final[dict[Verdict, tuple[str, Role]]] = {
    "ok": ("✓", "ok"), "missing": ("✗", "bad"), "optional": ("–", "warn"),
}  # fmt: skip


@verb
def doctor(context: Context) -> int:
    """What is missing on this machine, what that means, and how to get it.

    Exit code 1 if something is missing that a node needs.

    $ rwkvctl doctor
    """
    found = list(examine(context.config, context.client))
    if context.as_json or context.as_tabs:
        rows: list[list[str | Cell]] = [[item.name, item.verdict, item.what, item.remedy] for item in found]
        table = Table([Column("CHECK"), Column("STATE"), Column("WHAT"), Column("REMEDY")], rows)
        context.show_local("rwkvctl.doctor/1", {"items": [item._asdict() for item in found]}, table)
    else:
        for item in found:
            draw(context, item)
    return Exit.FAILED if any(item.verdict == "missing" for item in found) else Exit.OK


def draw(context: Context, item: CheckResult) -> None:
    """Print one finding, and below it the remedy."""
    mark, role = VERDICTS[item.verdict]
    context.terminal.line(fit(f"{mark} {item.name:<20} {safe_line(item.what)}", context.terminal.width), role)
    if item.remedy:
        context.terminal.line(f"  {'':<20} → {safe_line(item.remedy)}")
