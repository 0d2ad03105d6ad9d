"""What a browser may be made to send to a port of this machine, and how a server there knows it.

Every page may have a browser post to the loopback (as a form, as plain text), and with a name that it points there
(DNS rebinding) it may read the answers, too. A server without a key is open to the machine's users, not to the pages
that they look at.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = "localhost"
TYPES: Final = frozenset({"application/json", "application/x-ndjson"})
"""Kinds of body that a page cannot send elsewhere without being asked for leave first (CORS)."""
SAME: Final = frozenset({"same-origin", "none"})


def names_loopback(host: str) -> bool:
    """Whether a `Host` header names this machine's loopback; the port may be another one at the far end of a tunnel."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == LOCAL or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def trouble(method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Why a request to a loopback server without a key may come from a page: a status and a sentence."""
    host, origin = headers.get("host", ""), headers.get("origin")
    remedy = "; serve with a key (--api-key-file) if that is meant"
    if not names_loopback(host):
        return 403, f"the Host header must name the loopback, such as 127.0.0.1 or localhost, not {host[:80]!r}{remedy}"
    if origin is not None and origin != f"http://{host}":
        return 403, f"pages of other origins may not ask here, and this one is of {origin[:80]!r}{remedy}"
    if headers.get("sec-fetch-site", "none") not in SAME:
        return 403, f"pages of other sites may not ask here{remedy}"
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method not in {"GET", "HEAD"} and kind not in TYPES:
        return 415, f"the Content-Type must be application/json, not {kind[:80]!r}"
    return None
