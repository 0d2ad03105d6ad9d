"""`rwkvctl search`: what a search for sampling settings found, and the point that several share as their best."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import judge_tables
from rwkvctl.protocol.errors import Exit


@verb
def search(context: Context, job: str, *, limit: int = 20) -> int:
    """The points of a search, best first, with intervals and the number of rows of each.

    A search is a job of a kind param_search_…: `rwkvctl dispatch --only-jobs param_search_free_response`. Its grid is a
    setting (`--set grid.temperature=0.3,0.6`). Points that are worse are stopped early.

    job: the search's job
    limit: at most this many points

    $ rwkvctl search j12
    """
    answer = context.client.get("/v1/search", job=job)
    context.show(answer, judge_tables.points(answer.value["points"][:limit]))
    return Exit.OK


@verb
def search_select(context: Context, model: str, *, benchmarks: list[str] = [], dispatch: bool = False) -> int:  # noqa: B006
    """Choose the best point over several searches of a model, record it, and show how to measure it.

    The point is chosen on the rows set aside for searching, so its value there is optimistic: measure it on the others
    (--set part=report), which --dispatch queues at once.

    model: the model
    benchmarks: the searches to take into account (default: the newest of every benchmark)
    dispatch: queue the measurement of the chosen point on the rows that the search has not seen

    $ rwkvctl search select rwkv7-g1d-2.9b --dispatch
    """
    body = {"model": model, "benchmarks": benchmarks, "dispatch": dispatch}
    answer = context.change("/v1/search/select", body)
    reply = answer.value
    context.show(answer, judge_tables.promotion(reply))
    if reply.get("session"):
        context.say(f"session {reply['session']}: {', '.join(reply['jobs'])}")
    return Exit.OK
