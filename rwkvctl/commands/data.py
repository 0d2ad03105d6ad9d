"""`rwkvctl data prepare` and `rwkvctl data list`: the data room's own program does both."""

from typing import NoReturn

from rwkvctl.context import Context
from rwkvctl.processes import become
from rwkvctl.verbs import verb


@verb
def data_prepare(context: Context, name: str, *, from_: str = "") -> NoReturn:
    """Prepare the rows of a benchmark: from files of yours, or downloaded.

    name: the benchmark
    from_: a folder or file that holds the raw rows

    $ rwkvctl data prepare gsm8k
    $ rwkvctl data prepare gsm8k --from ~/datasets/gsm8k
    """
    source = ["--from", from_] if from_ else []
    become("rwkv_data", "prepare", name, *source, *common(context))


@verb
def data_list(context: Context) -> NoReturn:
    """Which rows are prepared, where they came from, and their licences.

    $ rwkvctl data list
    """
    become("rwkv_data", "list", *common(context))


def common(context: Context) -> list[str]:
    """What the data room's program is told: the home, and whether JSON is wanted."""
    return ["--home", str(context.config.home), *(["--json"] if context.as_json else [])]
