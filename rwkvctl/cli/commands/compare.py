"""`rwkvctl compare`: is B better than A?"""

from typing import Final

from rwkvctl.cli.context import Context
from rwkvctl.cli.long_reads import compared
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import comparison_tables
from rwkvctl.protocol.errors import Exit

MOST_FLIPS: Final = 1000


@verb
def compare(
    context: Context, a: str, b: str, *, benchmark: list[str] = [], kind: list[str] = [], alpha: float = 0.05,  # noqa: B006
    flips: bool = False, force: bool = False,
) -> int:  # fmt: skip
    """Compare two models, jobs or versions on the same rows: better, worse, inconclusive or not comparable.

    A and B are models (their newest scores count, own ones before imported
    ones), jobs (j12), or MODEL@VERSION. Samples are paired row by row: one
    right-or-wrong answer a row is tested by McNemar's exact test, anything
    else by a paired bootstrap of 10,000 resamples with a fixed seed. p is
    adjusted over all benchmarks that were compared (Holm), so that many of
    them do not make a difference appear. The difference is B minus A; its
    95 % interval has a width even where no row differs.

    Scores of other rows, prompts, k, sampling, numerics, graders, limits or
    benchmark versions are not compared; each field that differs is named.
    --force compares them anyway, on the rows that both have, and says so. A
    score that is null is never compared, that of a training set only where
    --benchmark or a job names it.

    A score that was given without samples (`rwkvctl baseline add`) is compared
    with one of the same kind over as many rows, by its value alone: Fisher's
    exact test, not paired, which shows only large differences and is marked so.

    Exit code: 0 all compared, 8 only some, 5 nothing is comparable.

    a: a model, a job or MODEL@VERSION
    b: another; the verdict is on this one
    benchmark: only these benchmarks
    kind: only these kinds
    alpha: the error rate of the whole family of tests
    flips: list the rows on which one side does better (1,000 a benchmark at most)
    force: also compare what is not comparable

    $ rwkvctl compare rwkv7-g1a-0.4b-20250905 rwkv7-g1d-0.4b-20260210
    $ rwkvctl compare j12 j40 --flips
    $ rwkvctl compare builtin@1 builtin@2 --benchmark gsm8k --json
    """
    body = comparison_tables.body(a, b, benchmark, kind, alpha=alpha, force=force)
    answer = compared(context.client, body | {"flips": MOST_FLIPS if flips else 0})
    reply = answer.value
    tables = [comparison_tables.table(reply["items"])]
    tables += [comparison_tables.flips(reply["items"])] if flips else []
    context.show(answer, *tables, headline=comparison_tables.headline(reply))
    if not context.as_json:
        comparison_tables.explain(context, reply)
    return exit_code(reply["counts"])


def exit_code(counts: dict[str, int]) -> int:
    """Return the exit code: all, some or nothing could be compared."""
    compared = sum(number for verdict, number in counts.items() if verdict != "not comparable")
    if not compared:
        return Exit.REFUSED
    return Exit.PARTLY if counts.get("not comparable") else Exit.OK
