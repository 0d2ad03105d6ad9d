"""`rwkvctl decontaminate`: run by the program of rwkv_data."""

from typing import NoReturn

from rwkvctl.cli.commands.data import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import verb


@verb
def decontaminate(
    context: Context, file: str, *, to: str = "", field: list[str] = [], require_checked: bool = False,  # noqa: B006
    replace: bool = False,
) -> NoReturn:  # fmt: skip
    """Find the rows of a training file that are near a row of a benchmark, and those that repeat another.

    Compared with is every prepared benchmark that is not for training, your own
    included; those that are not prepared are listed. What counts are words: NFKC,
    lower case, no punctuation. A row is dropped if its problem has a run of 13
    words that a benchmark's row has, or half of its runs of 8 words in one row, or
    the same words as one. It is dropped as a duplicate if it has the same words as
    an earlier row, or shares with it 4 in 5 of the runs of 5 words that either has.

    FILE is JSON lines (.jsonl, .jsonl.gz) or parquet. With --to the rows that stay
    are written, unchanged and in order, and beside them FILE.dropped.jsonl with a
    line for each dropped row: where it stood, why, the benchmark, its row, and the
    words they share. Without --to there is only the report.

    Exit code: 0 nothing is near a benchmark, or the file is written; 1 rows are
    near a benchmark and there is no --to; 5 not every benchmark can be checked
    (--require-checked), or a file is there already.

    file: the training rows
    to: the file to write
    field: the field that holds the problem, or several that together are it (default: found by the first row)
    require_checked: refuse if a benchmark is not prepared
    replace: replace existing files

    $ rwkvctl decontaminate train.jsonl
    $ rwkvctl decontaminate train.jsonl --to clean.jsonl --require-checked
    $ rwkvctl decontaminate rows.parquet --field problem --to clean.parquet
    """
    words = [*(["--to", to] if to else []), *(["--field", *field] if field else [])]
    words += [*(["--require-checked"] if require_checked else []), *(["--replace"] if replace else [])]
    become("rwkv_data", "decontaminate", file, *words, *common(context))
