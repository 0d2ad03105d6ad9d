"""`rwkvctl queue`: the dry run."""

from rwkvctl import judgeviews, selection, views
from rwkvctl.context import Context
from rwkvctl.judgeviews import paid_line
from rwkvctl.protocol.errors import Exit
from rwkvctl.protocol.states import REASONS
from rwkvctl.render import joined
from rwkvctl.selection import Filters
from rwkvctl.verbs import verb


@verb
def queue(context: Context, filters: Filters) -> int:
    """What `dispatch` with the same flags would do, and why; changes nothing.

    Every (model, benchmark, kind) has one row with one reason, in the order of dispatch. The plan's hash, given to
    `dispatch --plan`, makes sure that this plan and no other is carried out. EST is how long one engine would work on a
    row, START and WHERE when and where it is expected to begin, behind what is queued by now: by what the same work
    took before, or the same benchmark with other models. A dash says that nothing like it was ever measured. Where the
    judge or the checker would be asked, calls, tokens, cost and the budget that is left follow.

    $ rwkvctl queue --models builtin
    $ rwkvctl queue --model-regex 'g1.*2.9b' --only-datasets gsm8k ifeval --limit 100
    """
    answer = context.client.post(
        "/v1/plan", {"selection": selection.body(filters, str(context.config.home), str(context.config.weights_dir))}
    )
    reply = answer.value
    counted = joined(f"{number} {reason}" for reason, number in reply["counts"].items() if number) or "nothing"
    headline = (
        f"{reply['models']} models × {reply['benchmarks']} benchmarks: {counted} · plan {reply['hash'][:12]} "
        f"in {reply['computed_ms']:.0f} ms" + (f" · {whole}" if (whole := views.whole(reply)) else "")
    )
    tables = [views.plan(reply["rows"])]
    if not context.as_tabs:
        tables += [judgeviews.paid(reply["paid"])] if reply.get("paid") else []
        tables.append(views.reasons(reply["rows"], REASONS))
    context.show(answer, *tables, headline=[headline, ""])
    for item in reply.get("paid", ()) if context.as_tabs else ():
        context.say(paid_line(item))
    for note in reply.get("notes", ()):
        context.say(f"note: {note}")
    return Exit.OK
