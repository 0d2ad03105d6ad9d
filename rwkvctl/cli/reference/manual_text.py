"""Texts of the man pages that are not part of a verb or a setting: program, service, configuration."""

import dataclasses
from typing import Any, Final

from rwkvctl.settings import endpoints
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig, settings_of
from rwkvctl.settings.notify import NotifyTarget

ABOUT: Final = """\
A daemon on the node watches its GPUs, keeps a queue of jobs, runs RWKV-7 engines, grades the answers and keeps every \
sample and score. This program talks to it over its socket. Data goes to standard output, everything else to standard \
error. In a pipe the output is tab-separated lines; --json prints the reply itself."""

FILES: Final = (
    ("/etc/rwkvctl/config.toml", "the system's configuration; see rwkvctl.toml(5)"),
    ("~/.config/rwkvctl/config.toml", "the user's configuration, which overrides the system's"),
    ("$RWKVCTL_HOME/config.toml", "the configuration of the home that this variable names; it overrides both"),
    ("benchmarks.toml, benchmarks/*.py", "in the same folder: your settings for benchmarks, and your own benchmarks"),
    ("/var/lib/rwkvctl", "the service's home: store, rows, weights, runs"),
    ("~/.local/share/rwkvctl", "a user's home"),
    ("/var/cache/rwkvctl", "the service's caches and, in tmp, its temporary files"),
    ("/run/rwkvctl/daemon.sock", "the service's socket"),
)

SERVICE: Final = """\
`rwkvctl service install` writes the units rwkvctl.service and rwkvctl.socket. The service runs as the user rwkvctl \
without any privilege; members of the group rwkvctl operate it, and the table [roles] says who may do more or less.

Engines and runners outlive the daemon: `systemctl restart rwkvctl` interrupts no job, and clients wait in the socket \
meanwhile. `systemctl stop rwkvctl` leaves them running, too; `rwkvctl stop --all` ends the jobs, and \
`rwkvctl service uninstall` ends all processes. The daemon sends READY=1 to systemd once it has found the processes of \
an earlier daemon and has read the GPUs, then a STATUS= line, and WATCHDOG=1 as long as its event loop runs. A GPU \
driver that hangs does not stop WATCHDOG=1.

Metrics for Prometheus are at /metrics on the socket: see rwkvctl-metrics(1)."""

SIGNALS: Final = {
    "SIGTERM, SIGINT": "Exit. Workers continue, and the next daemon adopts them.",
    "SIGHUP": "Read the configuration again, as `rwkvctl reload` does. Errors are in the log and in `rwkvctl status`; "
    "after an error the configuration in force does not change.",
}

CONFIGURATION: Final = """\
TOML. The last source that sets a value wins: the defaults, /etc/rwkvctl/config.toml, ~/.config/rwkvctl/config.toml \
($XDG_CONFIG_HOME), $RWKVCTL_HOME/config.toml where that variable is set, variables of the environment (RWKVCTL_ and \
the name in capitals), and flags. `rwkvctl config show` shows where each value came from, and which files were read. \
`rwkvctl reload` applies changes; it refuses a file with a mistake and names the line.

This file never contains secrets: it names files that others cannot read, or `credential:NAME` for one that systemd \
passes (LoadCredential=)."""

JUDGE: Final = "The model that judges answers no rule can grade, and the model that checks wrong answers."
ENDPOINT: Final = "An OpenAI-compatible server of the judge; there may be several."
NOTIFY: Final = """\
A receiver of event notices; there may be several. A webhook gets a JSON object with schema, id, event, at, node, \
text and data. With secret_file it is signed: rwkvctl-signature is sha256= and the HMAC-SHA256 of rwkvctl-timestamp, a \
full stop and the body. A notice that does not arrive is sent again for about 14 hours, always with the same \
id. Private addresses are allowed, because receivers are often there; redirects are not followed, and the body of a \
reply is not read. A command gets the same object on its standard input."""

ENDPOINT_MODEL: Final = """\
An OpenAI-compatible server as a model of its own: `rwkvctl dispatch --models NAME`. Scores record its base URL, model \
and revision. All jobs share its keys, limits and budget; during an outage they wait. `rwkvctl endpoints` shows its \
state and cost."""

WRITER_MODEL: Final = """\
The OpenAI-compatible server by which `rwkvctl rewrite` has right samples brought into a form for training, or split \
into thoughts, and `rwkvctl data label --rule` rows labelled, with a budget of its own. No dispatch chooses it, and \
without this table such jobs are held. `rwkvctl endpoints` shows its state and cost."""

TABLES: Final[tuple[tuple[str, tuple[dataclasses.Field[Any], ...], str], ...]] = (
    ("[judge] AND [checker]", settings_of(JudgeConfig), JUDGE),
    ("[[judge.endpoints]]", settings_of(EndpointConfig), ENDPOINT),
    ("[endpoints.NAME]", endpoints.FIELDS, ENDPOINT_MODEL),
    ("[writer]", endpoints.WRITER_FIELDS, WRITER_MODEL),
    ("[[notify]]", dataclasses.fields(NotifyTarget), NOTIFY),
)
"""Tables of the configuration whose settings are fields of a class: title, fields, and what they are for."""

OTHER_TABLES: Final = {
    "[roles]": "Who may do what: lists of users and @groups for viewer, operator and admin. Root and the daemon's user "
    "are admins. Users not named here are viewers; members of the group rwkvctl are operators unless this table says "
    "otherwise.",
    "[groups]": "How many jobs of a group may run at once: NAME = NUMBER. `rwkvctl dispatch --group NAME` fills it.",
}

EXAMPLE: Final = """\
engine_slots = 128
min_free_disk_bytes = 50000000000

[roles]
admin = ["alice"]
operator = ["@rwkvctl", "bob"]

[groups]
nightly = 2

[[notify]]
name = "ops"
url = "https://hooks.example/rwkvctl"
secret_file = "/etc/rwkvctl/webhook.secret"
events = ["job-failed", "gpu-quarantined", "disk-low"]

[[notify]]
name = "desktop"
command = ["notify-send", "rwkvctl", "{text}"]
events = ["queue-empty"]"""
