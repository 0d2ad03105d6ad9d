"""`import`: find, read, check and store scores, and report what became of each."""

import asyncio
import os
import pwd
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes import caller
from rwkv_daemon.changes.records import Records
from rwkv_daemon.changes.session_id import new_session_id
from rwkv_daemon.host.shown_files import is_trusted
from rwkv_daemon.import_rwkv_skills import discovery
from rwkv_daemon.import_rwkv_skills.benchmark_names import benchmark_of, kind_of
from rwkv_daemon.import_rwkv_skills.checked_files import MAY_READ, BadFileError, is_hidden
from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore
from rwkv_daemon.import_rwkv_skills.rescore import Recount, recount
from rwkv_daemon.import_rwkv_skills.storing import ImportSession, take_in, taken_in
from rwkv_daemon.scheduling.waiting_jobs import WaitingJobs
from rwkv_data.definition.benchmark import Benchmark
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.protocol.replies import ImportReply
from rwkvctl.protocol.requests import ImportRequest
from rwkvctl.protocol.views import ImportedView


async def import_results(
    records: Records, waiting: WaitingJobs, catalogue: NodeCatalogue, request: ImportRequest
) -> ImportReply:
    """Import everything at a path, as far as whoever asks may read it. Raises RefusedError if the path cannot be
    read."""
    uid = caller.caller().uid
    if not is_trusted(uid):
        MAY_READ.set(lambda status: catalogue.shown_files.may_read(uid, status))
    path = checked(request.path)
    try:
        found = await asyncio.to_thread(discovery.discover, path)
    except BadFileError as error:
        raise refused(error) from error
    session = ImportSession("" if request.dry_run else new_session_id(), str(path), overwrite=request.overwrite)
    items = [ImportedView(source=of_error(error), outcome="refused", problem=str(error)) for error in found.refused]
    items += [await one(records, waiting, catalogue, session, source, read) for source, read in found.readers()]
    return ImportReply(
        path=str(path),
        dry_run=request.dry_run,
        items=tuple(items),
        counts=dict(Counter(item.outcome for item in items)),
        session=session.id if any(item.outcome in {"imported", "replaced"} for item in items) else "",
        ignored=found.ignored,
    )


def checked(text: str) -> Path:
    """Return the path, if it can be read. Raises RefusedError."""
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise RefusedError("bad-request", "The path must be absolute: the daemon reads it.", "", Exit.USAGE)
    if is_hidden(path):
        hint = "Over TCP, or through a forwarded socket, nothing can be imported: ask on the node itself."
        raise RefusedError("cannot-read", f"{path}: there is nothing that you may read.", hint, Exit.NOT_FOUND)
    try:
        path.stat()
    except OSError as error:
        raise refused(f"{path} cannot be read by the daemon: {error.strerror or error}") from error
    return path


def refused(error: object) -> RefusedError:
    """Return the error for a path that the daemon cannot read; it names the daemon's user."""
    hint = f"The daemon runs as {user()} on this node; the files must be readable for it."
    return RefusedError("cannot-read", f"{error}.", hint, Exit.NOT_FOUND)


def user() -> str:
    """Return the name of the daemon's user, or its number if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def of_error(error: BadFileError) -> str:
    """Return the path with which the message of an error begins."""
    return str(error).partition(": ")[0]


def named(imported: ImportedScore) -> ImportedScore:
    """Return the score if it names its model. Raises BadFileError if it names none."""
    if not imported.model:
        raise BadFileError(f"{imported.source}: it names no model")
    return imported


async def one(
    records: Records,
    waiting: WaitingJobs,
    catalogue: NodeCatalogue,
    session: ImportSession,
    source: Path,
    read: Callable[[], ImportedScore],
) -> ImportedView:
    """Import one score. An error in its files is reported for it and does not affect the others."""
    try:
        imported = named(await asyncio.to_thread(read))
        found = await asyncio.to_thread(recount, imported)
        names = names_of(imported, catalogue.benchmarks.all())
        job, outcome = await stored(records, waiting, session, imported, found, names)
    except BadFileError as error:
        return ImportedView(source=str(source), outcome="refused", problem=str(error))
    return ImportedView(
        source=str(source),
        outcome=outcome,  # type: ignore[arg-type]  # one of the words of `stored`
        model=imported.model,
        benchmark=names[0],
        kind=names[1],
        job=job,
        samples=len(imported.places | imported.verdicts.keys()),
        duplicates=imported.duplicates,
        metrics=imported.metrics,
        disagreements=found.disagreements,
        problem=found.why_null,
    )


def names_of(imported: ImportedScore, catalogue: Mapping[str, Benchmark]) -> tuple[str, str]:
    """Return (benchmark, kind) of a score under the names that the catalogue uses."""
    name = benchmark_of(imported.dataset, set(catalogue))
    return name, kind_of(imported, catalogue[name].kinds if name in catalogue else ())


async def stored(
    records: Records,
    waiting: WaitingJobs,
    session: ImportSession,
    imported: ImportedScore,
    found: Recount,
    names: tuple[str, str],
) -> tuple[str, str]:
    """Return (job, outcome). Without a session nothing is stored."""
    if session.id:
        number, outcome = await take_in(records, waiting, session, imported, found, names)
        return f"j{number}", outcome
    async with records.store.write() as db:
        known, earlier = await taken_in(db, session, imported, names)
    if earlier:
        return f"j{earlier[0]}", "would-replace"
    return (f"j{known}", "there") if known is not None else ("", "would-import")
