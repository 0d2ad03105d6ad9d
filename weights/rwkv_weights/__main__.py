"""`python -m rwkv_weights list | show MODEL | verify MODEL | inspect FILE | merge FILE | download`: what `rwkvctl
weights` runs, each with [--home DIR] [--weights-dir DIR] [--output table|tsv|json]; and `hash PATH`, a chore of the
daemon that prints one JSON line. Exit codes are those of `rwkvctl.protocol.errors.Exit`; one line on standard error
says what went wrong.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rwkv_weights.errors import CheckpointError
from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import allow_only
from rwkv_weights.verbs import places
from rwkv_weights.verbs.output import Output
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.text.json_envelope import fail
from rwkvctl.text.sanitize import safe_line

LONGEST: Final = 400
"""Characters of a sentence about a checkpoint."""
VERBS: Final = {
    "list": ("listing", "the checkpoints of this node"),
    "show": ("show", "what a checkpoint is, from its names and shapes"),
    "verify": ("verify", "read a checkpoint whole, and check everything"),
    "inspect": ("inspect", "what an adapter is, and whether it fits a base"),
    "merge": ("merge", "write a base with an adapter merged into it"),
    "download": ("download", "fetch checkpoints from the Hugging Face hub"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(words)
    except RwkvctlError as error:
        return fail("rwkvctl weights", error, as_json="json" in words)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CLOSED_PIPE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except OSError as error:  # of a folder that may not be read, a disk that fails
        where = f"{error.filename}: " if error.filename else ""
        return fail("rwkvctl weights", RwkvctlError(f"{where}{error.strerror or error}"), as_json="json" in words)


def _run(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m rwkv_weights", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    hashing = verbs.add_parser("hash", help="print a file's sha256 and identity")
    hashing.add_argument("path", type=Path)
    hashing.add_argument(
        "--inodes", default="", help="read no other files than these: device:inode[:ctime in ns], with commas"
    )
    chosen: Any = None
    for name, (module, summary) in VERBS.items():
        one = verbs.add_parser(name, help=summary, parents=[_common()])
        if name in words[:1]:  # one verb's imports only: `list` must not wait for torch
            chosen = _load(module)
            chosen.add_flags(one)
    flags = parser.parse_args(words)
    if flags.verb == "hash":
        return _hash(flags.path, flags.inodes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # parts stay resumable, or go, as with Ctrl-C
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    return int(chosen.run(flags, places.of(flags), Output(flags.output)))


def _load(module: str) -> Any:
    try:
        return import_module(f"rwkv_weights.verbs.{module}")
    except ModuleNotFoundError as error:
        raise RwkvctlError(f"{error.name} is not installed; pip install 'rwkvctl[engine]'") from error


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--home", type=Path, help="holds weights/ and cache/ (default: the configured home)")
    common.add_argument("--weights-dir", type=Path, help="where checkpoints lie (default: as configured)")
    common.add_argument(
        "--output", choices=("table", "wide", "tsv", "json"), default="", help="default: a table, or tsv in a pipe"
    )
    return common


def _hash(path: Path, inodes: str) -> int:
    only = inodes.split(",") if inodes else []
    try:
        hashed = inventory.hashed(inventory.at(path), only)
        allow_only(only)
        problem = _problem(path)
        changed = hashed.changed or inventory.at(path).identity != hashed.identity
    except OSError as error:
        print(safe_line(f"cannot read {path}: {error.strerror}"), file=sys.stderr)
        return 1
    line = {"path": str(path), "sha256": hashed.sha256, **asdict(hashed.identity), "changed": changed}
    line["problem"] = safe_line(problem)[:LONGEST]
    print(json.dumps(line))
    return 0


def _problem(path: Path) -> str:
    """Return why a file is no checkpoint that can be run, as far as names and shapes say; empty if it can. Raises
    OSError if it cannot be read, which says nothing of what it is."""
    from rwkv_weights.adapters import adapter_file
    from rwkv_weights.formats import index

    try:
        index.read(path)
    except CheckpointError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        with contextlib.suppress(CheckpointError):
            kind = adapter_file.read(path).kind
            return f"{path.name} is an adapter ({kind}), no checkpoint: `rwkvctl weights merge` makes one of it"
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
