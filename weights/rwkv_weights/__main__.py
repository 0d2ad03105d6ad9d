"""`python -m rwkv_weights hash PATH`: a chore of the daemon. One JSON line on stdout; 1 and a sentence on failure."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rwkv_weights.files import hash_file


def main(argv: list[str] | None = None) -> int:
    """Run one chore and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rwkv_weights", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("hash", help="print a file's sha256 and identity").add_argument("path", type=Path)
    return _hash(parser.parse_args(argv).path)


def _hash(path: Path) -> int:
    try:
        hashed = hash_file(path)
    except OSError as error:
        print(f"cannot read {path}: {error.strerror}", file=sys.stderr)
        return 1
    line = {"path": str(path), "sha256": hashed.sha256, **asdict(hashed.identity), "changed": hashed.changed}
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
