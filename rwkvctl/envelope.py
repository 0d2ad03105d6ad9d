"""What every JSON document of rwkvctl has around it, and errors in it: for the command line and the programs that it
becomes."""

import json
import sys
from typing import Any, Final

from rwkvctl.protocol.errors import Exit, NotNowError, RefusedError, RwkvctlError
from rwkvctl.safe import safe_json, safe_line

CODES: Final = {Exit.UNREACHABLE: "unreachable", Exit.VERSION_SKEW: "version-skew", Exit.USAGE: "usage"}


def envelope(schema: str, fields: dict[str, Any]) -> str:
    """A JSON document with schema, time and node."""
    from datetime import UTC, datetime
    from platform import node

    as_of = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"schema": schema, "as_of": as_of, "node": node(), **fields}, ensure_ascii=False, default=str)


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
        text = error_envelope(error)
        sys.stdout.write((safe_json(text) if sys.stdout.isatty() else text) + "\n")
        sys.stdout.flush()
    return int(error.exit_code)
