"""What every JSON document of rwkvctl has around it, and errors in it: for the command line and the programs that it
becomes."""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, Final

from rwkvctl.protocol.errors import Exit, NotNowError, RefusedError, RwkvctlError
from rwkvctl.text.sanitize import safe_json, safe_line

SURROGATES: Final = re.compile("[\ud800-\udfff]")
CODES: Final = {Exit.UNREACHABLE: "unreachable", Exit.VERSION_SKEW: "version-skew", Exit.USAGE: "usage"}


def envelope(schema: str, fields: dict[str, Any]) -> str:
    """A JSON document with schema, time and node. UTF-8 can hold it: half a character, which stands in a path for a
    byte that is none, is written as an escape."""
    from datetime import UTC, datetime
    from platform import node

    as_of = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = json.dumps({"schema": schema, "as_of": as_of, "node": node(), **fields}, ensure_ascii=False, default=str)
    return SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def error_envelope(error: RwkvctlError) -> str:
    """An error as a JSON document, the same shape as the daemon's refusals."""
    code, detail, hint = CODES.get(error.exit_code, "failed"), str(error), ""
    if isinstance(error, RefusedError):
        code, detail, hint = error.code, error.detail, error.hint
    fields = {"code": code, "detail": detail, "hint": hint, "exit_code": int(error.exit_code)}
    fields |= {"retry": True} if isinstance(error, NotNowError) else {}
    return envelope("rwkvctl.error/1", fields)


def fail(program: str, error: RwkvctlError, *, as_json: bool) -> int:
    """Say what is wrong on standard error, with --json also as a document on standard output; returns the exit code."""
    sys.stderr.write(f"{program}: {safe_line(str(error))}\n")
    if as_json:
        say_json(error_envelope(error))
    return int(error.exit_code)


def say_json(text: str) -> None:
    """Print a JSON document unchanged; on a terminal, control and invisible characters are escaped."""
    sys.stdout.write((safe_json(text) if sys.stdout.isatty() else text).rstrip("\n") + "\n")
    sys.stdout.flush()


def say(lines: Iterable[str]) -> None:
    """Lines of data on standard output, safe for a terminal; no text in one begins another. Tabs stay."""
    sys.stdout.write("".join("\t".join(map(safe_line, line.split("\t"))) + "\n" for line in lines))
    sys.stdout.flush()
