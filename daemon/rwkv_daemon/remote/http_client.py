"""HTTP to servers of models: no redirects, no settings from the environment, no compression, everything bounded.

An endpoint has one client for every few connections: httpx iterates over all connections of a client for each request,
so 64 of them in one client cost five times the processor time of 4.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rwkv_daemon.remote.failures import ExchangeFailure
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.judge import EndpointConfig
from rwkvctl.settings.secret import Secret

if TYPE_CHECKING:
    import httpx

CONNECT_S = 15.0
CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status, headers with lower-case names, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes


class ExchangeError(Exception):
    """Raised when a request brings no usable response; `failure` says why."""

    def __init__(self, failure: ExchangeFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@dataclass(slots=True, eq=False)
class PooledClient:
    """An httpx client and how many requests it has in flight."""

    client: "httpx.AsyncClient"
    busy: int = 0


@dataclass(slots=True)
class Transport:
    """Clients by endpoint. httpx is imported when the first one is needed, so a node that asks no other model does
    not load it."""

    timeout_s: float
    max_reply_bytes: int
    trusted: dict[EndpointConfig, ssl.SSLContext] = field(default_factory=dict)
    clients: dict[EndpointConfig, list[PooledClient]] = field(default_factory=dict)

    def check(self, endpoints: Iterable[EndpointConfig], who: str) -> None:
        """Make the first client of each endpoint. Raises ConfigError for certificates or a proxy that cannot be
        used."""
        for endpoint in endpoints:
            try:
                self._client(endpoint)
            except (OSError, ValueError) as error:
                name = who if endpoint.label == who else f"{who} {endpoint.label}"
                raise ConfigError(f"{name} cannot be set up: {error}.") from None

    async def post(self, endpoint: EndpointConfig, route: str, secret: Secret, body: bytes) -> HttpResponse:
        """Send one request to a route below the base URL. Raises ExchangeError. The deadline covers the whole exchange,
        also a reply that arrives byte by byte."""
        import httpx

        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
        if secret.reveal():
            headers["authorization"] = f"Bearer {secret.reveal()}"
        client = self._client(endpoint)
        client.busy += 1
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                client.client.stream("POST", f"{endpoint.base_url}{route}", content=body, headers=headers) as response,
            ):
                found = {name.lower(): value for name, value in response.headers.items()}
                return HttpResponse(response.status_code, found, await self._body(response))
        except (TimeoutError, httpx.TimeoutException):
            failure = ExchangeFailure("again", f"no complete reply within {self.timeout_s:g} s", timed_out=True)
        except (httpx.HTTPError, OSError) as error:
            failure = ExchangeFailure("again", f"{type(error).__name__}: {error}"[:300])
        finally:
            client.busy -= 1
        raise ExchangeError(failure)

    async def close(self) -> None:
        for client in [client for clients in self.clients.values() for client in clients]:
            await client.client.aclose()
        self.clients.clear()

    async def _body(self, response: "httpx.Response") -> bytes:
        """Read the body up to the limit. A compressed one is refused, as a few bytes could become very many."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ExchangeError(ExchangeFailure("again", "the reply is compressed, which was not asked for"))
        data = bytearray()
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > self.max_reply_bytes:
                raise ExchangeError(ExchangeFailure("again", f"the reply is longer than {self.max_reply_bytes} bytes"))
        return bytes(data)

    def _client(self, endpoint: EndpointConfig) -> PooledClient:
        """Return a client with room for a request; a new one if all are busy."""
        clients = self.clients.setdefault(endpoint, [])
        free = min(clients, key=lambda client: client.busy, default=None)
        if free is None or free.busy >= CONNECTIONS:
            free = PooledClient(self._made(endpoint))
            clients.append(free)
        return free

    def _made(self, endpoint: EndpointConfig) -> "httpx.AsyncClient":
        import httpx

        logging.getLogger("httpx").setLevel(logging.WARNING)  # else it logs a line for each request
        if endpoint not in self.trusted:
            ca_file = endpoint.ca_file
            self.trusted[endpoint] = (
                ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context(trust_env=False)
            )
        return httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            verify=self.trusted[endpoint],
            proxy=endpoint.proxy or None,
            timeout=httpx.Timeout(self.timeout_s, connect=min(CONNECT_S, self.timeout_s), pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS),
        )
