"""Raw rows of files on the web: public repositories at fixed commits, fetched once into a cache, resumed when cut off.

    CACHE/web/<of the URL>/NAME        the file, complete and with the sha256 that its record says
    CACHE/web/<of the URL>/NAME.part   what came so far
    CACHE/web/<of the URL>/fetched.json

A URL at a commit never changes, so a file in the cache is not asked for again. Only https is spoken, to public
addresses (a URL that itself names this machine's loopback excepted), redirects included. HTTPS_PROXY is respected.
"""

import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote, urljoin, urlsplit

from rwkv_data.definition.benchmark import WebSource
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import files
from rwkv_data.prepare.sources.files import Want
from rwkv_data.prepare.sources.raw import Placed, Progress, Raw, Report, silent

if TYPE_CHECKING:
    import httpx

MOST_BYTES: Final = 4 << 30
MOST_REDIRECTS: Final = 5
ATTEMPTS: Final = 5
TIMEOUT_S: Final = 60.0
REPORT_EVERY: Final = 1 << 20
_LOOPBACK: Final = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One file: where it is, what its sha256 must be ("" if nobody said), where it is to lie."""

    url: str
    sha256: str
    path: Path


def open_rows(source: WebSource, cache: Path, split: str, report: Report = silent) -> Raw:
    """The rows of the files, which are fetched now unless the cache has them."""
    if source.sha256 and len(source.sha256) != len(source.urls):
        raise PrepareError(f"{len(source.sha256)} sums are given for {len(source.urls)} files")
    sums = source.sha256 or ("",) * len(source.urls)
    wanted = [_Wanted(url, digest, _place(cache, url)) for url, digest in zip(source.urls, sums, strict=True)]
    found = [_obtained(one, report) for one in wanted]
    more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    return Raw(source.urls[0] + more, "sha256:" + "+".join(found), _placed(wanted, Want(split=split)), ("httpx",))


def _place(cache: Path, url: str) -> Path:
    """Where a URL's file lies: under a hash of the URL, with the name that says its form."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name or name.startswith(".") or not files.is_readable(name):
        raise PrepareError(f"{url} names no file of rows")
    return cache / "web" / hashlib.sha256(url.encode()).hexdigest()[:20] / name


def _placed(wanted: list[_Wanted], want: Want) -> Iterator[Placed]:
    for one in wanted:
        yield from files.read(one.path, want, one.url)


def _obtained(one: _Wanted, report: Report) -> str:
    """The sha256 of the file in the cache, fetched if it is not there or damaged."""
    try:
        one.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(one.path.parent):
            return _kept(one) or _fetched(one, report)
    except OSError as error:
        raise PrepareError(f"{one.path.parent} cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process fetches a file, others wait for it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _kept(one: _Wanted) -> str:
    """The sha256 of a file that lies in the cache unharmed, else an empty text."""
    try:
        record = json.loads((one.path.parent / "fetched.json").read_bytes())
        digest = _sha256(one.path)
    except (OSError, ValueError):
        return ""
    expected = one.sha256 or (record.get("sha256") if isinstance(record, dict) else None)
    return digest if digest == expected else ""


def _fetched(one: _Wanted, report: Report) -> str:
    part = one.path.with_name(f"{one.path.name}.part")
    _download(one.url, part, report)
    digest = _sha256(part)
    if one.sha256 and digest != one.sha256:
        part.unlink()
        raise PrepareError(
            f"{one.url} has the sha256 {digest}, not {one.sha256}: it is not the file that was looked at"
        )
    part.replace(one.path)
    record = {"url": one.url, "sha256": digest, "bytes": one.path.stat().st_size, "fetched": int(time.time())}
    (one.path.parent / "fetched.json").write_text(json.dumps(record) + "\n")
    return digest


def _download(url: str, part: Path, report: Report) -> None:
    """The whole file at `part`, continued where an earlier attempt, also of an earlier run, was cut off."""
    try:
        import httpx
    except ImportError as error:
        raise PrepareError(f"fetching rows needs httpx ({error})") from None
    headers = {"User-Agent": "rwkvctl", "Accept-Encoding": "identity"}
    with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client, part.open("ab") as file:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _continue(client, url, file, report)
            except httpx.TransportError as error:
                if attempt == ATTEMPTS:
                    raise PrepareError(f"{url} cannot be fetched ({type(error).__name__}: {error})") from error
                time.sleep(min(0.2 * 2**attempt, 5))
            else:
                return


def _continue(client: "httpx.Client", url: str, file: IO[bytes], report: Report) -> None:
    """Ask for what is missing and append it; a server that knows no ranges sends all of it again."""
    have = file.tell()
    with _answer(client, url, have) as response:
        if response.status_code == 416 and _size(response) == have:
            return
        if response.status_code == 416 or (response.status_code == 206 and _start(response) != have):
            file.truncate(0)
            raise _again(f"{url} gave another part than it was asked for")
        if response.status_code not in {200, 206}:
            raise PrepareError(f"{url} cannot be fetched (HTTP {response.status_code})")
        if response.status_code == 200:
            file.truncate(0)
        _append(response, file, url, report)


def _append(response: "httpx.Response", file: IO[bytes], url: str, report: Report) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise PrepareError(f"{url} comes packed although that was not asked for")
    file.seek(0, os.SEEK_END)
    done = told = file.tell()
    length = response.headers.get("Content-Length", "")
    total = done + int(length) if length.isdecimal() else None
    if total and total > MOST_BYTES:
        raise PrepareError(f"{url} has {total} bytes, more than the {MOST_BYTES} that are taken")
    for piece in response.iter_raw(1 << 16):
        file.write(piece)
        done += len(piece)
        if done > MOST_BYTES:
            raise PrepareError(f"{url} has more than the {MOST_BYTES} bytes that are taken")
        if done - told >= REPORT_EVERY or done == total:
            told = done
            report(Progress("fetch", PurePosixPath(urlsplit(url).path).name, done, total))
    file.flush()


@contextlib.contextmanager
def _answer(client: "httpx.Client", url: str, have: int) -> "Iterator[httpx.Response]":
    """The answer at the end of the redirects, of which each is looked at before it is followed."""
    headers = {"Range": f"bytes={have}-"} if have else {}
    first, target = url, url
    for _ in range(MOST_REDIRECTS + 1):
        _refuse_private(target, first)
        with client.stream("GET", target, headers=headers) as response:
            if not response.has_redirect_location:
                yield response
                return
            target = urljoin(target, response.headers["Location"])
    raise PrepareError(f"{url} is redirected more than {MOST_REDIRECTS} times")


def _refuse_private(target: str, first: str) -> None:
    """Refuse plain http and addresses that are not public, unless the URL that was asked for is loopback itself."""
    parts = urlsplit(target)
    if parts.hostname in _LOOPBACK and urlsplit(first).hostname in _LOOPBACK:
        return
    if parts.scheme != "https" or not parts.hostname:
        raise PrepareError(f"{target} is not fetched: only https is spoken")
    for address in _addresses(parts.hostname, parts.port or 443):
        if not ipaddress.ip_address(address).is_global:
            raise PrepareError(f"{target} is not fetched: {address} is no public address")


def _addresses(host: str, port: int) -> set[str]:
    """What the name stands for here; nothing behind a proxy, which looks names up by itself."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return {host}
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


def _again(text: str) -> Exception:
    """An error that counts as a cut connection, so that the file is asked for anew."""
    import httpx

    return httpx.ReadError(text)


def _start(response: "httpx.Response") -> int | None:
    """Where the part that came begins: `bytes 100-199/200`."""
    first = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdecimal() else None


def _size(response: "httpx.Response") -> int | None:
    """How long the server says that the whole is: `bytes */200`."""
    last = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(last) if last.isdecimal() else None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
