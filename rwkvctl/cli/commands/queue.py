"""`rwkvctl queue`: show what `dispatch` with the same flags would do, and change nothing."""

import json
from typing import Final

from rwkvctl.cli import selection, show_files
from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import joined
from rwkvctl.cli.selection import Filters
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
    """Show what `dispatch` with the same flags would do, and why; queues nothing.

    Every (model, benchmark, kind) has one row with one reason, in the order of dispatch. With the plan's hash,
    `dispatch --plan` runs exactly this plan or refuses. EST is the estimated time on one engine; START and WHERE are
    when and on which device the job is expected to start, behind the jobs that are queued now. Estimates come from
    earlier runs of the same job, or of the same benchmark with other models; a dash means no history. If jobs need the
    judge or the checker, calls, tokens, cost and remaining budget follow.

    An order file (--set order=FILE) is kept on the node, as by `dispatch`.

    Of a long plan only the first rows are shown, without START and WHERE, and how to see more.

    after: skip this many rows
    all_: every row

    $ rwkvctl queue --models builtin
    $ rwkvctl queue --model-regex 'g1.*2.9b' --only-datasets gsm8k ifeval --limit 100
    $ rwkvctl queue --suite nightly
    """
    wanted = selection.body(filters, str(context.config.home), str(context.config.weights_dir))
    selection.check_daemon(context.client, wanted)
    wanted = selection.with_order_kept(context.client, wanted)
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
        context.say(
            f"… and {reply['total'] - shown:,} more: --after {shown} shows the next ones, --all shows every row"
        )
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
