"""What stands beside an adapter about it: PEFT's adapter_config.json, and FILE.json, which a person or a training
script writes: {"alpha": 32, "base": "rwkv7-g1d-1.5b", "base_sha256": "…", "quant": ""}.

Both are untrusted JSON and read strictly: what is not known, and may change how an adapter is merged, is refused by
name.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from rwkv_weights.errors import AdapterError
from rwkv_weights.formats import json_table

CONFIG: Final = "adapter_config.json"
PEFT_FILES: Final = ("adapter_model.safetensors", "adapter_model.bin")
LONGEST: Final = 1 << 20
LONGEST_TEXT: Final = 200
MOST_ALPHA: Final = 1e6
NO_ALPHA: Final = "and is to be a number above 0, at most 1,000,000"
KNOWN: Final = frozenset({"alpha", "base", "base_sha256", "quant"})
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_READ: Final = frozenset(
    {
        "peft_type",
        "lora_alpha",
        "r",
        "rank_pattern",
        "use_rslora",
        "bias",
        "init_lora_weights",
        "base_model_name_or_path",
    }
)
_HARMLESS: Final = frozenset({
    "auto_mapping", "revision", "task_type", "inference_mode", "target_modules", "exclude_modules", "lora_dropout",
    "modules_to_save", "layers_to_transform", "layers_pattern", "megatron_core", "runtime_config", "eva_config",
    "qalora_group_size", "peft_version",
})  # fmt: skip
"""Options of PEFT that say how an adapter was trained, or what its tensors say, too. Any other is to be empty or false:
DoRA, alphas of single tensors, biases, replicated layers and others have other formulas."""
_PLAIN_STARTS: Final = ("gaussian", "eva", "orthogonal")
"""Initial values with which PEFT leaves the base as it is; of the others (PiSSA, OLoRA, LoftQ, CorDA) W is another."""


@dataclass(frozen=True, slots=True)
class AdapterNotes:
    """`source`: the files that said so, empty if there is none. `alpha`: None if it is not said. `rooted`: the scale is
    alpha/sqrt(r) (rsLoRA). `ranks`: those that may occur; empty if that is not said. `base`, `base_sha256`: the
    checkpoint that was trained on, as far as it is said."""

    source: str = ""
    alpha: float | None = None
    rooted: bool = False
    ranks: frozenset[int] = frozenset()
    base: str = ""
    base_sha256: str = ""
    quant: str = ""


def read_notes(file: Path) -> AdapterNotes:
    """Return what is said beside the file of an adapter. Raises CheckpointError."""
    config, sidecar = file.with_name(CONFIG), file.with_name(f"{file.name}.json")
    peft = _of_peft(config) if file.name in PEFT_FILES and config.exists() else None
    own = _of_sidecar(sidecar) if sidecar.exists() else None
    if peft is None or own is None:
        return own or peft or AdapterNotes()
    if own.alpha is not None and peft.alpha is not None and own.alpha != peft.alpha:
        raise AdapterError(f"{own.source} says alpha {own.alpha:g}, and {peft.source} {peft.alpha:g}")
    return replace(
        own,
        source=f"{own.source} and {peft.source}",
        alpha=peft.alpha if own.alpha is None else own.alpha,
        rooted=peft.rooted,
        ranks=peft.ranks,
        base=own.base or peft.base,
    )


def alpha_of(given: object) -> float | None:
    """Return a number above 0 and at most MOST_ALPHA; None for anything else."""
    try:
        value = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else 0.0
    except OverflowError:
        return None
    return value if 0 < value <= MOST_ALPHA else None


def _of_sidecar(path: Path) -> AdapterNotes:
    said = json_table.read(path, LONGEST)
    if unknown := sorted(said.keys() - KNOWN):
        raise AdapterError(f"{path.name} has {_short(', '.join(unknown))}; known are {', '.join(sorted(KNOWN))}")
    texts = {name: "" if said.get(name) is None else said[name] for name in ("base", "base_sha256", "quant")}
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise AdapterError(f"{path.name}: {wrong[0]} is no text")
    if texts["base_sha256"] and not _SHA256.fullmatch(texts["base_sha256"]):
        raise AdapterError(f"{path.name}: base_sha256 is not 64 hexadecimal digits")
    if texts["quant"] == "none":
        texts["quant"] = ""
    base, sha256, quant = (_short(texts[name]) for name in ("base", "base_sha256", "quant"))
    return AdapterNotes(path.name, _alpha(path, said.get("alpha")), base=base, base_sha256=sha256, quant=quant)


def _of_peft(path: Path) -> AdapterNotes:
    said = json_table.read(path, LONGEST)
    if said.get("peft_type") != "LORA":
        kind = _short(repr(said.get("peft_type")))
        raise AdapterError(f"{path.name} is refused: its peft_type is {kind}; only LORA is merged")
    if odd := sorted(name for name in said.keys() - _READ - _HARMLESS if said[name]):
        raise AdapterError(
            f"{path.name} is refused: it has {_short(', '.join(odd))}, with which nothing can be merged here"
        )
    if said.get("bias", "none") != "none":
        raise AdapterError(f"{path.name} is refused: its bias is {_short(repr(said['bias']))}, and is to be 'none'")
    start = said.get("init_lora_weights", True)
    if not (start is None or isinstance(start, bool) or start in _PLAIN_STARTS):
        raise AdapterError(f"{path.name} is refused: its init_lora_weights {_short(repr(start))} has changed the base")
    rooted = said.get("use_rslora", False)
    if not isinstance(rooted, bool):
        raise AdapterError(f"{path.name} is refused: use_rslora is neither true nor false")
    base = said.get("base_model_name_or_path")
    name = PurePosixPath(base).name if isinstance(base, str) else ""
    return AdapterNotes(path.name, _alpha(path, said.get("lora_alpha")), rooted, _ranks(path, said), _short(name))


def _ranks(path: Path, said: dict[str, Any]) -> frozenset[int]:
    pattern = said.get("rank_pattern") or {}
    ranks = [said.get("r"), *(pattern.values() if isinstance(pattern, dict) else [None])]
    if ranks == [None]:
        return frozenset()
    if not all(type(rank) is int and rank > 0 for rank in ranks):
        raise AdapterError(f"{path.name}: r and rank_pattern are to be whole numbers above 0")
    return frozenset(ranks)


def _alpha(path: Path, given: object) -> float | None:
    if given is None:
        return None
    if (alpha := alpha_of(given)) is None:
        raise AdapterError(f"{path.name}: alpha is {_short(repr(given))}, {NO_ALPHA}")
    return alpha


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
