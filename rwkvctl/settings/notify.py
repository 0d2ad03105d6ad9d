"""Settings of notifications: the tables [[notify]] of config.toml, one for each receiver.

    [[notify]]
    name = "ops"
    url = "https://hooks.example/rwkvctl"           # or url_file, where the address itself is a secret
    secret_file = "/etc/rwkvctl/webhook.secret"     # signs what is sent
    [[notify]]
    name = "mail"
    command = ["mail", "-s", "rwkvctl: {text}", "ops@example.org"]
    events = ["job-failed", "gpu-quarantined"]

Pure. Standard library only, as the command line imports this.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.judge import is_local

EVENTS: Final[dict[str, str]] = {
    "job-failed": "a job ended without a score",
    "queue-empty": "no job runs or waits; held jobs do not count",
    "gpu-quarantined": "a GPU was taken out of use",
    "regression": "a score is significantly below the version before it, or below the baseline",
    "judge-outage": "the judge does not answer, and jobs wait for it; and that it is back",
    "disk-low": "too little disk space is left, so no job starts",
    "checkpoint-done": "all jobs of a watched checkpoint are over, and its feedback is written",
    "best-so-far": "a checkpoint is the best of its training run so far",
    "collapsed": "a checkpoint gives one answer to every row, or is at chance where others are above it",
    "killed": "something outside rwkvctl ends its processes again and again: three within an hour, six, twelve ...",
}
"""What a target can be told of, and when that happens."""

NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")


def setting(default: Any, help_text: str) -> Any:
    """Return a field with its help."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyTarget:
    """A target, notified by a webhook or by a command: exactly one of `url`, `url_file` and `command` is given.

    The address is the administrator's, and receivers are often on the private network, so private addresses are
    allowed. A receiver cannot use the daemon to explore that network: redirects are not followed, proxies of the
    environment are not used, and only the status of a response is read.
    """

    name: str = setting("", "name in `rwkvctl notify` and in logs (default: webhook-1, command-2 ...)")
    events: tuple[str, ...] = setting((), f"events to send; empty: all of {', '.join(EVENTS)}")
    url: str = setting("", "URL to which notices are posted as JSON")
    url_file: str = setting("", "a file with that URL, if the URL itself is a secret (Slack)")
    secret_file: str = setting("", "a file with the secret that signs each notice; empty: unsigned")
    command: tuple[str, ...] = setting((), "a program with arguments, no shell; {text}, {event}, {node} are filled in")
    timeout_s: float = setting(30.0, "a receiver or program that takes longer has failed, and is tried again")
    baseline: str = setting(
        "", "for `regression`: compare with this model's newest scores, not with the previous version"
    )
    margin: float = setting(0.0, "for `regression`: a drop of at most this much is ignored, as a fraction of 1")
    ca_file: str = setting("", "certificates to trust instead of the usual ones")
    allow_plain_http: bool = setting(False, "send notices unencrypted to a host that is not local")

    @property
    def kind(self) -> str:
        """Return how notices are delivered: `webhook` or `command`."""
        return "command" if self.command else "webhook"

    def wants(self, event: str) -> bool:
        """Whether the target is to be told of such an event."""
        return not self.events or event in self.events


def parse(tables: object, origin: str) -> tuple[NotifyTarget, ...]:
    """Return the targets of the tables [[notify]]. Raises ConfigError naming the file, the first table's line, and the
    wrong table."""
    if tables is None:
        return ()
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{origin}: notify must be tables, [[notify]].")
    found = tuple(target(table, number, f"{origin}: [[notify]] {number}") for number, table in enumerate(tables, 1))
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{origin}: two tables [[notify]] have the name {twice[0]!r}.")
    return found


def target(table: Mapping[str, Any], number: int, where: str) -> NotifyTarget:
    """Return the receiver that a table [[notify]] describes; without a name it is called after its kind and number.
    Raises ConfigError if a setting is unknown or wrong."""
    known = {f.name: f.default for f in dataclasses.fields(NotifyTarget)}
    values: dict[str, Any] = {}
    for name, raw in table.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown setting '{name}'; there are: {', '.join(sorted(known))}.")
        values[name] = converted(name, raw, type(known[name]), where)
    found = NotifyTarget(**values)
    found = found if found.name else dataclasses.replace(found, name=f"{found.kind}-{number}")
    check(found, where)
    return found


def converted(name: str, raw: object, wanted: type, where: str) -> object:
    """Return the value in the setting's type. A wrong one is not repeated: it may be a secret in the wrong place."""
    if wanted is tuple and isinstance(raw, Sequence) and all(type(item) is str for item in raw) and type(raw) is list:
        return tuple(raw)
    value = float(raw) if wanted is float and type(raw) is int else raw
    if type(value) is not wanted:
        expected = "a list of texts" if wanted is tuple else wanted.__name__
        raise ConfigError(f"{where}: {name} must be {expected}, not {type(raw).__name__}.")
    return value


def check(found: NotifyTarget, where: str) -> None:
    """Raise ConfigError for a target that cannot work, or is not safe."""
    if not NAME.fullmatch(found.name):
        raise ConfigError(f"{where}: name must be of letters, digits, `.`, `_` and `-`, not {found.name!r}.")
    if sum(map(bool, (found.url, found.url_file, found.command))) != 1:
        raise ConfigError(f"{where}: give one of url, url_file and command.")
    if unknown := sorted(set(found.events) - EVENTS.keys()):
        raise ConfigError(f"{where}: unknown event {unknown[0]!r}; there are: {', '.join(EVENTS)}.")
    if not 0 < found.timeout_s < float("inf"):
        raise ConfigError(f"{where}: timeout_s must be more than 0.")
    if not 0 <= found.margin < float("inf"):
        raise ConfigError(f"{where}: margin must not be negative.")
    if found.command and not found.command[0].strip():
        raise ConfigError(f"{where}: command must begin with a program.")
    if found.url:
        check_url(found.url, allow_plain_http=found.allow_plain_http, where=where)


def check_url(text: str, *, allow_plain_http: bool, where: str) -> None:
    """Raise ConfigError for an invalid address, or one that would send notices in the clear. It is never repeated."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
    except ValueError:
        raise ConfigError(f"{where}: its address is not a URL.") from None
    if url.scheme not in {"http", "https"} or not host or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"{where}: its address must be an http or https URL.")
    if url.username or url.password:
        raise ConfigError(f"{where}: its address must hold no user and password; sign notices with secret_file.")
    if url.scheme == "http" and not allow_plain_http and not is_local(host):
        raise ConfigError(
            f"{where}: {host} is not local, so http would send notices unencrypted; use https, or set "
            "allow_plain_http = true."
        )
