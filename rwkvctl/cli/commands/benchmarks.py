"""`rwkvctl benchmarks`, `benchmarks show` and `benchmarks diff`."""

from typing import NoReturn

from rwkvctl.cli.commands.data import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import Exit


@verb
def benchmarks(context: Context, *, ready: bool = False) -> int:
    """The catalogue: every benchmark, its kinds, and whether its rows are prepared.

    A training set (USE) runs only when `--only-datasets` names it, and its scores are in no matrix and no report.

    ready: in tables, only those whose rows are prepared

    $ rwkvctl benchmarks
    """
    answer = context.client.get("/v1/benchmarks")
    items = [item for item in answer.value["items"] if item.get("ready") or not ready]
    context.show(answer, core_tables.benchmarks(items))
    return Exit.OK


@verb
def benchmarks_show(context: Context, name: str, kind: str = "", *, count: int = 3, raw: bool = False) -> NoReturn:
    """One benchmark in detail: the first prompts exactly as they are sent, sampling, stops, grader, k, rows, licence.

    name: the benchmark
    kind: one of its kinds (default: the first)
    count: number of rows to show
    raw: prompts as Python literals, which show every blank and line end

    $ rwkvctl benchmarks show gsm8k
    $ rwkvctl benchmarks show mmlu multi_choice_plain.lm-eval --count 1 --raw
    """
    words = [name, *([kind] if kind else []), "--count", str(count), *(["--raw"] if raw else [])]
    become("rwkv_data", "show", *words, *common(context))


@verb
def benchmarks_diff(context: Context, name: str, one: str, other: str, *, row: int = 0) -> NoReturn:
    """How the prompts, sampling and stops of two kinds differ, for one row.

    name: the benchmark
    one: a kind
    other: another kind
    row: which row

    $ rwkvctl benchmarks diff gsm8k free_response free_response.lm-eval
    """
    become("rwkv_data", "diff", name, one, other, "--row", str(row), *common(context))
