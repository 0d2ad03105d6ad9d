"""Checks that a request to a loopback server without a key was not sent by a web page.

Every page may have a browser post to the loopback (as a form, as plain text), and with a name that resolves to it (DNS
rebinding) it may read the responses, too. A server without a key is meant for the machine's users, not for the pages
that they visit.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = "localhost"
TYPES: Final = frozenset({"application/json", "application/x-ndjson"})
"""Content types that a browser does not send to another origin without asking it first (CORS preflight)."""
SAME: Final = frozenset({"same-origin", "none"})


def names_loopback(host: str) -> bool:
    """Whether a `Host` header names this machine's loopback; the port may be another one at the far end of a tunnel."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == LOCAL or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def trouble(method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return (status, sentence) for a request that may come from a web page; None if it cannot."""
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
