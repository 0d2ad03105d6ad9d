"""`rwkvctl metrics`: print the node's metrics in Prometheus' text format or as JSON."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import safe_text

SILENCE_S = 30.0


@verb
def metrics(context: Context) -> int:
    """Figures of the node as Prometheus reads them; with --json as JSON.

    They are served at /metrics on the daemon's socket. A textfile collector may take them from here, and socat or a
    proxy can lead Prometheus to the socket.

    $ rwkvctl metrics
    $ rwkvctl metrics > /var/lib/node_exporter/rwkvctl.prom
    """
    if context.as_json:
        context.show(context.client.get("/v1/metrics"))
        return Exit.OK
    for line in context.client.stream("/metrics", SILENCE_S):
        context.terminal.write(safe_text(line.decode(errors="replace")) + "\n")
    return Exit.OK
