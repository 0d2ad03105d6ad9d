"""`rwkvctl import`: results of rwkv-skills, as scores beside ours."""

import os
from collections.abc import Iterable
from glob import escape, glob

from rwkvctl.cli import show_files
from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Cell, Column, Role, Table, joined
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.quantities import count

# ruff: noqa: PTH111, PTH118, PTH119, PTH120, PTH122, PTH207
# pathlib would double the start-up of every verb

PATIENCE_S = 6 * 3600.0
ROLES: dict[str, Role] = {
    "imported": "ok", "would-import": "info", "there": "dim", "replaced": "ok", "would-replace": "warn",
    "refused": "bad",
}  # fmt: skip


@verb
def import_(context: Context, path: str, *, dry_run: bool = False, overwrite: bool = False) -> int:
    """Import scores and samples of rwkv-skills from files on the node.

    Reads its v3 files (scores/, eval/ and completions/ under a results
    folder), its old JSON summaries, and its database as the exporter writes
    it (results/TABLE/MODEL/DATASET.jsonl); trials of a parameter search are
    left out. The daemon reads the files, so its user must be able to read
    them, and you must be, too: files that you cannot read are not imported.

    Each score becomes a job that is done, shown by `scores`, `samples` and
    `compare`, with "imported" as its numerics and the source and its own
    metrics in its provenance. It does not replace a measurement: a dispatch
    still runs the job. Statistics are computed from the samples where they are there;
    where they disagree with the metrics that came along, both are shown.

    A score is stored completely or not at all, and a bad line is named by file
    and number. Scores that were imported before are left alone; with
    --overwrite they are imported again, as another job, and replace what came
    from the same file, or from files with the same contents.

    Exit code: 0 all imported, 8 some refused, 4 the path does not exist or the
    daemon cannot read it.

    path: a results folder, or one file of it
    dry_run: only show what would be imported
    overwrite: import again what was imported before, and replace it

    $ rwkvctl import ~/rwkv-skills/results --dry-run
    $ rwkvctl import ~/rwkv-skills/results
    $ rwkvctl import results_old/cot_gsm8k.json
    """
    place = os.path.realpath(os.path.expanduser(path))
    body = {"path": place, "dry_run": dry_run, "overwrite": overwrite}
    show_files.show(context.client, with_companions(place))
    answer = context.change("/v1/import", body, PATIENCE_S)
    reply = answer.value
    found = joined(f"{number} {outcome}" for outcome, number in reply["counts"].items()) or "no results"
    context.show(answer, table(reply["items"]), headline=[f"{reply['path']}: {found}", ""])
    if not context.as_json:
        say_more(context, reply)
    return Exit.PARTLY if reply["counts"].get("refused") else Exit.OK


def with_companions(path: str) -> list[str]:
    """Return the paths that the daemon must see for an import: the path, and for one file of a score
    (RESULTS/KIND/MODEL/NAME) also its other files, which lie in neighbouring folders."""
    (kind, model), name = os.path.split(os.path.dirname(path)), os.path.basename(path)
    results, stem = os.path.dirname(kind), os.path.splitext(name)[0].removesuffix("_results")
    return (
        [path, *glob(os.path.join(escape(results), "*", escape(model), f"{escape(stem)}*"))]
        if results != "/"
        else [path]
    )


def table(items: Iterable[Record]) -> Table:
    """Return a table of the scores found, each with its outcome and what is wrong with it."""
    columns = [
        Column("OUTCOME"), Column("JOB"), Column("MODEL", cut="middle"), Column("BENCHMARK", cut="middle"),
        Column("KIND", cut="middle"), Column("SAMPLES", right=True),
        Column("SOURCE METRICS", cut="end", name="its metrics"),
        Column("PROBLEM", cut="end"), Column("SOURCE", cut="middle", wide=True),
    ]  # fmt: skip
    rows = [
        [
            Cell(item["outcome"], ROLES.get(item["outcome"], "")),
            Cell(item.get("job", ""), "bold"),
            item.get("model", ""),
            item.get("benchmark", ""),
            item.get("kind", ""),
            count(item.get("samples", 0)),
            joined(f"{name} {value:.4g}" for name, value in item.get("metrics", {}).items()),
            "; ".join(filter(None, (item.get("problem", ""), *item.get("disagreements", ())))),
            item["source"],
        ]
        for item in items
    ]
    return Table(columns, rows, "no rwkv-skills results found at this path")


def say_more(context: Context, reply: Record) -> None:
    """Print how many files were ignored, and the session that holds the imported scores."""
    if ignored := reply.get("ignored", 0):
        context.say(f"{ignored} files ignored: they hold no rwkv-skills results, or trials of a parameter search")
    if session := reply.get("session"):
        context.say(f"session {session}: `rwkvctl scores --session-id {session}`")
