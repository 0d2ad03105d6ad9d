"""The hub through `huggingface_hub`, which finds endpoint, token, proxies and cache by itself (HF_ENDPOINT, HF_TOKEN,
HF_HOME, HF_HUB_OFFLINE), and every answer it can give as one sentence with what to do. Its telemetry is off unless
HF_HUB_DISABLE_TELEMETRY says otherwise: a node asks a hub for files, and for nothing else.
"""

import contextlib
import email.utils
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from rwkv_weights.errors import HubError, WeightsError
from rwkv_weights.hub.xet import Xet
from rwkvctl.protocol.errors import Exit
from rwkvctl.settings import config

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""The longest silence of the hub before it answers, for which its client has no limit in most requests; between the
bytes of a file the client's own limit holds (HF_HUB_DOWNLOAD_TIMEOUT, 10 s)."""
LONGEST_WAIT_S: Final = 300.0
PIECE_BYTES: Final = 1024 * 1024
_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository at one commit. `sha256` is that of large files; small ones have git's sha1 only.
    `xet_hash` is its name in the hub's xet storage; empty if it is not there."""

    repo: str
    commit: str
    path: str
    size: int
    sha256: str
    git_sha1: str
    xet_hash: str = ""

    @property
    def digest(self) -> str:
        return self.sha256 or self.git_sha1


class OfflineError(HubError):
    """A request was refused because the operator set HF_HUB_OFFLINE."""


class WrongBytesError(HubError):
    """The bytes that are here, or that came, are not those that the hub announced: begin from none."""


class Sink(Protocol):
    """What bytes are poured into; `http_get` takes it for a file."""

    def write(self, piece: bytes) -> object: ...
    def tell(self) -> int: ...


class Hub:
    """One session with the hub, shared by all threads. Raises WeightsError if the library is not installed."""

    def __init__(self) -> None:
        config.quiet_hub()
        try:
            self._library: Any = import_module("huggingface_hub")
            self._utils: Any = import_module("huggingface_hub.utils")
            self._known: Any = import_module("huggingface_hub.errors")
            self._files: Any = import_module("huggingface_hub.file_download")
        except ImportError as error:
            raise WeightsError(f"{error.name} is not installed; pip install 'rwkvctl[engine]'") from None
        self._utils.logging.set_verbosity_error()
        self._utils.disable_progress_bars()
        # The bases of the hub's own error are OSError and the error of its HTTP library, whichever one it uses. Beyond
        # these, a client that another thread closed raises RuntimeError, and so does `http_get`, which calls itself
        # for each broken connection; it also sleeps as long as a hub says, which may be more than a clock can.
        bases = self._known.HfHubHTTPError.__bases__
        self._errors: tuple[type[Exception], ...] = (*bases, ValueError, OverflowError, RuntimeError)
        self._limit_silence()
        # Its own pieces are 10 MiB: so much would be lost with each broken connection.
        self._library.constants.DOWNLOAD_CHUNK_SIZE = PIECE_BYTES
        self.endpoint: str = self._library.constants.ENDPOINT
        self.xet_failure = ""
        """Why the xet storage is asked no more; empty if it is."""

    def _limit_silence(self) -> None:
        """Bound what the library leaves to the hub: how long a request may be silent, and how long to wait before the
        next try."""
        usual = self._library.get_session()
        kind, hooks = type(usual), {**usual.event_hooks}
        hooks["response"] = [*hooks.get("response", ()), bounded]
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

    def pour(self, file: RemoteFile, part: Sink, *, xet: bool) -> None:
        """Fetch a file's bytes from `part.tell()` on, by xet where that works. Raises HubError, also where the bytes
        end early, and what `part.write` raises."""
        headers = self._utils.build_hf_headers() | {"Accept-Encoding": "identity"}
        if xet and file.xet_hash:
            self._pour_xet(file, part, headers)
        if (place := part.tell()) < file.size:
            url = self._library.hf_hub_url(file.repo, file.path, revision=file.commit)
            with self.one_sentence(file.repo):
                self._files.http_get(url, part, resume_size=place, headers=headers)
        if part.tell() < file.size:
            raise HubError("the connection ended early", passing=True)

    def _pour_xet(self, file: RemoteFile, part: Sink, headers: Mapping[str, str]) -> None:
        """Fetch from the xet storage what it sends. It is not asked again after a failure."""
        xet = self._xet
        if xet is None:
            return
        tokens = f"{self.endpoint}/api/models/{file.repo}/xet-read-token/{file.commit}"
        try:
            for piece in xet.pieces(tokens, file.xet_hash, file.size, part.tell(), headers):
                part.write(piece)
            if part.tell() < file.size:
                raise ValueError("the bytes ended early")
        except self._errors as error:
            self._xet, self.xet_failure = None, _detail(error)

    @cached_property
    def _xet(self) -> Xet | None:
        if not self._library.constants.HF_HUB_DISABLE_XET:
            with contextlib.suppress(ImportError, AttributeError):
                return Xet(self._utils.http_backoff)
        return None

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
        if status == 416:
            return WrongBytesError("the hub does not know the rest of it")
        passing = status in _PASSING
        wait_s = retry_after(response.headers) if passing else 0.0
        return HubError(f"{self.endpoint} answers {status}; try later.", passing=passing, wait_s=wait_s)

    def _no_answer(self, error: Exception) -> HubError:
        return HubError(
            f"{self.endpoint} does not answer ({_detail(error)}); see HF_ENDPOINT and the network.",
            passing=not isinstance(error, ValueError),
        )


def bounded(response: Any) -> None:
    """Lower the wait that a hub asks for to `LONGEST_WAIT_S`, as the library sleeps for as long as it says. Raises
    ValueError for bytes that are compressed though that was refused: nothing bounds what they unpack to."""
    headers = response.headers
    if (
        response.request.headers.get("Accept-Encoding") == "identity"
        and headers.get("Content-Encoding", "identity") != "identity"
    ):
        raise ValueError("it sends compressed bytes, which were not asked for")
    if retry_after(headers) >= LONGEST_WAIT_S:
        headers["Retry-After"] = f"{LONGEST_WAIT_S:.0f}"
    headers.pop("ratelimit", None)


def _detail(error: Exception) -> str:
    """Return an error of a library as part of a sentence."""
    detail = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {detail}" if detail else type(error).__name__


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
    xet_hash = str(getattr(entry, "xet_hash", ""))
    xet_hash = xet_hash if sha256 and _SHA256.fullmatch(xet_hash) else ""
    return RemoteFile(repo, commit, str(entry.path), entry.size, sha256, git_sha1, xet_hash)


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
