"""What the manual says that no verb and no setting says of itself: program, service, configuration."""

from typing import Any, Final

from rwkvctl.settings.judge import EndpointConfig, JudgeConfig
from rwkvctl.settings.notify import NotifyTarget

ABOUT: Final = """\
A daemon on the node watches its GPUs, keeps a queue of jobs, runs RWKV-7 engines, grades the answers and keeps every \
sample and score. This program talks to it over its socket. Data goes to standard output, all else to standard error; \
a pipe gets tab-separated lines, --json the reply itself."""

FILES: Final = (
    ("/etc/rwkvctl/config.toml", "the system's configuration; see rwkvctl.toml(5)"),
    ("~/.config/rwkvctl/config.toml", "the user's, which wins over the system's"),
    ("$RWKVCTL_HOME/config.toml", "that of the home which this variable names; it wins over both"),
    ("benchmarks.toml, benchmarks/*.py", "beside it: standing settings of benchmarks, and benchmarks of your own"),
    ("/var/lib/rwkvctl", "the service's home: store, rows, weights, runs"),
    ("~/.local/share/rwkvctl", "a user's home"),
    ("/var/cache/rwkvctl", "the service's caches and, in tmp, its temporary files"),
    ("/run/rwkvctl/daemon.sock", "the service's socket"),
)

SERVICE: Final = """\
`rwkvctl service install` writes the units rwkvctl.service and rwkvctl.socket. The service runs as the user rwkvctl \
without any privilege; members of the group rwkvctl operate it, and the table [roles] says who may do more, or less.

Engines and runners outlive the daemon: `systemctl restart rwkvctl` interrupts no job, and clients wait in the socket \
meanwhile. `systemctl stop rwkvctl` leaves them too; `rwkvctl stop --all` ends the jobs, and `rwkvctl service \
uninstall` ends all. systemd hears READY=1 once \
the daemon has found what an earlier one left running and has looked at the GPUs, a STATUS= line from then on, and \
WATCHDOG=1 for as long as its event loop runs; a driver that hangs is no reason to be killed.

Figures for Prometheus are at /metrics on the socket: see rwkvctl-metrics(1)."""

SIGNALS: Final = {
    "SIGTERM, SIGINT": "End. Workers go on, and the next daemon adopts them.",
    "SIGHUP": "Read the configuration anew, as `rwkvctl reload` does. What is wrong stands in the log and in "
    "`rwkvctl status`; the configuration in force stays.",
}

CONFIGURATION: Final = """\
TOML. The last source that sets a value wins: the defaults, /etc/rwkvctl/config.toml, ~/.config/rwkvctl/config.toml \
($XDG_CONFIG_HOME), $RWKVCTL_HOME/config.toml where that variable is set, variables of the environment (RWKVCTL_ and \
the name in capitals), and flags. `rwkvctl config show` says where each value came from, and which files were looked \
at. `rwkvctl reload` takes changes in, and refuses a file with a mistake by its line.

Secrets never stand in this file: it names files that others cannot read, or `credential:NAME` for one that systemd \
passes (LoadCredential=)."""

JUDGE: Final = "Who judges answers that no rule can grade, and who looks at wrong ones."
ENDPOINT: Final = "An OpenAI-compatible server of the judge; there may be several."
NOTIFY: Final = """\
Somebody who is told of events; there may be several. A webhook gets a JSON object with schema, id, event, at, node, \
text and data. With secret_file it is signed: rwkvctl-signature is sha256= and the HMAC-SHA256 of rwkvctl-timestamp, a \
full stop and the body. What does not arrive is sent again for about 14 hours, always with the same id. Private \
addresses are allowed, as receivers commonly stand there; redirects are not followed, and what a receiver answers is \
not read. A command gets the same object on its standard input."""

TABLES: Final[tuple[tuple[str, type[Any], str], ...]] = (
    ("[judge] AND [checker]", JudgeConfig, JUDGE),
    ("[[judge.endpoints]]", EndpointConfig, ENDPOINT),
    ("[[notify]]", NotifyTarget, NOTIFY),
)
"""Tables of the configuration whose settings are fields of a class: title, class, and what they are for."""

OTHER_TABLES: Final = {
    "[roles]": "Who may do what: lists of users and @groups for viewer, operator and admin. Root and the daemon's user "
    "are admins, who is not named is a viewer, and the group rwkvctl operates unless this table says otherwise.",
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
