"""`rwkvctl reload`: make the daemon read its configuration again."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables.service_table import reloaded
from rwkvctl.protocol.errors import Exit


@verb
def reload(context: Context) -> int:
    """Reload the daemon's configuration; jobs, engines and clients are not interrupted.

    Everything is checked first: config.toml with its tables [judge], [roles], [groups] and [[notify]], benchmarks.toml,
    and benchmarks of your own. If a part of it is wrong, nothing changes, and the file and the line are named. Settings
    that need a restart of the daemon are named too.

    `systemctl reload rwkvctl` does this. SIGHUP does it too; errors are then in the log and in `rwkvctl status`.

    $ rwkvctl reload
    $ rwkvctl config show
    """
    answer = context.change("/v1/reload", {})
    context.show(answer, reloaded(answer.value))
    return Exit.OK
