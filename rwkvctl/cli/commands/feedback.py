"""`rwkvctl feedback`: what a checkpoint of a training run is good and bad at."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal

from rwkvctl.cli import long_reads
from rwkvctl.cli.commands.watch import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Column, Table
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import safe_line

WIDE: Final = frozenset({"95 %", "rows", "p", "cut off", "no answer"})
CUT: Final = frozenset({"benchmark", "checkpoint"})


@verb
def feedback(
    context: Context, watch: str, checkpoint: str = "", *, step: int | None = None, best: bool = False,
    reveal: bool = False, format: Literal["md", "json"] = "md",  # noqa: A002 - the flag's name
) -> int:  # fmt: skip
    """What a checkpoint of a training run is good and bad at.

    Shows what was measured and what was not, each score with its interval, the difference
    to the pinned baseline and to the best checkpoint so far (paired tests, p adjusted over
    the benchmarks), and samples that it gets wrong, those first that were right there.
    Without a name it is the newest checkpoint that is measured.

    The best so far is the first one until a later one is shown to be better by the suite's
    `objective`, and so on.

    The daemon writes the same page when the jobs of a checkpoint are over, to
    feedback/NAME/MODEL/feedback.md and .json in its home, NAME being that of the watch, and
    that of the newest checkpoint to feedback/NAME.

    Where the suite says `hold_back`, all this is of 40 % of the rows. --reveal shows the
    others, and the audit trail keeps who asked for it.

    watch: w1, the name of its models, or the folder
    checkpoint: as `watch show` names it, or its model
    step: the checkpoint of this step
    best: the best checkpoint so far
    reveal: the rows that are held back
    format: a page of Markdown, or JSON

    $ rwkvctl feedback w1
    $ rwkvctl feedback w1 rwkv-12.pth --format json
    $ rwkvctl feedback w1 --best
    """
    if step is not None and step < 0:
        raise UsageError("rwkvctl feedback: --step must not be below 0.")
    as_json = context.as_json or format == "json"
    which = {"checkpoint": checkpoint, "step": -1 if step is None else step, "best": best, "page": not as_json}
    name = named(context, watch)
    if reveal:
        answer = context.client.post("/v1/watches/reveal", {"watch": name} | which, long_reads.PATIENCE_S)
    else:
        answer = long_reads.feedback(context.client, name, which)
    if as_json:
        context.terminal.json(answer.raw.decode(errors="replace"))
        return Exit.OK
    if reveal:
        context.say("The audit trail says that you have seen the rows that were held back.")
    show(context, answer.value.get("page", ()))
    return Exit.OK


def show(context: Context, page: Sequence[str]) -> None:
    """Write a page of Markdown; where tables are for eyes, they are fitted to the width."""
    for is_table, lines in groupby(page, lambda line: line.startswith("|")):
        found = list(lines)
        rows = [cells(line) for line in found]
        if is_table and not context.as_tabs and len(rows) > 2 and len({*map(len, rows)}) == 1:
            columns = [Column(name.upper(), wide=name in WIDE, cut="middle" if name in CUT else "") for name in rows[0]]
            context.tables(Table(columns, list(rows[2:])))
            continue
        for line in found:
            context.terminal.line(safe_line(line))


def cells(line: str) -> list[str]:
    """Return the texts in a line of a table of Markdown."""
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
