"""`weights show`: what a checkpoint is, from its names and shapes alone."""

import argparse
from typing import Any

from rwkv_weights.formats import index
from rwkv_weights.formats.index import Index
from rwkv_weights.formats.schema import HEAD_SIZE
from rwkv_weights.local import inventory
from rwkv_weights.local.inventory import FoundCheckpoint
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.output import Output
from rwkv_weights.verbs.places import Places
from rwkvctl.text.quantities import size

LAYOUTS = {"hf": "Hugging Face's names", "blinkdl": "BlinkDL's names"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a path, a name, or a part of a name that only one has")


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Print the facts. Raises CheckpointError for what this engine does not run."""
    found = inventory.choose(flags.model, places.weights)
    facts = facts_of(found, index.read(found.path), inventory.sha256_of(found, Sums(places.cache).known()))
    if output.as_json:
        output.json("rwkvctl.weights-show/1", facts)
        return 0
    output.line(f"{facts['name']}  {facts['path']}")
    for title, text in sentences(facts):
        output.line(f"  {title:<13} {text}")
    return 0


def facts_of(found: FoundCheckpoint, read: Index, sha256: str) -> dict[str, Any]:
    """Return all facts of a checkpoint as the fields of the JSON document."""
    dims, ranks = read.dims, dict(zip("wavg", read.dims.ranks, strict=True))
    return {
        "name": found.label,
        "path": str(found.path),
        "architecture": found.name.architecture or "rwkv7",
        "family": found.name.family,
        "data_version": found.name.version,
        "date": found.name.date,
        "context": found.name.context,
        "layout": read.layout,
        "files": [file.name for file in read.files],
        "size_bytes": sum(file.stat().st_size for file in read.files),
        "sha256": sha256,
        "tensors": len(read.entries),
        "parameters": read.parameters,
        "layers": dims.layers,
        "width": dims.width,
        "heads": dims.heads,
        "head_size": HEAD_SIZE,
        "hidden": dims.hidden,
        "vocabulary": dims.vocabulary,
        "ranks": ranks,
        "dtypes": list(read.dtypes),
        "fp16_bytes": 2 * read.parameters,
        "fp32_bytes": 4 * read.parameters,
        "state_bytes": dims.state_bytes,
    }


def sentences(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts as a person reads them."""
    return [
        ("architecture", "RWKV-7 (x070)"),
        ("by its name", origin(facts) or "nothing"),
        ("shape", shape(facts)),
        ("ranks", ", ".join(f"{name} {rank}" for name, rank in facts["ranks"].items())),
        ("parameters", f"{facts['parameters']:,} in {facts['tensors']:,} tensors"),
        ("stored as", storage(facts)),
        ("weights take", f"{size(facts['fp16_bytes'])} as fp16, {size(facts['fp32_bytes'])} as fp32"),
        ("state takes", f"{size(facts['state_bytes'])} a sequence (fp32)"),
        ("sha256", facts["sha256"] or "not hashed yet; `rwkvctl weights verify` does"),
    ]


def origin(facts: dict[str, Any]) -> str:
    """Return data version, family, date and context as far as the checkpoint's name gives them; may be empty."""
    said = [f"data {facts['data_version']}"] if facts["data_version"] else []
    said += [f"family {facts['family']}"] if facts["family"] not in {"", facts["data_version"]} else []
    said += [f"of {facts['date']}"] if facts["date"] else []
    said += [f"trained to context {facts['context']:,}"] if facts["context"] else []
    return ", ".join(said)


def shape(facts: dict[str, Any]) -> str:
    """Return layers, width, heads, FFN width and vocabulary as one line."""
    heads = f"{facts['heads']} heads of {facts['head_size']}"
    rest = f"FFN {facts['hidden']:,}, vocabulary {facts['vocabulary']:,}"
    return f"{facts['layers']} layers, width {facts['width']:,}, {heads}, {rest}"


def storage(facts: dict[str, Any]) -> str:
    """Return types, layout and files as one line."""
    files = "1 file" if len(facts["files"]) == 1 else f"{len(facts['files'])} files"
    return f"{' and '.join(facts['dtypes'])}, {LAYOUTS[facts['layout']]}, {files}, {size(facts['size_bytes'])}"
