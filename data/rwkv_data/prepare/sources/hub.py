"""Raw rows of the Hugging Face hub: which files hold the split, fetched at exactly one commit, read like local files.

The hub's client finds endpoint, token and cache by itself (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE) and keeps
the files that it fetched whole; it is imported here only, when rows are fetched, and without its telemetry unless
HF_HUB_DISABLE_TELEMETRY says otherwise. `load_dataset` of the `datasets` library is not used: it takes csv and JSON for
what they are not (see `table_rows` and `json_rows`) and writes everything a second time. Of the fetched files it reads
parquet and arrow (`column_rows`). Sets that have only a loading script are read from the hub's own parquet copy.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from rwkv_data.definition.benchmark import HubSource
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import files, hub_layout
from rwkv_data.prepare.sources.files import Want
from rwkv_data.prepare.sources.raw import CONFIG, Placed, Progress, Raw, Report, silent
from rwkvctl.settings.config import quiet_hub

CONVERTED: Final = "refs/convert/parquet"


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """One commit of a set and the paths in it."""

    commit: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one configuration, at one commit."""

    config: str
    commit: str
    paths: tuple[str, ...]


def open_rows(source: HubSource, report: Report = silent) -> Raw:
    """The rows of a set. What exists is looked up at once, its files are fetched when the first row is asked for."""
    quiet_hub()
    with _one_line(source):
        chosen = list(_chosen(source))
    name = "+".join(source.files) or f"{','.join(source.configs) or source.config}/{source.split}"
    commits = dict.fromkeys(files.commit for files in chosen)
    return Raw(f"hf:{source.repo}/{name}", "+".join(commits), _placed(source, chosen, report), _libraries(chosen))


def _libraries(chosen: list[_Files]) -> tuple[str, ...]:
    columns = any(path.endswith((".parquet", ".arrow")) for files in chosen for path in files.paths)
    return ("huggingface_hub", "datasets", "pyarrow") if columns else ("huggingface_hub",)


def _chosen(source: HubSource) -> Iterator[_Files]:
    """The files of each configuration, from the set itself or else from the hub's parquet copy of it."""
    snapshot = _snapshot(source, source.revision)
    if source.files:
        paths = hub_layout.matching(snapshot.paths, source.files)
        if not paths:
            raise PrepareError(f"{source.repo} holds none of {', '.join(source.files)}")
        yield _Files("", snapshot.commit, tuple(paths))
        return
    card, copy = _card(source, snapshot), None
    for config in source.configs or (source.config,):
        if found := _laid_out(source, card, snapshot, config):
            yield _Files(config, snapshot.commit, tuple(found))
            continue
        copy = copy or _copy(source)
        with _named(source):
            yield _Files(config, copy.commit, tuple(hub_layout.converted(copy.paths, config, source.split)))


def _laid_out(source: HubSource, card: dict[str, Any], snapshot: _Snapshot, config: str) -> list[str] | None:
    with _named(source):
        return hub_layout.data_files(card, snapshot.paths, config, source.split)


@contextlib.contextmanager
def _named(source: HubSource) -> Iterator[None]:
    """The set's name before what the layout says of it."""
    try:
        yield
    except PrepareError as error:
        raise PrepareError(f"{source.repo}: {error}") from None


def _snapshot(source: HubSource, revision: str | None) -> _Snapshot:
    """The commit that the revision (or the newest state) is now, and what it holds; offline, what was fetched."""
    import huggingface_hub

    if huggingface_hub.is_offline_mode():
        return _cached(source, revision)
    info = huggingface_hub.HfApi().dataset_info(source.repo, revision=revision)
    return _Snapshot(str(info.sha), tuple(file.rfilename for file in info.siblings or ()))


def _cached(source: HubSource, revision: str | None) -> _Snapshot:
    """The commit that was fetched last, or the one that is asked for, as the hub's client keeps it."""
    from huggingface_hub import constants, file_download

    folder = Path(constants.HF_HUB_CACHE) / file_download.repo_folder_name(repo_id=source.repo, repo_type="dataset")
    kept = sorted((folder / "snapshots").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = next((path for path in kept if revision in {None, path.name}), None)
    if found is None and revision and (folder / "refs" / revision).is_file():
        found = folder / "snapshots" / (folder / "refs" / revision).read_text().strip()
    if found is None:
        raise PrepareError(f"{source.repo} is not in the cache {folder}; fetch it once without HF_HUB_OFFLINE")
    paths = sorted(path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file())
    return _Snapshot(found.name, tuple(paths))


def _copy(source: HubSource) -> _Snapshot:
    """The parquet copy that the hub makes of most public sets."""
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        return _snapshot(source, CONVERTED)
    except RevisionNotFoundError:
        raise PrepareError(
            f"{source.repo} says nowhere which files hold its rows, and has no parquet copy; give files with --from"
        ) from None


def _card(source: HubSource, snapshot: _Snapshot) -> dict[str, Any]:
    """The settings at the head of the set's README."""
    if "README.md" not in snapshot.paths:
        return {}
    from huggingface_hub import metadata_load

    path = _fetched(source, snapshot.commit, "README.md", silent)
    try:
        return metadata_load(path) or {}
    except Exception as error:  # noqa: BLE001 - a README is free text, and its YAML reader raises errors of its own
        raise PrepareError(
            f"the README.md of {source.repo} is not readable ({' '.join(str(error).split())[:200]})"
        ) from None


def _placed(source: HubSource, chosen: list[_Files], report: Report) -> Iterator[Placed]:
    with _one_line(source):
        fetched = [(part, path, _fetched(source, part.commit, path, report)) for part in chosen for path in part.paths]
    for part, path, local in fetched:
        # Tables that the hub names as data have a header, as its own readers expect; raw files may have none.
        want = Want(split=source.split, header=None if source.files else True)
        note = {CONFIG: part.config} if source.configs else {}
        for where, raw in files.read(local, want, f"{source.repo}@{part.commit[:12]} {path}"):
            yield where, raw | note


def _fetched(source: HubSource, commit: str, path: str, report: Report) -> Path:
    import huggingface_hub

    bar = type("Bar", (_Bar,), {"name": path, "report": staticmethod(report)})
    fetched = huggingface_hub.hf_hub_download(source.repo, path, repo_type="dataset", revision=commit, tqdm_class=bar)
    return Path(fetched)


class _Bar:
    """What the hub's client takes for a progress bar: it reports instead of drawing."""

    name: str
    report: Report

    def __init__(self, *_: object, total: int | None = None, initial: int = 0, **__: object) -> None:
        self.total, self.n, self.disable = total, initial, False

    def update(self, count: float | None = 1) -> None:
        self.n += int(count or 0)
        self.report(Progress("fetch", self.name, self.n, self.total))

    def __getattr__(self, _name: str) -> Any:
        return lambda *_, **__: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@contextlib.contextmanager
def _one_line(source: HubSource) -> Iterator[None]:
    """Whatever the client raises about set, network or files as one line that says what to do."""
    try:
        from huggingface_hub import constants, errors
    except ImportError as error:
        raise PrepareError(f"fetching rows needs the extra rwkvctl[daemon] ({error})") from None
    try:
        yield
    except errors.GatedRepoError:
        raise PrepareError(_gated(source, constants.ENDPOINT)) from None
    except errors.RevisionNotFoundError:
        raise PrepareError(f"{source.repo} has no revision {source.revision} on the hub") from None
    except errors.RepositoryNotFoundError as error:
        if source.gated:
            raise PrepareError(_gated(source, constants.ENDPOINT)) from None
        raise PrepareError(
            f"{source.repo} is not on the hub {constants.ENDPOINT}: it was removed or is private "
            f"(then set HF_TOKEN or run `hf auth login`) ({type(error).__name__})"
        ) from None
    except _failures() as error:
        detail = " ".join(str(error).split())[:300]
        raise PrepareError(
            f"{source.repo} cannot be fetched from the hub ({type(error).__name__}: {detail})"
        ) from error


def _gated(source: HubSource, endpoint: str) -> str:
    return (
        f"{source.repo} is gated: accept its terms at {endpoint}/datasets/{source.repo}, then set HF_TOKEN to a token "
        f"of that account or run `hf auth login`"
    )


def _failures() -> tuple[type[Exception], ...]:
    """What the client raises: OSError and the error of the HTTP library that it uses, whichever it is, and more."""
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    bases = [base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception)]
    return (*bases, EntryNotFoundError, ValueError)
