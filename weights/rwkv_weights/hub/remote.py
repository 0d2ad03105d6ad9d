"""The hub through `huggingface_hub`, which finds endpoint, token, proxies and cache by itself (HF_ENDPOINT, HF_TOKEN,
HF_HOME, HF_HUB_OFFLINE), and every answer it can give as one sentence with what to do. Its telemetry is off unless
HF_HUB_DISABLE_TELEMETRY says otherwise: a node asks a hub for files, and for nothing else.
"""

import contextlib
import email.utils
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from rwkv_weights.errors import HubError, WeightsError
from rwkvctl.protocol.errors import Exit
from rwkvctl.settings import config

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""The longest silence of the hub. Its own client has no limit for most requests."""
LONGEST_WAIT_S: Final = 300.0
_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository at one commit. `sha256` is that of large files; small ones have git's sha1 only."""

    repo: str
    commit: str
    path: str
    size: int
    sha256: str
    git_sha1: str

    @property
    def digest(self) -> str:
        return self.sha256 or self.git_sha1


class OfflineError(HubError):
    """A request was refused because the operator set HF_HUB_OFFLINE."""


class Hub:
    """One session with the hub, shared by all threads. Raises WeightsError if the library is not installed."""

    def __init__(self) -> None:
        config.quiet_hub()
        try:
            self._library: Any = import_module("huggingface_hub")
            self._utils: Any = import_module("huggingface_hub.utils")
            self._known: Any = import_module("huggingface_hub.errors")
        except ImportError as error:
            raise WeightsError(f"{error.name} is not installed; pip install 'rwkvctl[engine]'") from None
        self._utils.logging.set_verbosity_error()
        # The bases of the hub's own error are OSError and the error of its HTTP library, whichever one it uses.
        self._errors: tuple[type[Exception], ...] = (*self._known.HfHubHTTPError.__bases__, ValueError)
        self._limit_silence()
        self.endpoint: str = self._library.constants.ENDPOINT

    def _limit_silence(self) -> None:
        """Set a timeout on the library's HTTP clients, which have none for most requests."""
        usual = self._library.get_session()
        kind, hooks = type(usual), usual.event_hooks
        self._library.set_client_factory(lambda: kind(event_hooks=hooks, follow_redirects=True, timeout=TIMEOUT_S))

    def files(self, repo: str, revision: str | None) -> list[RemoteFile]:
        """Return every file of a repository, all at the commit that the revision is now. Raises HubError."""
        with self.one_sentence(repo, revision):
            api = self._library.HfApi()
            commit = str(api.model_info(repo, revision=revision, timeout=TIMEOUT_S).sha)
            _check(repo, _hexadecimal(commit.lower()))
            try:
                entries = list(api.list_repo_tree(repo, recursive=True, revision=commit))
            except (LookupError, TypeError, AttributeError) as error:
                raise _nonsense(repo) from error
        return [_remote(repo, commit, entry) for entry in entries if hasattr(entry, "size")]

    def open(self, file: RemoteFile, place: int) -> AbstractContextManager[Any]:
        """Return the response to a request for a file's bytes from a place on, read with `iter_raw`."""
        url = self._library.hf_hub_url(file.repo, file.path, revision=file.commit)
        headers = self._utils.build_hf_headers() | {"Accept-Encoding": "identity"}
        if place:
            headers["Range"] = f"bytes={place}-"
        session = self._library.get_session()  # asked for anew: the library closes it after a failed connection
        stream: AbstractContextManager[Any] = session.stream("GET", url, headers=headers, follow_redirects=True)
        return stream

    def check(self, response: Any) -> None:
        """Raise the library's error for a status of 400 or more; `one_sentence` turns it into a HubError."""
        if response.status_code >= 400:
            self._utils.hf_raise_for_status(response)

    def cached(self, repo: str) -> list[tuple[str, int, Path]]:
        """Return (path in the repository, bytes, where) of what the hub's own cache holds, newest commit first."""
        with contextlib.suppress(*self._errors, self._known.CacheNotFound):
            found = [one for one in self._library.scan_cache_dir().repos if one.repo_id == repo]
            revisions = sorted((r for one in found for r in one.revisions), key=lambda r: -r.last_modified)
            return [
                (str(file.file_path.relative_to(revision.snapshot_path)), file.size_on_disk, file.file_path)
                for revision in revisions
                for file in revision.files
            ]
        return []

    @contextlib.contextmanager
    def one_sentence(self, repo: str, revision: str | None = None) -> Iterator[None]:
        """Turn whatever the library or the network raises into a HubError."""
        try:
            yield
        except WeightsError:
            raise
        except self._errors as error:
            raise self._translated(error, repo, revision) from error

    def _translated(self, error: Exception, repo: str, revision: str | None) -> HubError:
        known = self._known
        if isinstance(error, known.OfflineModeIsEnabled):
            return OfflineError("HF_HUB_OFFLINE is set, so nothing is fetched; unset it to download.")
        if isinstance(error, known.GatedRepoError):
            page = f"{self.endpoint}/{repo}"
            return HubError(f"{repo} is gated: accept its conditions on {page} and set HF_TOKEN to your token.")
        if isinstance(error, known.RepositoryNotFoundError):
            return self._unseen(repo)
        if isinstance(error, known.RevisionNotFoundError):
            return HubError(f"{repo} has no revision {revision!r}.", exit_code=Exit.NOT_FOUND)
        if isinstance(error, known.HFValidationError):
            return HubError(f"{repo!r} is no name of a repository; it is OWNER/NAME.", exit_code=Exit.USAGE)
        response = getattr(error, "response", None)
        return self._no_answer(error) if response is None else self._refused(repo, response)

    def _unseen(self, repo: str) -> HubError:
        """Return the error for a repository that is missing or hidden, which the hub does not tell apart."""
        what = f"{repo} is not on {self.endpoint}, or it is private: check the name, and set HF_TOKEN to a token that"
        return HubError(f"{what} may read it.", exit_code=Exit.NOT_FOUND)

    def _refused(self, repo: str, response: Any) -> HubError:
        status = int(response.status_code)
        if status == 401 and "credentials" not in response.headers.get("X-Error-Message", ""):
            return self._unseen(repo)
        if status == 401:
            return HubError(f"{self.endpoint} does not accept the token; set HF_TOKEN to one that may read {repo}.")
        if status == 403:
            return HubError(f"the token may not read {repo}; set HF_TOKEN to one that may.")
        if status == 404:
            return HubError(f"{repo} no longer has this file at this commit; list it again.", exit_code=Exit.NOT_FOUND)
        passing = status in _PASSING
        wait_s = retry_after(response.headers) if passing else 0.0
        return HubError(f"{self.endpoint} answers {status}; try later.", passing=passing, wait_s=wait_s)

    def _no_answer(self, error: Exception) -> HubError:
        detail = " ".join(str(error).split())[:200]
        reason = f"{type(error).__name__}: {detail}" if detail else type(error).__name__
        return HubError(
            f"{self.endpoint} does not answer ({reason}); see HF_ENDPOINT and the network.",
            passing=not isinstance(error, ValueError),
        )


def _nonsense(repo: str) -> HubError:
    return HubError(f"{repo} is refused: the hub lists it with a digest or a size that cannot be.")


def _check(repo: str, fine: bool) -> None:
    if not fine:
        raise _nonsense(repo)


def _hexadecimal(text: str) -> bool:
    """Whether a text is hexadecimal, as names by git or sha256 are; it becomes part of a file's name here."""
    return bool(_SHA1.fullmatch(text) or _SHA256.fullmatch(text))


def _remote(repo: str, commit: str, entry: Any) -> RemoteFile:
    sha256 = str(entry.lfs.sha256) if entry.lfs else ""
    sha256, git_sha1 = sha256.lower(), str(entry.blob_id).lower()
    _check(repo, type(entry.size) is int and 0 <= entry.size < 1 << 63)
    _check(repo, _hexadecimal(git_sha1) and (not entry.lfs or bool(_SHA256.fullmatch(sha256))))
    return RemoteFile(repo, commit, str(entry.path), entry.size, sha256, git_sha1)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the hub asks to wait, as a number or a date; 0 if it says nothing, and at most 5
    minutes."""
    text = headers.get("Retry-After", "").strip()
    try:
        seconds = (
            float(text) if text[:1].isdigit() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), LONGEST_WAIT_S)


FRUITLESS: Final = 6
"""Attempts for a file in a row that brought no bytes, before it is given up."""
ASKED: Final = 4
"""Attempts for a query that somebody waits for."""


def backoff(fruitless: int, asked_s: float = 0.0) -> float:
    """Return the seconds before the next attempt: 1, 2, 4, ... at most 30, or what the hub asks for."""
    return max(asked_s, min(30.0, 2.0 ** (fruitless - 1)))


def persistently(ask: Callable[[], T], wait: Callable[[float, HubError], object]) -> T:
    """Repeat a query until it succeeds or fails for good; `wait` is told how long, and why. Raises HubError."""
    for fruitless in range(1, ASKED):
        try:
            return ask()
        except HubError as error:
            if not error.passing:
                raise
            wait(backoff(fruitless, error.wait_s), error)
    return ask()
