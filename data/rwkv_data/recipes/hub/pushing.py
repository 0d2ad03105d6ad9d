"""Rows that are written to a folder and pushed to the hub: the folder as it lies, in one commit.

What would refuse a push is looked at before the first row is read, and again when the folder is written. A folder that
is there with the same bytes is kept, so that a push that failed can be repeated. In the repository the files of an
earlier push are replaced, its shards that no longer exist are deleted, and all other files stay.
"""

import os
import stat
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from rwkv_data.definition.errors import PrepareError, SettingError
from rwkv_data.recipes.files.file_card import stamp_of
from rwkv_data.recipes.files.parquet_folder import shard_files
from rwkv_data.recipes.files.piped_rows import written
from rwkv_data.recipes.files.row_files import WrittenFiles, file_sha256
from rwkv_data.recipes.files.verify import verify
from rwkv_data.recipes.hub.dataset_repo import DatasetRepo, PushedFile, RepoState
from rwkv_data.recipes.hub.foreign_files import foreign_files, is_made_by_export, outdated_shards
from rwkvctl.protocol.errors import Exit, RefusedError

FORMAT: Final = "parquet"
CHANGED: Final = "changed"
"""The code of a refusal after which the folder is of no use."""
MOST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class PushOrder:
    """Which repository is pushed to. `public`: it may be public, and is if it has to be created."""

    repo: str
    public: bool = False
    quiet: bool = True


@dataclass(frozen=True, slots=True)
class PushedFolder:
    """What was written and where it is now. `changed` is false if the repository had all of it before."""

    files: WrittenFiles
    repo: str
    url: str
    commit: str
    private: bool
    created: bool
    changed: bool


def written_and_pushed(pipe: IO[bytes], to: Path, row_format: str, order: PushOrder, *, replace: bool) -> PushedFolder:
    """Write the rows of a pipe as `written` does, and push the folder. Raises an error of one sentence, which says
    whether the folder was written."""
    if row_format != FORMAT:
        raise SettingError(f"only a folder of {FORMAT} is pushed to the hub, not a file of the format {row_format}")
    repo = DatasetRepo(order.repo, quiet=order.quiet)
    check_state(repo, repo.look(), public=order.public)
    done = written(pipe, to, row_format, replace=replace, keep_same=True)
    end_with(pipe)
    try:
        return _pushed(repo, done, public=order.public)
    except RefusedError as error:
        if error.code == CHANGED:
            raise
        hint = f"{done.names.rows} is written, and is kept when you push again."
        raise RefusedError(error.code, error.detail, hint, error.exit_code) from None


def check_state(repo: DatasetRepo, state: RepoState | None, *, public: bool) -> None:
    """Raise RefusedError if nothing may be pushed to a repository in this state."""
    if state is None:
        return
    if not state.private and not public:
        what = f"{repo.url} is public: give --public if everybody may read these rows, or push to another name."
        raise RefusedError("public-repository", what, exit_code=Exit.REFUSED)
    if foreign := foreign_files(state.paths):
        raise RefusedError("exists", f"{repo.url} {_why(repo, state, foreign)}.", exit_code=Exit.REFUSED)


def _why(repo: DatasetRepo, state: RepoState, foreign: list[str]) -> str:
    more = len(foreign) - MOST_NAMES
    names = repo.plain(", ".join(foreign[:MOST_NAMES])) + (f" and {more:,} more" if more > 0 else "")
    if is_made_by_export(state.paths):
        what = f"has files that datasets would load along with the rows ({names})"
    else:
        what = f"has files that no export has pushed ({names}), and its card and rows would be replaced or hidden"
    return f"{what}: delete or rename them there, or push to another name"


def end_with(pipe: IO[bytes]) -> None:
    """End this process when the pipe is closed, so that nothing is pushed once the command that has sent the rows has
    gone."""
    descriptor = pipe.fileno()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return

    def watch() -> None:
        while os.read(descriptor, 1 << 16):
            pass
        os._exit(Exit.CLOSED_PIPE)

    threading.Thread(target=watch, daemon=True).start()


def _pushed(repo: DatasetRepo, done: WrittenFiles, *, public: bool) -> PushedFolder:
    files = checked_files(done)
    created = repo.look() is None
    if created:
        repo.create(public=public)
    state = _allowed(repo, public=public)
    sys.stderr.write(f"pushing to {repo.url} ({'private' if state.private else 'public'})\n")
    sys.stderr.flush()
    additions = repo.upload(files)
    private = _allowed(repo, public=public).private  # the upload may have taken hours
    deleted = outdated_shards(state.paths, [file.name for file in files])
    message = f"Push {done.stamp.rows:,} training rows with lineage and card"
    commit = repo.commit(additions, deleted, state.commit, message)
    return PushedFolder(done, repo.name, repo.url, commit, private, created, commit != state.commit)


def _allowed(repo: DatasetRepo, *, public: bool) -> RepoState:
    """Return the state of a repository that must exist. Raises RefusedError if nothing may be pushed to it."""
    state = repo.look()
    if state is None:
        what = f"There is no {repo.url} that the token may see: check name and HF_TOKEN."
        raise RefusedError("hub-refused", what, exit_code=Exit.REFUSED)
    check_state(repo, state, public=public)
    return state


def checked_files(done: WrittenFiles) -> list[PushedFile]:
    """Return what is pushed of a folder. Raises RefusedError if it is not what was written, byte for byte, and
    PrepareError if it cannot be read. Grades are not asked for: the rows have just come from where they stand."""
    names, stamp = done.names, done.stamp
    try:
        problems = [one.text for one in verify(names.rows, lambda samples: [one.right for one in samples], most=1)]
        if not problems and stamp_of(names.card.read_text(encoding="utf-8")) != stamp:
            problems = ["its card is another"]
        card_sha256 = file_sha256(names.card)
    except OSError as error:
        raise PrepareError(f"{names.rows} cannot be read: {error.strerror or error}") from error
    if problems:
        what = f"{names.rows} was changed after it was written, so it is not pushed ({problems[0]})."
        raise RefusedError(CHANGED, what, "--replace writes it again.", Exit.REFUSED)
    shards = zip(shard_files(names.rows), stamp.sha256, strict=False)
    files = (*shards, (names.lineage, stamp.lineage_sha256), (names.card, card_sha256))
    return [PushedFile(path.relative_to(names.rows).as_posix(), path, sha256) for path, sha256 in files]
