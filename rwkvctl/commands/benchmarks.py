"""`rwkvctl benchmarks` and `rwkvctl benchmarks show`."""

from typing import NoReturn

from rwkvctl import views
from rwkvctl.context import Context
from rwkvctl.processes import become
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def benchmarks(context: Context, *, ready: bool = False) -> int:
    """The catalogue: every benchmark, its kinds, and whether its rows are prepared.

    ready: in tables, only those whose rows are prepared

    $ rwkvctl benchmarks
    """
    answer = context.client.get("/v1/benchmarks")
    items = [item for item in answer.value["items"] if item.get("ready") or not ready]
    context.show(answer, views.benchmarks(items))
    return Exit.OK


@verb
def benchmarks_show(context: Context, name: str) -> NoReturn:
    """One benchmark in full: prompts, sampling, grader, sources.

    name: the benchmark

    $ rwkvctl benchmarks show gsm8k
    """
    become("rwkv_data", "show", name, "--home", str(context.config.home), *(["--json"] if context.as_json else []))
