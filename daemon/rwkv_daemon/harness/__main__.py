"""`python -m rwkv_daemon.harness build NAME [--again]`, with `--home DIR` and `--json`: what `rwkvctl harness build`
execs. Exit codes are those of `rwkvctl.protocol.errors.Exit`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from rwkv_daemon.harness.build import build
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings import config
from rwkvctl.text.json_envelope import envelope, fail, say, say_json
from rwkvctl.text.quantities import several
from rwkvctl.text.sanitize import safe_line

SCHEMA = "rwkvctl.harness-build/1"


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    os.umask(0o077)
    try:
        found = build(config.load({"home": given.home}), given.name, told, afresh=given.again)
    except RwkvctlError as error:
        return fail("rwkvctl harness build", error, as_json=given.json)
    except KeyboardInterrupt:
        told(f"interrupted; `rwkvctl harness build {given.name}` makes it anew")
        return 128 + signal.SIGINT
    except OSError as error:
        return fail("rwkvctl harness build", RwkvctlError(f"{error}."), as_json=given.json)
    if given.json:
        say_json(envelope(SCHEMA, {"name": given.name, "tasks": len(found.names)}))
    else:
        tasks = several(len(found.names), "task")
        say((f"{given.name} is ready: {tasks}; `rwkvctl harness tasks {given.name}` lists them",))
    return Exit.OK


def told(step: str) -> None:
    sys.stderr.write(f"{safe_line(step)}\n")
    sys.stderr.flush()


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m rwkv_daemon.harness")
    verbs = found.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("build")
    building.add_argument("name")
    building.add_argument("--again", action="store_true")
    building.add_argument("--home", default="")
    building.add_argument("--json", action="store_true")
    return found


if __name__ == "__main__":
    sys.exit(main())
