"""`rwkvctl version`: print the versions of the program, the daemon and the protocol."""

from rwkvctl import __version__
from rwkvctl.cli.client import API_MAX, API_MIN
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Column, Table
from rwkvctl.protocol.errors import Exit, RwkvctlError


@verb
def version(context: Context) -> int:
    """The versions of this program, of the daemon, and of the protocol between them.

    $ rwkvctl version
    """
    try:
        info = context.client.get("/v1/info").value
    except RwkvctlError:  # a version must be told without a daemon too
        info = {}
    fields = {"version": __version__, "api_min": API_MIN, "api_max": API_MAX, "daemon": info or None}
    rows = [["rwkvctl", __version__, f"{API_MIN} to {API_MAX}"]]
    rows.append(
        ["daemon", info["version"], f"{info['api_min']} to {info['api_max']}"]
        if info
        else ["daemon", "not reachable", "–"]
    )
    context.show_local(
        "rwkvctl.version/1", fields, Table([Column("PART"), Column("VERSION"), Column("PROTOCOL")], rows)
    )
    return Exit.OK
