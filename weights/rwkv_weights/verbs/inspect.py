"""`weights inspect`: what an adapter is, and whether it fits a base."""

import argparse
from pathlib import Path
from typing import Any

from rwkv_weights.adapters import adapter_file, fit
from rwkv_weights.adapters.adapter_file import Adapter
from rwkv_weights.formats import index
from rwkv_weights.local import inventory
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.output import Output
from rwkv_weights.verbs.places import Places

NO_INIT = "none"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("adapter", type=Path, help="a file, or PEFT's folder")
    parser.add_argument("--base", default="", metavar="MODEL", help="check whether it fits this checkpoint")
    add_init(parser)


def add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--init", default="", metavar="FILE", help="the file of PiSSA's initial pairs, or none for a plain LoRA"
    )


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Print the facts. Raises AdapterError for what is no adapter, or does not fit."""
    adapter = read(flags.adapter, flags.init)
    base = compared = ""
    if flags.base:
        found = inventory.choose(flags.base, places.weights)
        sha256 = inventory.sha256_of(found, Sums(places.cache).known())
        fit.check(adapter, index.read(found.path), index.read_stored(found.path), found.label, sha256)
        base, compared = found.label, sha256
    if output.as_json:
        output.json("rwkvctl.weights-adapter/1", facts_of(adapter) | {"fits": base, "fits_sha256": compared})
        return 0
    output.line(f"{said(adapter)}; {of_alpha(adapter)}")
    for sentence in more_of(adapter):
        output.line(f"  {sentence}")
    if base and adapter.notes.base_sha256 and not compared:
        output.line(f"  its shapes fit {base}; whether that is the base it names is not known: it is not hashed yet")
    elif base:
        output.line(f"  it fits {base}")
    return 0


def read(path: Path, init: str) -> Adapter:
    """Return the adapter that the flags mean. Raises CheckpointError."""
    given = Path(init) if init not in {"", NO_INIT} else None
    return adapter_file.read(path, given, beside=init != NO_INIT)


def facts_of(adapter: Adapter) -> dict[str, Any]:
    """Return all facts of an adapter as the fields of the JSON document."""
    notes = adapter.notes
    return {
        "path": str(adapter.path),
        "kind": adapter.kind,
        "ranks": list(adapter.ranks),
        "changed_tensors": len(adapter.updates),
        "layers": adapter.layers,
        "replaced_tensors": len(adapter.replaced),
        "alpha": notes.alpha,
        "rslora": notes.rooted,
        "base": notes.base,
        "base_sha256": notes.base_sha256,
        "quant": notes.quant,
        "notes": notes.source,
        "files": [file.name for file in adapter.files],
    }


def said(adapter: Adapter) -> str:
    """Return an adapter as a line for a person: `lora r=32 on 144 tensors of 24 layers, 49 full tensors`."""
    ranks = f" r={','.join(map(str, adapter.ranks))}" if adapter.ranks else ""
    full = f", {len(adapter.replaced)} full tensors" if adapter.replaced else ""
    return f"{adapter.kind}{ranks} on {len(adapter.updates)} tensors of {adapter.layers} layers{full}"


def of_alpha(adapter: Adapter) -> str:
    """Return what is known of alpha, for the same line."""
    notes = adapter.notes
    if adapter.kind == "state":
        return "a state changes no weight"
    if adapter.kind != "lora":
        return "it has no alpha"
    if notes.alpha is None:
        return "alpha is not in the file"
    return f"alpha {notes.alpha:g} ({notes.source}){', scaled as rsLoRA' if notes.rooted else ''}"


def more_of(adapter: Adapter) -> list[str]:
    """Return what else is said of an adapter, in sentences."""
    notes = adapter.notes
    found = (
        [f"initial pairs are in {adapter.files[1]}; if it is a plain LoRA: --init none"] if adapter.files[1:] else []
    )
    named = notes.base or (f"a checkpoint of sha256 {notes.base_sha256[:12]}…" if notes.base_sha256 else "")
    found += [f"trained on {named} ({notes.source})"] if named else []
    return found + ([f"trained on a base quantised to {notes.quant} ({notes.source})"] if notes.quant else [])
