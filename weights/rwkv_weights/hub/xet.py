"""A file's bytes from the hub's xet storage, which keeps deduplicated chunks and sends many at once.

The stream of `hf_xet` begins at any byte, so a download resumes; `xet_get` of huggingface_hub always begins at the
first. The hub names the storage, and only an address with http is asked: for `local://FOLDER` hf_xet would make that
folder on this machine.
"""

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from rwkvctl.settings.config import library_defaults

SCHEMES: Final = frozenset({"https", "http"})
SETTINGS: Final = {
    "HF_XET_CLIENT_CONNECT_TIMEOUT": "30s",
    "HF_XET_CLIENT_READ_TIMEOUT": "30s",
    "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS": "2",
    "HF_XET_LOG_DEST": os.devnull,
}
"""What hf_xet does unless the operator says otherwise. By itself it would wait up to six minutes for a silent storage,
though HTTP has the same bytes, and log to files in the hub's cache, or to standard error where it cannot write there.
"""


class Xet:
    """One session, shared by all threads. Raises ImportError or AttributeError if there is no hf_xet that streams."""

    def __init__(self, http_backoff: Any) -> None:
        library_defaults(SETTINGS)
        self._library: Any = import_module("hf_xet")
        self._open: Any = self._library.XetSession().new_download_stream_group
        self._http_backoff = http_backoff

    def pieces(self, tokens: str, xet_hash: str, size: int, place: int, headers: Mapping[str, str]) -> Iterator[bytes]:
        """Yield a file's bytes from a place on; they may end early, as hf_xet does not report every error. `tokens` is
        the address at which the hub names its storage and gives tokens for it. Raises ValueError if it names none, and
        what the libraries raise."""
        answer = self._http_backoff("GET", tokens, headers=headers).raise_for_status().json()
        try:
            storage, token, ends = str(answer["casUrl"]), str(answer["accessToken"]), int(answer["exp"])
        except (LookupError, TypeError) as error:
            raise ValueError("the hub does not say where it is") from error
        if urlsplit(storage).scheme not in SCHEMES:
            raise ValueError(f"{storage!r} is no address of it")
        group = self._open(
            endpoint=storage, token=token, token_expiry_unix_secs=ends, token_refresh_url=tokens,
            token_refresh_headers=dict(headers),
        )  # fmt: skip
        yield from group.download_stream(self._library.XetFileInfo(xet_hash, size), start=place)
