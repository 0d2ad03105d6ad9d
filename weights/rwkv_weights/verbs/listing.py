"""`weights list`: every checkpoint of this node on one line."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.inventory import FoundCheckpoint
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.output import Column, Output, billions
from rwkv_weights.verbs.places import Places
from rwkvctl.text.quantities import count, size

COLUMNS = (
    Column("MODEL", cut=True), Column("ARCH"), Column("DATA"), Column("PARAMS B", right=True),
    Column("CONTEXT", right=True), Column("DATE", wide=True), Column("SIZE", right=True), Column("SHA-256"),
)  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--known", default="{}", help=argparse.SUPPRESS)  # {path: sha256} as a daemon tells it


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Print the checkpoints of the weights folder as a table or as JSON, and return 0."""
    known, told = Sums(places.cache).known(), _told(flags.known)
    items = [item for found in inventory.checkpoints(places.weights) if (item := _item(found, known, told))]
    if output.as_json:
        output.json("rwkvctl.weights/1", {"weights_dir": str(places.weights), "items": items})
    else:
        empty = f"no checkpoint in {places.weights}; fetch one: rwkvctl weights download --list"
        where = Column("WHERE", cut=True) if output.mode != "tsv" else Column("PATH")
        rows = [[*_row(item), _folder(item) if output.mode != "tsv" else item["path"]] for item in items]
        output.table([*COLUMNS, where], rows, empty)
    return 0


def _told(text: str) -> dict[str, str]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _item(found: FoundCheckpoint, known: Mapping[FileIdentity, str], told: Mapping[str, str]) -> dict[str, Any] | None:
    """One checkpoint as JSON has it; None if it went away meanwhile."""
    try:
        sha256, bytes_ = inventory.sha256_of(found, known) or told.get(str(found.path), ""), found.size
    except OSError:
        return None
    return {
        "name": found.label,
        "path": str(found.path),
        "files": [file.name for file in found.files],
        "size_bytes": bytes_,
        "sha256": sha256,
        "architecture": found.name.architecture,
        "data_version": found.name.version,
        "parameters_b": found.name.size_b,
        "date": found.name.date,
        "context": found.name.context,
        "builtin": found.builtin,
    }


def _row(item: dict[str, Any]) -> list[str]:
    return [
        item["name"],
        item["architecture"] or "–",
        item["data_version"] or "–",
        billions(item["parameters_b"]),
        count(item["context"] or None),
        item["date"] or "–",
        size(item["size_bytes"]),
        item["sha256"][:12] or "not hashed",
    ]


def _folder(item: dict[str, Any]) -> str:
    """Where it lies, with ~ for the home directory, as people write it."""
    folder, home = str(Path(item["path"]).parent), str(Path.home())
    if item["builtin"]:
        return "in the package"
    return f"~{folder.removeprefix(home)}" if folder.startswith(f"{home}/") else folder
