"""A daemon on another machine: TCP behind TLS, and the token that lets this client in. Imported only where it is used,
as TLS costs a third of the command line's start-up."""

import socket
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError, UnreachableError
from rwkvctl.settings.config import Config, absolute, secret_file
from rwkvctl.settings.secret import Secret, read_word


class Remote(NamedTuple):
    """Address, trusted certificate and token of a daemon on another machine."""

    host: str
    port: int
    context: ssl.SSLContext
    token: Secret

    def connect(self, timeout_s: float) -> socket.socket:
        """A connection on which nothing has been sent yet but TLS. Raises RwkvctlError, OSError."""
        where = f"{self.host}:{self.port}"
        try:
            plain = socket.create_connection((self.host, self.port), timeout_s)
        except (ConnectionRefusedError, socket.gaierror) as error:
            raise UnreachableError(
                f"No daemon answers on {where} ({error.strerror}); check listen_tcp in its configuration."
            ) from error
        try:
            return self.context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise RefusedError(
                "certificate",
                f"The server on {where} is not verified as your daemon ({error.verify_message}); nothing was sent.",
                "Set client_ca_file to its certificate (tls_cert there), and use a name or address that is in it.",
                Exit.REFUSED,
            ) from error
        except ssl.SSLError as error:
            plain.close()
            raise UnreachableError(f"The TLS handshake with {where} failed ({error.reason}).") from error
        except OSError:
            plain.close()
            raise


def remote(config: Config) -> Remote:
    """The daemon that the settings name by `https://HOST:PORT`. Raises ConfigError."""
    url = urlsplit(config.settings.socket)
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if not host or not port or url.path.strip("/") or url.query or url.username:
        raise ConfigError(f"socket: a daemon on another machine is https://HOST:PORT, not {config.settings.socket!r}.")
    if not config.settings.client_token_file:
        raise ConfigError(
            f"{host} requires a token: name the file that holds yours, client_token_file in "
            "config.toml or RWKVCTL_CLIENT_TOKEN_FILE."
        )
    token = read_word(secret_file(config.settings.client_token_file), "client_token_file")
    return Remote(host, port, trust(config.settings.client_ca_file), token)


def trust(ca_file: str) -> ssl.SSLContext:
    """TLS that believes the usual authorities, or only that certificate, be it an authority's or the daemon's own.
    Raises ConfigError."""
    path = absolute("client_ca_file", ca_file) if ca_file else None
    try:
        context = ssl.create_default_context(cafile=path)
    except OSError as error:  # an SSLError is one
        raise ConfigError(f"client_ca_file {path} is not a PEM certificate: {error.strerror or error}.") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
