"""`rwkvctl notify`: receivers of notices, and a test of them."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables.service_table import notified, tested
from rwkvctl.protocol.errors import Exit

PATIENCE_S = 150.0
"""Longer than a target's usual deadline."""


@verb
def notify(context: Context) -> int:
    """Receivers of notices and their events: failed jobs, an empty queue, quarantined GPUs, regressions, judge, disk.

    Each is a table [[notify]] of config.toml with a url, which gets signed JSON, or a command, which gets JSON on its
    standard input: see rwkvctl.toml(5). Notices wait in the daemon's store until they arrive.

    $ rwkvctl notify
    $ rwkvctl notify test
    """
    answer = context.client.get("/v1/notify")
    context.show(answer, notified(answer.value["items"]))
    return Exit.OK


@verb
def notify_test(context: Context, receiver: str = "") -> int:
    """Send a test notice now, and show whether it arrived.

    Exit code 1 if one did not arrive.

    receiver: the name of a table [[notify]]; without one, all of them

    $ rwkvctl notify test
    $ rwkvctl notify test ops
    """
    answer = context.change("/v1/notify/test", {"target": receiver}, PATIENCE_S)
    context.show(answer, tested(answer.value["items"]))
    return Exit.FAILED if any(item.get("error") for item in answer.value["items"]) else Exit.OK
