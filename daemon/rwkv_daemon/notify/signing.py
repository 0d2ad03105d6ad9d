"""The signature of a webhook: HMAC-SHA256 over the time of sending and the body, so that neither can be changed.

    rwkvctl-timestamp: 1790000000
    rwkvctl-signature: sha256=HEX of HMAC(secret, "1790000000." + body)

A receiver computes the same, compares in constant time, and drops what is older than a few minutes.
"""

import hashlib
import hmac


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature header: `sha256=` and the HMAC of `TIMESTAMP.BODY` in hexadecimal."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"
