"""`rwkvctl order`: the rows of a benchmark from the easiest on, and files of them for `--set order=FILE`."""

import math
from pathlib import Path
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import LONGEST
from rwkvctl.cli.selection import LARGEST_ORDER, fits_request, names_file
from rwkvctl.cli.tables import order_table
from rwkvctl.export.output import refuse_existing, whole_file
from rwkvctl.protocol.errors import Exit
from rwkvctl.protocol.training.orders import BY_RATE
from rwkvctl.text.sanitize import fit, safe_line
from rwkvctl.text.shell_words import as_typed

READ_S: Final = 600.0
"""Of a million samples the verdicts are read."""
BESIDE: Final = ".json"


@verb
def order(
    context: Context, jobs: list[str], *, by: str = "pass-rate", band: list[float] = [], to: str = "",  # noqa: B006
    force: bool = False,
) -> int:  # fmt: skip
    """The rows that finished jobs asked, from the easiest on, with the share of right samples of each.

    By pass-rate, the highest comes first; samples of several jobs count together, with the
    grades that they have now. By a field or labels that hold numbers, such as a difficulty,
    the lowest comes first. Rows that are equally easy stand in the order of their ids.

    --to writes the ids to a file, one a line, and beside it (FILE.json) the rates, with how
    many samples each is of. `--set order=FILE` then has `dispatch` ask exactly these rows,
    in this order; --limit takes the first of them.

    jobs: finished jobs of one benchmark
    by: pass-rate, or a field or labels of the rows, as `rwkvctl benchmarks show` lists them
    band: two numbers: only rows whose pass-rate (0 to 1), or number, lies from one to the other
    to: the file to write
    force: replace existing files

    $ rwkvctl order j12 --by pass-rate --band 0.1 0.9 --to gsm8k.order.txt
    $ rwkvctl dispatch --only-datasets gsm8k --set order=gsm8k.order.txt
    $ rwkvctl order j12 j15 --by difficulty --band 4 8
    """
    body: Record = {"jobs": named(jobs), "by": by} | bounds(by, band)
    if to:
        check_place(Path(to), force=force)
    answer = context.client.post("/v1/orders/of-jobs", body, READ_S)
    if to:
        with whole_file(Path(to + BESIDE), force=force) as rates, whole_file(Path(to), force=force) as ids:
            rates.write(answer.raw.decode() + "\n")
            ids.writelines(f"{row['id']}\n" for row in answer.value["rows"])
    if context.as_json or not to:
        context.show(answer, order_table.rows(answer.value))
    said = context.terminal.line if to and not context.as_json else context.say
    for line in [*lines(answer.value), *(lines_about_file(answer.value, to) if to else ())]:
        said(fit(safe_line(line), LONGEST))
    return Exit.OK


def bounds(by: str, band: list[float]) -> dict[str, float]:
    """Return the band as a request has it. Raises UsageError."""
    if not band:
        return {}
    if len(band) != 2 or not all(map(math.isfinite, band)) or band[0] > band[1]:
        raise UsageError("rwkvctl order: --band takes two numbers, the lower one first.")
    if by == BY_RATE and not 0 <= band[0] <= band[1] <= 1:
        raise UsageError("rwkvctl order: pass-rates go from 0 to 1, as in --band 0.1 0.9.")
    return {"low": band[0], "high": band[1]}


def check_place(path: Path, *, force: bool) -> None:
    """Raise UsageError or RefusedError, before anything is computed, if files cannot be written there."""
    if path.is_dir():
        raise UsageError(f"rwkvctl order: {path} is a folder; name the file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"rwkvctl order: there is no folder {path.parent}.")
    for one in (path, Path(f"{path}{BESIDE}")) if not force else ():
        refuse_existing(one)


def lines(found: Record) -> list[str]:
    """Return what was ordered and what was left out, in sentences."""
    first = "highest" if found["by"] == BY_RATE else "lowest"
    rows, asked, by = f"{len(found['rows']):,}", f"{found['asked']:,}", found["by"]
    said = [f"{rows} of {asked} rows of {found['benchmark']} by {by}, the {first} first"]
    if left := ", ".join(f"{count:,} {why}" for why, count in found["left_out"].items()):
        said.append(f"left out: {left}")
    return said


def lines_about_file(found: Record, to: str) -> list[str]:
    """Return where the order was written, and the command that asks the jobs' models these rows."""
    written = f"written to {to}, the rates to {to}{BESIDE}"
    if not fits_request([row["id"] for row in found["rows"]]):
        most = f"--set order=FILE takes {LARGEST_ORDER >> 20} MiB at most, as JSON"
        return [written, f"{most}: choose a narrower --band to have these rows asked"]
    models, kinds = ({job[name]: None for job in found["jobs"]} for name in ("model", "kind"))
    only = ["--only-datasets", found["benchmark"], "--only-jobs", *kinds]
    words = ["rwkvctl", "dispatch", "--models", *models, *only, "--set", f"order={to if names_file(to) else './' + to}"]
    return [written, f"to ask these rows in this order: {as_typed(words)}"]
