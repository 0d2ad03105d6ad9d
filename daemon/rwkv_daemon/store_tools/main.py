"""`python -m rwkv_daemon.store_tools backup FILE | restore FILE | migrate --to|--from PLACE | rebuild | check`, each
with `--home DIR` and `--json`. Exit codes are those of `rwkvctl.protocol.errors.Exit`."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rwkv_daemon.store import StoreError
from rwkv_daemon.store.table_copy import CopyError
from rwkv_daemon.store_tools.backup import backup
from rwkv_daemon.store_tools.check import check
from rwkv_daemon.store_tools.migrate import migrate
from rwkv_daemon.store_tools.offline import ToolResult
from rwkv_daemon.store_tools.rebuild import rebuild
from rwkv_daemon.store_tools.restore import restore
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings import config
from rwkvctl.text.json_envelope import envelope, fail, say, say_json
from rwkvctl.text.sanitize import safe_text


class SafeFormatter(logging.Formatter):
    """Formats log lines; control characters in paths and errors are made visible."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_text(super().format(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb that is named and print its result, as text or JSON; returns the exit code."""
    given = parser().parse_args(argv)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    os.umask(0o077)
    try:
        told = asyncio.run(perform(given, config.load({"home": given.home})))
    except RwkvctlError as error:
        return fail(f"rwkvctl {given.verb}", error, as_json=given.json)
    except (StoreError, CopyError, OSError) as error:
        wrong = RwkvctlError(f"{error}. What was there is as it was.")
        return fail(f"rwkvctl {given.verb}", wrong, as_json=given.json)
    schema = f"rwkvctl.{given.verb}/1"
    if given.json:
        say_json(envelope(schema, told.fields))
    else:
        say(told.lines)
    return Exit.OK


async def perform(given: argparse.Namespace, settings: config.Config) -> ToolResult:
    """Run the named verb and return its result."""
    match given.verb:
        case "backup":
            return await backup(settings, Path(given.file).absolute())
        case "restore":
            return await restore(settings, Path(given.file).absolute(), sure=given.yes)
        case "migrate":
            return await migrate(settings, to=given.to, from_=given.from_)
        case "rebuild":
            return await rebuild(settings, sure=given.yes)
        case _:
            return await check(settings)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the verbs and their flags."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--home", default="")
    common.add_argument("--json", action="store_true")
    found = argparse.ArgumentParser(prog="python -m rwkv_daemon.store_tools")
    verbs = found.add_subparsers(dest="verb", required=True)
    verbs.add_parser("backup", parents=[common]).add_argument("file")
    restoring = verbs.add_parser("restore", parents=[common])
    restoring.add_argument("file")
    restoring.add_argument("--yes", action="store_true")
    migrating = verbs.add_parser("migrate", parents=[common])
    migrating.add_argument("--to", default="")
    migrating.add_argument("--from", dest="from_", default="")
    verbs.add_parser("rebuild", parents=[common]).add_argument("--yes", action="store_true")
    verbs.add_parser("check", parents=[common])
    return found
