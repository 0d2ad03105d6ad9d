"""`weights download`: fetch checkpoints from the hub, resumable and checked."""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rwkv_weights.errors import HubError, UnknownCheckpointError, WeightsError
from rwkv_weights.hub import choice
from rwkv_weights.hub.choice import Item
from rwkv_weights.hub.crew import Crew, DownloadOutcome, as_they_end
from rwkv_weights.hub.part import kind
from rwkv_weights.hub.remote import Hub, OfflineError, RemoteFile, persistently
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.output import Column, Output, billions
from rwkv_weights.verbs.places import Places
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.progress_meter import Meter
from rwkvctl.text.quantities import Amount, count, duration, size

DEFAULT: Final = "BlinkDL/rwkv7-g1"
COLUMNS: Final = (
    Column("FILE", cut=True), Column("SIZE", right=True), Column("ARCH"), Column("DATA"),
    Column("PARAMS B", right=True), Column("DATE"), Column("CONTEXT", right=True), Column("HERE"),
    Column("REPOSITORY", wide=True),
)  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", nargs="+", action="extend", default=[], metavar="OWNER/NAME")
    parser.add_argument("--match", nargs="+", action="extend", default=[], metavar="GLOB")
    parser.add_argument("--to", type=Path, metavar="DIR", help="default: the weights folder")
    parser.add_argument("--revision", default=None, help="a branch, tag or commit")
    parser.add_argument("--workers", type=int, default=4, help="files at once (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="only show what there is")
    parser.add_argument("--dry-run", action="store_true", help="show what would be fetched, and whether it fits")


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Raises WeightsError. PARTLY where some files or repositories failed and others did not."""
    hub, sums = Hub(), Sums(places.cache)
    folder = (flags.to or places.weights).absolute()
    try:
        files, failed = listed(hub, flags.repo or [DEFAULT], flags.revision, output)
    except OfflineError as error:
        return offline(hub, flags, output, error)
    chosen = choice.wanted(files, flags.match)
    if not chosen:
        raise nothing(files, flags)
    items = choice.once([choice.look(file, folder, sums) for file in chosen])
    if flags.list or not (flags.match or flags.repo):
        return only_listed(items, flags, output, failed)
    free = choice.check_space(items, folder, places.spare_bytes)
    if flags.dry_run:
        return promised(items, folder, free, output)
    outcomes = fetch(Crew(hub, items, sums, max(1, flags.workers)), items, output)
    if hub.xet_failure:
        output.note(f"xet storage failed ({hub.xet_failure}), HTTP was used; HF_HUB_DISABLE_XET=1 does without it.")
    return ended(outcomes, folder, failed, output)


def listed(hub: Hub, repos: Sequence[str], revision: str | None, output: Output) -> tuple[list[RemoteFile], int]:
    """Return the files of all repositories, queried at the same time, and how many queries failed. A single repository
    that fails raises."""
    every = list(dict.fromkeys(repos))

    def wait(seconds: float, error: HubError) -> None:
        output.note(f"{error} (asking again in {duration(seconds)})")
        time.sleep(seconds)

    asked = [partial(persistently, partial(hub.files, repo, revision), wait) for repo in every]
    answers = [answer for _, answer in as_they_end(asked, len(asked))]
    errors = [answer for answer in answers if isinstance(answer, WeightsError)]
    for error in errors:
        if isinstance(error, OfflineError) or len(every) == 1:
            raise error
        output.note(str(error))
    if len(errors) == len(every):
        raise HubError("none of the repositories can be read.")
    return [file for answer in answers if not isinstance(answer, WeightsError) for file in answer], len(errors)


def nothing(files: Sequence[RemoteFile], flags: argparse.Namespace) -> UnknownCheckpointError:
    """Return the error for a choice without files."""
    whole = len(choice.wanted(files, []))
    where = " and ".join(flags.repo or [DEFAULT])
    if not whole:
        return UnknownCheckpointError(f"{where} has no .pth and no .safetensors file.")
    globs = " or ".join(repr(glob) for glob in flags.match)
    return UnknownCheckpointError(f"no file of {where} matches {globs}; see --list for the {whole} there are.")


def only_listed(items: Sequence[Item], flags: argparse.Namespace, output: Output, failed: int) -> int:
    """Print the list; without --list, also how to fetch some of it."""
    show(items, output)
    if not flags.list:
        total = size(sum(item.remote.size for item in items))
        output.note(f"say which to fetch, with --match GLOB; all of it is {total} (--match '*').")
        return Exit.USAGE
    return Exit.PARTLY if failed else Exit.OK


def promised(items: Sequence[Item], folder: Path, free: int, output: Output) -> int:
    """Print what would be fetched and return the exit code: FAILED if another file is in the way of one."""
    show(items, output)
    left = [item for item in items if item.left]
    what = f"{_files(len(left))}, {size(sum(item.left for item in left))}" if left else "nothing"
    output.note(f"would fetch {what} to {folder}, which has {size(free)} free")
    return Exit.FAILED if any(item.state == "other" for item in items) else Exit.OK


def show(items: Sequence[Item], output: Output) -> None:
    """Print the files as a table, or as the JSON document."""
    if output.as_json:
        output.json("rwkvctl.weights-download/1", {"items": [plain(item) for item in items]})
    else:
        output.table(COLUMNS, [row(item) for item in items])


def plain(item: Item) -> dict[str, Any]:
    """Return a file as an object of the JSON document."""
    remote, name = item.remote, item.name
    return {
        "repo": remote.repo,
        "revision": remote.commit,
        "file": remote.path,
        "path": str(item.target),
        "size_bytes": remote.size,
        "sha256": remote.sha256,
        "architecture": name.architecture,
        "data_version": name.version,
        "parameters_b": name.size_b,
        "date": name.date,
        "context": name.context,
        "state": item.state,
        "left_bytes": item.left,
    }


def row(item: Item) -> list[str]:
    """Return a file as a row of the table."""
    name = item.name
    return [
        item.remote.path,
        size(item.remote.size),
        name.architecture or "–",
        name.version or "–",
        billions(name.size_b),
        name.date or "–",
        count(name.context or None),
        part(item.kept / max(1, item.remote.size)) if item.state == "part" else HERE[item.state],
        item.remote.repo,
    ]


def part(share: float) -> str:
    """Return how much of a file is here, as text."""
    return Amount(f"{int(100 * share)}%", share)


HERE: Final = {"missing": "–", "unhashed": "yes, unread", "here": "yes", "other": "another file"}


def fetch(crew: Crew, items: Sequence[Item], output: Output) -> list[DownloadOutcome]:
    """Do it, with a line for each file as it ends. Raises KeyboardInterrupt with what is kept said."""
    fetched = [item for item in items if item.left]
    if not output.as_json:
        show(items, output)
    if fetched:
        output.note(f"fetching {_files(len(fetched))}, {size(sum(item.left for item in fetched))}")
    outcomes: list[DownloadOutcome] = []
    total = sum(item.remote.size for item in items)
    with Meter(in_bytes=True, quiet=output.as_json) as meter:

        def idle() -> None:
            meter.show(f"{len(outcomes)} of {_files(len(items))}", crew.done, total, crew.kept)

        try:
            for outcome in crew.work(idle):
                outcomes.append(outcome)
                meter.clear()
                output.note(sentence(outcome))
        except KeyboardInterrupt:
            meter.clear()
            output.note(f"interrupted with {len(outcomes)} of {_files(len(items))} whole; the same command goes on.")
            raise
    return outcomes


def sentence(outcome: DownloadOutcome) -> str:
    """Return the line that says how the transfer of a file ended."""
    name, bytes_ = outcome.item.target.name, outcome.item.remote.size
    if outcome.state == "failed":
        return f"{name}: {outcome.reason}"
    if outcome.state == "here":
        return f"{name}: is here already"
    rate = f"{size(outcome.item.left / max(outcome.seconds, 1e-3))}/s"
    took = duration(outcome.seconds) if outcome.seconds >= 1 else "under a second"
    resumed = f", resumed at {size(outcome.item.kept)}" if outcome.item.kept else ""
    return f"{name}: {size(bytes_)} in {took} ({rate}{resumed}), {kind(outcome.item.remote)} as announced"


def ended(outcomes: Sequence[DownloadOutcome], folder: Path, failed_repos: int, output: Output) -> int:
    """Print the last line and return the exit code."""
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    whole = len(outcomes) - failed
    if output.as_json:
        items = [plain(o.item) | {"state": o.state, "left_bytes": 0, "reason": o.reason} for o in outcomes]
        output.json("rwkvctl.weights-download/1", {"items": items})
    fetched = sum(outcome.state == "fetched" for outcome in outcomes)
    output.note(f"{whole} of {_files(len(outcomes))} in {folder}, {fetched} of them fetched now")
    if failed or failed_repos:
        return Exit.PARTLY if whole else Exit.FAILED
    return Exit.OK


def offline(hub: Hub, flags: argparse.Namespace, output: Output, error: OfflineError) -> int:
    """Say what the hub's own cache holds."""
    rows, items = [], []
    for repo in flags.repo or [DEFAULT]:
        for path, bytes_, where in hub.cached(repo):
            if path.endswith(choice.WEIGHTS) and choice.matches(path, flags.match):
                rows.append([path, size(bytes_), repo, str(where)])
                items.append({"repo": repo, "file": path, "size_bytes": bytes_, "path": str(where), "state": "cached"})
    output.note(str(error))
    if output.as_json:
        output.json("rwkvctl.weights-download/1", {"items": items})
    else:
        columns = (
            Column("FILE"),
            Column("SIZE", right=True),
            Column("REPOSITORY"),
            Column("IN THE CACHE AT", cut=True),
        )
        output.table(columns, rows, "the hub's cache holds nothing of it")
    return Exit.OK if flags.list else Exit.FAILED


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
