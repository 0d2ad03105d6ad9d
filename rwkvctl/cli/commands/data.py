"""`rwkvctl data prepare`, `data own` and `data list`: run by the program of rwkv_data."""

from typing import NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import as_owner, become
from rwkvctl.cli.registry import verb
from rwkvctl.text.shell_words import as_typed


@verb
def data_prepare(context: Context, names: list[str] = [], *, from_: str = "", pool: str = "") -> NoReturn:  # noqa: B006
    """Prepare the rows of benchmarks, from your files or by download; without a name, of all but training sets.

    names: the benchmarks; a training set is prepared only when it is named
    from_: a folder or file that holds the raw rows
    pool: a file of few-shot examples, where it lies apart from the rows

    $ rwkvctl data prepare gsm8k mmlu
    $ rwkvctl data prepare gsm8k --from ~/datasets/gsm8k
    $ rwkvctl data prepare numina_math numina_amc_aime numina_olympiads
    """
    as_owner(context.config.data_dir, as_typed(["data", "prepare", *names, *(["--from", from_] if from_ else [])]))
    source = ["--from", from_] if from_ else []
    become("rwkv_data", "prepare", *names, *source, *(["--pool", pool] if pool else []), *common(context))


@verb
def data_own(context: Context, file: str, *, name: str = "", replace: bool = False, training: bool = False) -> NoReturn:
    """Make a benchmark from your own rows: questions with answers, or with choices and the letter of the right one.

    The name for dispatching goes to standard output. The first row, as it was read
    and as the prompt, is shown on standard error: check it.

    file: JSON lines, a JSON list, csv or parquet
    name: its name, after `own_` (default: the file's name)
    replace: replace a set of that name that has other rows
    training: rows to train on: the set runs only when it is named, and its scores are in no matrix and no report

    $ rwkvctl data own ~/sums.jsonl
    $ rwkvctl dispatch --only-datasets own_sums
    """
    as_owner(context.config.data_dir, as_typed(["data", "own", file]))
    named = ["--name", name] if name else []
    marks = [*(["--replace"] if replace else []), *(["--training"] if training else [])]
    become("rwkv_data", "own", file, *named, *marks, *common(context))


@verb
def data_list(context: Context) -> NoReturn:
    """Which rows are prepared, where they came from, their licences, and which sets are there to train on.

    $ rwkvctl data list
    """
    become("rwkv_data", "list", *(["--tabs"] if context.as_tabs else []), *common(context))


def common(context: Context) -> list[str]:
    """Return the flags for the program of rwkv_data: the home, and whether JSON is wanted."""
    return ["--home", str(context.config.home), *(["--json"] if context.as_json else [])]
