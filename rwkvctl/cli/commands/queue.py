"""`rwkvctl queue`: show what `dispatch` with the same flags would do, and change nothing."""

import json
from typing import Final

from rwkvctl.cli import filters as selection
from rwkvctl.cli import show_files
from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.filters import Filters
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import joined
from rwkvctl.cli.tables import core_tables, judge_tables
from rwkvctl.cli.tables.judge_tables import paid_line
from rwkvctl.protocol.errors import Exit
from rwkvctl.protocol.states import REASONS
from rwkvctl.text.quantities import several

PAGE: Final = 200
WIDE: Final = 1000
WHOLE_S: Final = 300.0
"""A plan of very many rows takes a while to be summed up."""


@verb
def queue(context: Context, filters: Filters, *, after: int = 0, all_: bool = False) -> int:
    """What `dispatch` with the same flags would do, and why; changes nothing.

    Every (model, benchmark, kind) has one row with one reason, in the order of dispatch. The plan's hash, given to
    `dispatch --plan`, makes sure that this plan and no other is carried out. EST is how long one engine would work on a
    row, START and WHERE when and where it is expected to begin, behind what is queued by now: by what the same work
    took before, or the same benchmark with other models. A dash: such a job has no history. Where the
    judge or the checker would be asked, calls, tokens, cost and the budget that is left follow.

    Of a long plan the first rows are shown, and how to see more; START and WHERE are then not said.

    after: go on after so many rows
    all_: every row

    $ rwkvctl queue --models builtin
    $ rwkvctl queue --model-regex 'g1.*2.9b' --only-datasets gsm8k ifeval --limit 100
    """
    wanted = selection.body(filters, str(context.config.home), str(context.config.weights_dir))
    show_files.show_selected(context.client, wanted)
    answer = context.client.post("/v1/plan", {"selection": wanted, "limit": PAGE, "after": max(0, after)})
    if is_partial := not answer.value["hash"]:
        answer = whole_of(context, wanted, answer.value, every=all_)
    reply = answer.value
    counted = joined(f"{number} {reason}" for reason, number in reply["counts"].items() if number) or "nothing"
    pairs = f"{several(reply['models'], 'model')} × {several(reply['benchmarks'], 'benchmark')}"
    headline = f"{pairs}: {counted} · plan {reply['hash'][:12]} in {reply['computed_ms']:.0f} ms"
    headline += f" · {whole}" if (whole := core_tables.whole(reply)) else ""
    tables = [] if is_partial and not context.as_json else [core_tables.plan(reply["rows"])]
    if not context.as_tabs:
        tables += [judge_tables.paid(reply["paid"])] if reply.get("paid") else []
        tables.append(core_tables.reasons(reply["rows"], REASONS))
    context.show(answer, *tables, headline=[headline, ""])
    for item in reply.get("paid", ()) if context.as_tabs else ():
        context.say(paid_line(item))
    if reply.get("next"):
        shown = reply["next"]
        context.say(f"… and {reply['total'] - shown:,} more: --after {shown} goes on, --all shows every row")
    for note in reply.get("notes", ()):
        context.say(f"note: {note}")
    return Exit.OK


def whole_of(context: Context, wanted: Record, page: Record, *, every: bool) -> Answer:
    """A page of a plan that has more rows, or with it all after it, as one reply with what is said of all rows. The
    rows are shown as they come."""
    rows: list[Record] = []
    while True:
        rows += page["rows"]
        if not context.as_json:
            context.tables(core_tables.plan(page["rows"]))
        if not every or not page.get("next"):
            break
        page = context.client.post("/v1/plan", {"selection": wanted, "limit": WIDE, "after": page["next"]}).value
    whole = context.client.post("/v1/plan", {"selection": wanted, "rows": False}, WHOLE_S).value
    value = whole | {"rows": rows, "next": page.get("next", 0)}
    return Answer(json.dumps(value).encode(), value)
