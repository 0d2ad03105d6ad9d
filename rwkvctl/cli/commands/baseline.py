"""`rwkvctl baseline`: with which model each model is compared, and scores that others have measured."""

import os

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.score_files import score_file
from rwkvctl.cli.tables import baseline_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.quantities import several
from rwkvctl.text.sanitize import fit, safe_line

LONGEST = 400


@verb
def baseline(context: Context) -> int:
    """With which model the scores of each model are compared, and the models whose scores were given.

    A model that no pattern matches is compared with the one before it: of its size, by
    data version and date.

    $ rwkvctl baseline
    """
    answer = context.client.get("/v1/baselines")
    tables = [baseline_tables.pins(answer.value.get("pins", ())), baseline_tables.models(answer.value.get("items", ()))]
    context.show(answer, *tables)
    return Exit.OK


@verb
def baseline_pin(context: Context, model: str, *, for_: str = "*") -> int:
    """Compare the scores of models with those of this one, wherever a difference is shown.

    That is: in the console's matrix and on a running job, in reports, in `gate` without
    --baseline, and in the notification `regression` of targets that name no baseline.

    Of several patterns that match a model, a whole name counts first, then the pattern
    with the most fixed characters. No model is compared with itself.

    model: a model that has scores, measured or given
    for_: the models whose scores are compared with it, as a pattern of names (default: all)

    $ rwkvctl baseline pin rwkv7-g1d-1.5b
    $ rwkvctl baseline pin rwkv7-g1d-1.5b --for 'g1x-*'
    $ rwkvctl gate g1x-rwkv-12
    """
    if not model:
        raise UsageError("rwkvctl baseline pin: name a model; `rwkvctl scores` lists those that have scores.")
    return pin(context, model, for_)


@verb
def baseline_unpin(context: Context, pattern: str = "*") -> int:
    """Remove what was pinned for a pattern.

    pattern: as `rwkvctl baseline` shows it (default: that of all models)

    $ rwkvctl baseline unpin 'g1x-*'
    """
    return pin(context, "", pattern)


def pin(context: Context, model: str, pattern: str) -> int:
    """Pin a baseline, or remove a pin, and show all that are left."""
    answer = context.change("/v1/baselines/pin", {"model": model, "pattern": pattern})
    context.show(answer, baseline_tables.pins(answer.value.get("pins", ())))
    return Exit.OK


@verb
def baseline_add(context: Context, name: str, *, from_: str, check: bool = False) -> int:
    """Store scores that others have measured, to compare with.

    Reads the results file of lm_eval (results_DATE.json), as far as its tasks are those
    that our kinds of the profile lm-eval repeat, asked with as many examples. Or CSV with
    the columns benchmark, kind, metric, value and n, and maybe model; then the rows of
    this model are taken. Values are shares: 0.41 for 41 %. n is the number of rows.

    There are no samples, so a 95 % interval is from n alone, and a comparison is not
    paired (Fisher's exact test): it shows only large differences, and says so. It needs
    scores of the same kind over as many rows.

    All scores of the file are stored, or, if one is wrong, none. The same numbers again
    are not stored twice; others of the same benchmark and kind are a new version.
    `rwkvctl delete JOB` removes one.

    name: what the model is called in scores and comparisons
    from_: the file
    check: only show what would be stored

    $ rwkvctl baseline add qwen2.5-1.5b --from results_2026-11-20.json --check
    $ rwkvctl baseline add qwen2.5-1.5b --from published.csv
    $ rwkvctl compare qwen2.5-1.5b rwkv7-g1d-1.5b
    """
    found = score_file.read(from_, name)
    body = {
        "baseline": name, "program": found.program, "source": os.path.basename(from_), "sha256": found.sha256,  # noqa: PTH119 - as in the whole module: no pathlib
        "scores": found.scores, "check": check,
    }  # fmt: skip
    answer = context.change("/v1/baselines", body)
    items = answer.value.get("items", ())
    new = sum(item["outcome"] != "there" for item in items)
    there = f", {several(len(items) - new, 'score')} there already" if len(items) > new else ""
    said = f"{several(new, 'score')} of {answer.value['model']} {'would be added' if check else 'added'}{there}"
    context.show(answer, baseline_tables.given(items), headline=[said, ""])
    for text in found.left_out:
        context.say(fit(safe_line(f"left out: {text}"), LONGEST))
    return Exit.OK
