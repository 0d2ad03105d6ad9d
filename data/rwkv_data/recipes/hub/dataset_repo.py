"""A dataset repository of the Hugging Face hub, through `huggingface_hub`, which finds endpoint, token and proxies by
itself (HF_ENDPOINT, HF_TOKEN or `hf auth login`, HF_HUB_OFFLINE).

Whatever it raises becomes one sentence with what to do. No sentence has the token: what a hub or the library says is
searched for it, as a hub may repeat what it was sent. A hub that asks for a long pause is not waited for in silence,
and one that is creating another repository is not asked for ever.
"""

import contextlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rwkv_data.definition.errors import PrepareError, SettingError
from rwkv_data.recipes.hub.repo_name import check_repo_name
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.settings.config import library_defaults, quiet_hub
from rwkvctl.text.sanitize import safe_line

TIMEOUTS_S: Final = (30.0, 120.0, 120.0, 30.0)
"""To connect, to read, to write and for a connection of the pool. The library has no limit in most requests; a hub is
silent for a while when it makes a large commit."""
XET: Final = {
    "HF_XET_CLIENT_CONNECT_TIMEOUT": "30s",
    "HF_XET_CLIENT_READ_TIMEOUT": "120s",
    "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS": "2",
    "HF_XET_LOG_DEST": os.devnull,
}
"""What hf_xet does unless the operator says otherwise. By itself it goes on trying for more than ten minutes where its
storage is not reached, and keeps logs in the operator's home."""
LONGEST_WAIT_S: Final = 60
MOST_CONFLICTS: Final = 5
CONFLICT_PAUSE_S: Final = 1.0
LONGEST_DETAIL: Final = 200
PARTS: Final = ("constants", "errors", "utils")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TOKEN: Final = re.compile(r"[!-~]+")
_USER: Final = re.compile(r"(?<=://)[^/\s@]*@")
_RESET: Final = re.compile(r";\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})")
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNUSABLE: Final = (LookupError, TypeError, AttributeError, ValueError, OverflowError)
"""What the library raises where an answer does not have what it looks for in it."""

LOGIN: Final = "set HF_TOKEN to one that may write, or run `hf auth login`"
REFUSALS: Final = {
    401: (Exit.REFUSED, f"does not accept the token{{says}}: {LOGIN}"),
    402: (Exit.REFUSED, "wants to be paid for this{says}: see what {owner} may store"),
    403: (Exit.REFUSED, "does not let this token write to {name}{says}: set HF_TOKEN to one that may"),
    404: (Exit.NOT_FOUND, "has no {name}, or the token may not see it{says}: check the name and HF_TOKEN"),
    409: (Exit.REFUSED, "is at work on {name} for somebody else{says}: push again"),
    412: (Exit.REFUSED, "says that somebody else has changed {name} meanwhile{says}: push again when they are done"),
    413: (Exit.REFUSED, "does not take this much data{says}: see what {owner} may store"),
}
"""What a hub says by a status, and what to do."""


@dataclass(frozen=True, slots=True)
class RepoState:
    """What a repository is now. `private` is true only if the hub says so."""

    private: bool
    commit: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PushedFile:
    """A file to push: its path in the repository, where it lies, and the hash that it must have."""

    name: str
    path: Path
    sha256: str


class DatasetRepo:
    """A repository, which may not exist yet. Raises SettingError for a name that cannot be, PrepareError without the
    library, and RefusedError if HF_HUB_OFFLINE is set, there is no token or the HTTP client cannot be set up. `quiet`:
    no progress bars on standard error."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        check_repo_name(name)
        self.name = name
        quiet_hub()
        library_defaults(XET)
        try:
            library: Any = import_module("huggingface_hub")
            constants, errors, utils = (import_module(f"huggingface_hub.{name}") for name in PARTS)
        except ImportError as error:
            raise PrepareError(f"pushing to the hub needs the extra rwkvctl[daemon] ({error})") from None
        self._library, self._errors = library, errors
        self._token = ""
        self._creating, self._conflicts = False, 0
        # The bases of the hub's own error are OSError and the error of its HTTP library, whichever one it uses. Its
        # threads and hf_xet raise RuntimeError.
        bases = (base for base in errors.HfHubHTTPError.__bases__ if issubclass(base, Exception))
        logins = (getattr(errors, name) for name in ("OIDCError", "DeviceCodeError") if hasattr(errors, name))
        self._failures: tuple[type[Exception], ...] = (*bases, *logins, RuntimeError, *_UNUSABLE)
        self._xet = not constants.HF_HUB_DISABLE_XET
        self.endpoint = self.plain(constants.ENDPOINT)
        _check_endpoint(constants.ENDPOINT, self.endpoint)
        if library.is_offline_mode():
            what = "HF_HUB_OFFLINE is set, so nothing is pushed: unset it to push."
            raise RefusedError("offline", what, exit_code=Exit.REFUSED)
        with self._one_sentence():
            utils.logging.set_verbosity_error()
            if quiet:
                utils.disable_progress_bars()
            self._limit_silence()
            self._token = self._found_token()
            self._api = library.HfApi(token=self._token)

    @property
    def url(self) -> str:
        """The address of its page."""
        return f"{self.endpoint}/datasets/{self.name}"

    def look(self) -> RepoState | None:
        """Return its state; None if it is not there, or the token may not see it. Raises RefusedError, also if it has
        been renamed: the hub would redirect, and the rows would go to another name than the one that was given."""
        with self._one_sentence():
            try:
                info = self._api.dataset_info(self.name, timeout=TIMEOUTS_S[1])
            except self._errors.RepositoryNotFoundError as error:
                if error.response.status_code == 404:
                    return None
                raise
            self._check_name(info.id)
            paths = tuple(str(file.rfilename) for file in info.siblings or ())
            return RepoState(info.private is True, self._commit_name(info.sha), paths)

    def create(self, *, public: bool) -> None:
        """Create it, unless it is there. Raises RefusedError. The address in the answer is not looked at: a mirror may
        name that of another hub, which the library does not take."""
        self._creating, self._conflicts = True, 0
        try:
            with self._one_sentence(), contextlib.suppress(*_UNUSABLE):
                self._api.create_repo(self.name, repo_type="dataset", private=not public, exist_ok=True)
        finally:
            self._creating = False

    def upload(self, files: Sequence[PushedFile]) -> list[Any]:
        """Send the large files, which nobody sees before `commit`. Return what `commit` takes. Raises RefusedError,
        also if a file does not have its hash."""
        with self._one_sentence(upload=True):
            additions = [self._library.CommitOperationAdd(file.name, str(file.path)) for file in files]
            # Without a .gitignore: that of the repository would leave files out of the commit without a word.
            self._api.preupload_lfs_files(
                self.name, additions, repo_type="dataset", free_memory=False, gitignore_content=""
            )
        for file, addition in zip(files, additions, strict=True):
            if addition.upload_info.sha256.hex() != file.sha256:
                what = f"{file.path} was changed while it was pushed, so nothing was."
                raise RefusedError("changed", what, "--replace writes it again.", Exit.REFUSED)
        return additions

    def commit(self, additions: Sequence[Any], deleted: Sequence[str], parent: str, message: str) -> str:
        """Add the files of `upload` and delete those at the paths `deleted` in one commit, made only upon the commit
        `parent`; return its name. It is `parent` if the repository has all of it already. Raises RefusedError; then
        nothing was changed, unless it is the answer that was lost."""
        with self._one_sentence():
            deletions = [self._library.CommitOperationDelete(path, is_folder=False) for path in deleted]
            operations = [*additions, *deletions]
            made = self._api.create_commit(
                self.name, operations, commit_message=message, repo_type="dataset", parent_commit=parent
            )
            return self._commit_name(made.oid)

    def plain(self, text: str) -> str:
        """Return a foreign text as part of a sentence: one line, cut, without the token and without the user of an
        address."""
        text = text.replace(self._token, "(the token)") if self._token else text
        line = safe_line(" ".join(_USER.sub("", text).split())).rstrip(".:")
        return line if len(line) <= LONGEST_DETAIL else f"{line[:LONGEST_DETAIL]}..."

    def _found_token(self) -> str:
        token = str(self._library.get_token() or "")
        if not token:
            raise RefusedError("no-token", f"There is no token for {self.endpoint}: {LOGIN}.", exit_code=Exit.REFUSED)
        if not _TOKEN.fullmatch(token):
            what = f"The token for {self.endpoint} has a blank or a sign that no token has: {LOGIN}."
            raise RefusedError("no-token", what, exit_code=Exit.REFUSED)
        return token

    def _limit_silence(self) -> None:
        usual = self._set_up(self._library.get_session)
        kind, hooks = type(usual), {**usual.event_hooks}
        hooks["response"] = [self._refuse_long_wait, self._refuse_conflicts]

        def client() -> Any:
            return kind(event_hooks=hooks, follow_redirects=True, timeout=TIMEOUTS_S)

        self._library.set_client_factory(lambda: self._set_up(client))

    def _set_up(self, make: Callable[[], Any]) -> Any:
        """Return the HTTP client that `make` returns. Raises RefusedError if it cannot be made."""
        try:
            return make()
        except Exception as error:  # noqa: BLE001  # its errors have no common base
            detail = self.plain(f"{type(error).__name__}: {error}")
            what = f"The HTTP client cannot be set up ({detail}): see HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
            if isinstance(error, ImportError) and "socks" in str(error).lower():
                what = "HTTPS_PROXY or ALL_PROXY names a SOCKS proxy, which needs the package socksio: install it, or "
                what += "name an HTTP proxy."
            raise RefusedError("no-client", what) from None

    def _refuse_long_wait(self, response: Any) -> None:
        """Raise RefusedError if the library would sleep longer than `LONGEST_WAIT_S` before it asks again."""
        if response.status_code not in _PASSING:
            return
        asked = response.headers.get("Retry-After", "").strip()
        limit = _RESET.search(response.headers.get("ratelimit", ""))
        wait_s = int(limit[1]) if limit else int(asked) if re.fullmatch(r"[0-9]{1,18}", asked) else 0
        if wait_s > LONGEST_WAIT_S:
            raise self._away(f"answers {response.status_code}, to be asked again in {wait_s:,} s")

    def _refuse_conflicts(self, response: Any) -> None:
        """Pause before the library asks to create the repository again, which it does at once and without end as long
        as the hub creates another one. Raises RefusedError after `MOST_CONFLICTS` such answers."""
        if not self._creating or response.status_code != 409:
            return
        self._conflicts += 1
        if self._conflicts >= MOST_CONFLICTS:
            owner = self.name.partition("/")[0]
            what = f"{self.endpoint} is creating another repository for {owner}: push again in a minute."
            raise RefusedError("hub-refused", what, exit_code=Exit.REFUSED)
        if self._conflicts > 1:  # a single one may say that it exists
            time.sleep(CONFLICT_PAUSE_S)

    def _check_name(self, name: object) -> None:
        if not isinstance(name, str):
            raise TypeError("a repository has no name")
        if name != self.name:
            what = f"{self.url} is called {self.plain(name)} now: give --push-to-hub={self.plain(name)}."
            raise RefusedError("renamed", what, exit_code=Exit.REFUSED)

    def _commit_name(self, name: object) -> str:
        if not isinstance(name, str) or not _COMMIT.fullmatch(name):
            raise TypeError("a commit has no name of git's")
        return name

    @contextlib.contextmanager
    def _one_sentence(self, *, upload: bool = False) -> Iterator[None]:
        """Turn whatever the library or the network raises into a RefusedError. `upload`: it may be the xet storage."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except self._failures as error:
            raise self._translated(error, upload=upload) from None

    def _translated(self, error: Exception, *, upload: bool) -> RwkvctlError:
        chain = list(_with_causes(error))
        for cause in chain:
            if isinstance(cause, RwkvctlError):
                return cause
            if (response := getattr(cause, "response", None)) is not None:
                message = self.plain(str(getattr(cause, "server_message", None) or ""))
                return self._refused(int(response.status_code), f" (it says: {message})" if message else "")
        first = next((cause for cause in chain if type(cause) is not RuntimeError), error)
        if isinstance(first, OSError) and first.filename:
            what = f"{self.plain(str(first.filename))} cannot be read: {first.strerror or first}."
            return RefusedError("unreadable", what)
        detail = self.plain(f"{type(first).__name__}: {first}".removesuffix(": "))
        if isinstance(first, _UNUSABLE):
            what = f"{self.endpoint} gives an answer that cannot be used ({detail}): see whether HF_ENDPOINT is a hub."
            return RefusedError("hub-answer", what)
        if upload and self._xet and type(first).__module__ in {"builtins", "hf_xet"}:
            what = f"The xet storage of {self.endpoint} does not take the files ({detail})"
            return RefusedError("hub-away", f"{what}: see the network, or set HF_HUB_DISABLE_XET=1 to do without.")
        what = f"{self.endpoint} does not answer ({detail}): see HF_ENDPOINT and the network."
        return RefusedError("hub-away", what)

    def _refused(self, status: int, says: str) -> RefusedError:
        """Return the error for a refusal of the hub; `says` is what it says itself, in brackets."""
        if status in _PASSING or status >= 500:
            return self._away(f"answers {status}{says}")
        code, what = REFUSALS.get(status, (Exit.REFUSED, "refuses with {status}{says}: see {url}"))
        owner = self.name.partition("/")[0]
        what = what.format(name=self.name, owner=owner, status=status, says=says, url=self.url)
        return RefusedError("hub-refused", f"{self.endpoint} {what}.", exit_code=code)

    def _away(self, what: str) -> RefusedError:
        return RefusedError("hub-away", f"{self.endpoint} {what}: try later.")


def _check_endpoint(endpoint: str, shown: str) -> None:
    """Raise SettingError where the library's HTTP client would raise an error of its own."""
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise SettingError(f"HF_ENDPOINT is {shown!r}, which is no address of a hub, such as https://huggingface.co")


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from: threads of the library wrap what happens in them, and an answer that
    cannot be decoded is an error about an answer."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__
