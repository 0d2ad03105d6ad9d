"""`rwkvctl import`: results of rwkv-skills, as scores beside ours."""

import os
from collections.abc import Iterable
from glob import escape, glob

from rwkvctl.cli import show_files
from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Cell, Column, Role, Table, count, joined
from rwkvctl.protocol.errors import Exit

# ruff: noqa: PTH111, PTH118, PTH119, PTH120, PTH122, PTH207
# pathlib would double the start-up of every verb

PATIENCE_S = 6 * 3600.0
ROLES: dict[str, Role] = {
    "imported": "ok", "would-import": "info", "there": "dim", "replaced": "ok", "would-replace": "warn",
    "refused": "bad",
}  # fmt: skip


@verb
def import_(context: Context, path: str, *, dry_run: bool = False, overwrite: bool = False) -> int:
    """Take in scores and samples of rwkv-skills that lie on the node.

    Reads its v3 files (scores/, eval/ and completions/ under a results
    folder), its old JSON summaries, and its database as the exporter writes
    it (results/TABLE/MODEL/DATASET.jsonl); trials of a parameter search are
    left out. The daemon reads them, so they must be readable for its user;
    for yours, too: what you may not read is not taken in.

    Each score becomes a job that is done, shown by `scores`, `samples` and
    `compare`, with "imported" as its numerics and the source and its own
    metrics in its provenance. It never stands for work of ours: a dispatch
    still runs. Statistics are computed from the samples where they are there;
    where they disagree with the metrics that came along, both are shown.

    A score is stored whole or not at all, a bad line is named by file and
    number, and what was taken in before is left alone; with --overwrite it is
    taken in again, as another job, in the place of what came from the same
    file, or from files with the same contents.

    Exit code: 0 all is in, 8 something was refused, 4 the path is not there
    or not readable for the daemon.

    path: a results folder, or one file of it
    dry_run: only say what would be taken in
    overwrite: take in again what was taken in before, in its place

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
        Column("KIND", cut="middle"), Column("SAMPLES", right=True), Column("ITS METRICS", cut="end"),
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
    return Table(columns, rows, "no results of rwkv-skills lie there")


def say_more(context: Context, reply: Record) -> None:
    """Print how many files were ignored, and the session that holds the imported scores."""
    if ignored := reply.get("ignored", 0):
        context.say(f"{ignored} files hold no results of rwkv-skills, or trials of a parameter search")
    if session := reply.get("session"):
        context.say(f"session {session}: `rwkvctl scores --session-id {session}`")
