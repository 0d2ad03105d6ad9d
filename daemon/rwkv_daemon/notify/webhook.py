"""Posting a notice: no redirects, no proxies from the environment, and only the status of the response is read.

A receiver may be slow, endless, hostile or gone. One deadline covers everything, and the connection is closed as soon
as the status is known, so that none of that costs more than a waiting task.
"""

import asyncio
import importlib
import logging
import ssl
import time
from typing import Final

from rwkv_daemon.notify.delivery_outcome import DeliveryOutcome, of_status
from rwkv_daemon.notify.signing import signature
from rwkv_daemon.remote.key_file import Scrubber
from rwkvctl import __version__
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.notify import NotifyTarget, check_url
from rwkvctl.settings.secret import read_word

CONNECT_S: Final = 10.0
LONGEST_ERROR: Final = 200


async def post(target: NotifyTarget, notice: str, event: str, body: str) -> DeliveryOutcome:
    """Post one notice. Never raises because of the receiver, or because a secret's file is gone by now."""
    await asyncio.to_thread(
        importlib.import_module, "httpx"
    )  # imported here, so that a node without webhooks does not load it
    import httpx

    logging.getLogger("httpx").setLevel(logging.WARNING)
    scrubber = Scrubber()
    try:
        url, headers = prepared(target, notice, event, body.encode(), scrubber)
        trust = await asyncio.to_thread(trusted, target) if url.startswith("https:") else False
        async with (
            asyncio.timeout(target.timeout_s),
            httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                verify=trust,
                timeout=httpx.Timeout(target.timeout_s, connect=CONNECT_S),
            ) as client,
            client.stream("POST", url, content=body.encode(), headers=headers) as response,
        ):
            return of_status(response.status_code)
    except TimeoutError:
        return DeliveryOutcome(f"no answer within {target.timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ConfigError) as error:
        return DeliveryOutcome(scrubber.clean(f"{type(error).__name__}: {error}")[:LONGEST_ERROR])


def prepared(
    target: NotifyTarget, notice: str, event: str, body: bytes, scrubber: Scrubber
) -> tuple[str, dict[str, str]]:
    """Return the address and the headers. Secrets are read now, as they may have been changed. Raises ConfigError."""
    url = target.url or secret_of(target.url_file, "the address in", scrubber)
    check_url(url, allow_plain_http=target.allow_plain_http, where=f"[[notify]] {target.name}")
    headers = {
        "content-type": "application/json",
        "user-agent": f"rwkvctl/{__version__}",
        "rwkvctl-event": event,
        "rwkvctl-delivery": notice,
    }
    if target.secret_file:
        timestamp = int(time.time())
        headers["rwkvctl-timestamp"] = str(timestamp)
        secret = secret_of(target.secret_file, "the secret in", scrubber)
        headers["rwkvctl-signature"] = signature(secret, timestamp, body)
    return url, headers


def secret_of(name: str, what: str, scrubber: Scrubber) -> str:
    """Return the secret in a file that others cannot read, or in a credential. Raises ConfigError."""
    found = read_word(config.secret_file(name), what)
    scrubber.add([found])
    return found.reveal()


def trusted(target: NotifyTarget) -> ssl.SSLContext:
    """Return the TLS context with the certificates that are trusted. Raises OSError if the file holds none."""
    import httpx

    if target.ca_file:
        return ssl.create_default_context(cafile=target.ca_file)
    return httpx.create_ssl_context(trust_env=False)
