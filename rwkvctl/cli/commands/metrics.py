"""`rwkvctl metrics`: print the node's metrics in Prometheus' text format or as JSON."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import safe_text

SILENCE_S = 30.0


@verb
def metrics(context: Context) -> int:
    """Metrics of the node for Prometheus; with --json as JSON.

    They are served at /metrics on the daemon's socket. Use this output for a textfile collector, or connect Prometheus
    to the socket with socat or a proxy.

    $ rwkvctl metrics
    $ rwkvctl metrics > /var/lib/node_exporter/rwkvctl.prom
    """
    if context.as_json:
        context.show(context.client.get("/v1/metrics"))
        return Exit.OK
    for line in context.client.stream("/metrics", SILENCE_S):
        context.terminal.write(safe_text(line.decode(errors="replace")) + "\n")
    return Exit.OK
