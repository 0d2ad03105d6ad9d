"""An adapter as a table of entries by the base tensors that it changes. Kinds are told by tensors, not by names of
files; no tensor is read.

    lora    PREFIX.lora_A [r, in], PREFIX.lora_B [out, r]; also in PEFT's and Hugging Face's names
    pissa   the same, with PREFIX.init_lora_A and PREFIX.init_lora_B in the file or in init_pissa.pth beside it
    bone    PREFIX.disha, in older files PREFIX.bone, [r, out]
    bat     the same, [in/r, r, r]
    state   blocks.N.att.time_state [heads, 64, 64]

Every other tensor replaces the base's of its name (RWKV-PEFT keeps whatever it trained beside the adapter). Source of
names and shapes: RWKV-PEFT's checkpoints and its merge scripts, and PEFT's `adapter_model` files.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rwkv_weights.adapters.adapter_notes import PEFT_FILES, AdapterNotes, read_notes
from rwkv_weights.errors import AdapterError, UnreadableCheckpointError
from rwkv_weights.formats import hf_names, pth, safetensors_header
from rwkv_weights.formats.entry import Entry, Shape
from rwkv_weights.formats.index import first_three

AdapterKind = Literal["lora", "pissa", "bone", "bat", "state"]
Part = Literal["lora_A", "lora_B", "init_lora_A", "init_lora_B", "disha", "time_state"]

INIT: Final = "init_pissa.pth"
LONGEST_NAME: Final = 300
_WRAPPED: Final = re.compile(r"(?:base_model\.model\.|_orig_mod\.|module\.)+")
"""What PEFT, torch.compile and data parallel training write before each name."""
_PART: Final = re.compile(
    r"(.+)\.(lora_A|lora_B|init_lora_A|init_lora_B|disha|bone|time_state)(?:\.default)?(\.weight)?"
)


@dataclass(frozen=True, slots=True)
class Adapter:
    """`updates`: the parts of each base tensor that is changed, by that tensor's name in BlinkDL's names; `turned`
    names those whose product belongs to the transposed matrix. `replaced`: tensors that take the base's place.
    `beside`: nobody has named the second of its files, the initial pairs; they lie beside it."""

    path: Path
    files: tuple[Path, ...]
    kind: AdapterKind
    notes: AdapterNotes
    updates: Mapping[str, Mapping[Part, Entry]]
    replaced: Mapping[str, Entry]
    turned: frozenset[str]
    beside: bool = False

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that occur, in ascending order; none for a state."""
        return tuple(sorted({rank_of(parts) for parts in self.updates.values()} - {0}))

    @property
    def layers(self) -> int:
        """The number of layers that are changed."""
        return len({name.split(".")[1] for name in self.updates if name.startswith("blocks.")})


def rank_of(parts: Mapping[Part, Entry]) -> int:
    """Return the rank of one update, of parts with the right number of axes; 0 for a state."""
    if "lora_A" in parts:
        return parts["lora_A"].shape[0]
    return parts["disha"].shape[-2] if "disha" in parts else 0


def is_adapter(keys: Iterable[str]) -> bool:
    """Whether one of these tensors is a part of an adapter."""
    return any(_PART.fullmatch(key) for key in keys)


def read(path: Path, init: Path | None = None, *, beside: bool = True) -> Adapter:
    """Return the adapter in a file or in PEFT's folder; `init` is the file of PiSSA's initial pairs where it lies
    elsewhere, and without `beside` none is looked for. Raises CheckpointError with the reason, AdapterError for what is
    no adapter or a damaged one."""
    file = _weight_file(path)
    entries = _entries(file)
    if not is_adapter(entries):
        raise AdapterError(
            f"{path.name} is no adapter: none of its {len(entries)} tensors is a part of one; for a whole checkpoint "
            "see `rwkvctl weights show`"
        )
    near = file.with_name(INIT)
    beside = beside and init is None and near.is_file() and any(_part_of(key) == "lora_A" for key in entries)
    init = near if beside else init
    if init is not None:
        entries = _joined(path, entries, init)
    updates, replaced, turned = _sorted_out(path, entries)
    files = (file,) if init is None else (file, init)
    found = Adapter(path, files, _kind(path, updates), read_notes(file), updates, replaced, turned, beside)
    _check(found)
    return found


def _sorted_out(
    path: Path, entries: Mapping[str, Entry]
) -> tuple[dict[str, dict[Part, Entry]], dict[str, Entry], frozenset[str]]:
    """Return (updates, replaced, turned) of an adapter. Raises AdapterError for what is there twice."""
    updates: dict[str, dict[Part, Entry]] = {}
    replaced: dict[str, Entry] = {}
    turned: set[str] = set()
    for key, entry in entries.items():
        name, part, is_turned = _place(key)
        if part is None:
            if name in replaced:
                raise AdapterError(f"{path.name} has {name} twice, the second time as {key}")
            replaced[name] = entry.transposed() if is_turned and len(entry.shape) == 2 else entry
            continue
        if part in updates.setdefault(name, {}):
            raise AdapterError(f"{path.name} has {part} of {name} twice")
        updates[name][part] = entry
        if is_turned:
            turned.add(name)
    if both := sorted(updates.keys() & replaced.keys()):
        raise AdapterError(f"{path.name} changes {first_three(both)} by an adapter and replaces it, too")
    return updates, replaced, frozenset(turned)


def _check(found: Adapter) -> None:
    """Raise AdapterError for a whole adapter that cannot be merged, or is not what is said of it."""
    name, notes = found.path.name, found.notes
    if found.files[1:] and found.kind != "pissa":
        raise AdapterError(
            f"{found.files[1].name} holds initial pairs of PiSSA for none of the tensors that {name} changes; if it is "
            "a plain LoRA: --init none"
        )
    if found.kind in {"bone", "bat"} and found.turned:
        raise AdapterError(f"{name}: {found.kind} on {first_three(sorted(found.turned))}, which is stored transposed")
    if notes.ranks and (others := set(found.ranks) - notes.ranks):
        said = first_three([str(rank) for rank in sorted(notes.ranks)])
        raise AdapterError(f"{name} has the rank {min(others)}, and {notes.source} says {said}")


def _weight_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    there = [path / name for name in PEFT_FILES if (path / name).is_file()]
    if not there:
        raise UnreadableCheckpointError(f"cannot read {path}: the folder has neither {' nor '.join(PEFT_FILES)}")
    return there[0]


def _entries(file: Path) -> dict[str, Entry]:
    entries = safetensors_header.read(file) if file.suffix == ".safetensors" else pth.read(file)
    if long := [key for key in entries if len(key) > LONGEST_NAME]:
        raise AdapterError(f"{file.name} is refused: the name of a tensor has {len(long[0]):,} characters")
    return entries


def _joined(path: Path, entries: dict[str, Entry], init: Path) -> dict[str, Entry]:
    """Return the tensors with the initial pairs of those that the adapter has; the file may have more."""
    wanted = {base for key in entries if (base := _base_of(key))}
    for key, entry in _entries(init).items():
        if not (_part_of(key) or "").startswith("init_"):
            raise AdapterError(f"{init.name} beside {path.name} has {key}, which is no part of PiSSA's initial pairs")
        if _base_of(key) not in wanted:
            continue
        if key in entries:
            raise AdapterError(f"{path.name} and {init.name} both have {key}")
        entries[key] = entry
    return entries


def _part_of(key: str) -> str | None:
    found = _PART.fullmatch(key)
    return found[2] if found else None


def _base_of(key: str) -> str | None:
    found = _PART.fullmatch(_WRAPPED.sub("", key, count=1))
    return found[1].removeprefix("model.") if found else None


def _place(key: str) -> tuple[str, Part | None, bool]:
    """Return the base's tensor that a key belongs to, in BlinkDL's names; which part it is (None: it replaces that
    tensor); and whether that tensor is transposed in the file's names."""
    plain = key[found.end() :] if (found := _WRAPPED.match(key)) else key
    part = _PART.fullmatch(plain)
    if part is None:
        name, turned = _base_name(plain)
        return name, None, turned
    base, what = part[1], part[2]
    if what == "time_state":
        return f"{base.removeprefix('model.')}.time_state", "time_state", False
    name, turned = _base_name(f"{base}.weight")
    return name, "disha" if what == "bone" else what, turned  # type: ignore[return-value]  # one of the pattern's words


def _base_name(key: str) -> tuple[str, bool]:
    """Return BlinkDL's name of a base tensor, and whether the matrix is transposed in the file's names."""
    if key.startswith(("model.blocks.", "model.emb.", "model.head.", "model.ln_out.")):
        return key.removeprefix("model."), False
    return hf_names.name_of(key)


def _kind(path: Path, updates: Mapping[str, Mapping[Part, Entry]]) -> AdapterKind:
    """Return the one kind that all updates have. Raises AdapterError."""
    found: dict[AdapterKind, str] = {}
    for name, parts in updates.items():
        found[_kind_of(path, name, parts)] = name
    if len(found) > 1:
        each = ", ".join(f"{kind} on {name}" for kind, name in sorted(found.items()))
        raise AdapterError(f"{path.name} mixes kinds of adapters: {each}")
    return next(iter(found))


_WHOLE: Final[dict[frozenset[str], AdapterKind]] = {
    frozenset({"lora_A", "lora_B"}): "lora",
    frozenset({"lora_A", "lora_B", "init_lora_A", "init_lora_B"}): "pissa",
    frozenset({"time_state"}): "state",
}


def _kind_of(path: Path, name: str, parts: Mapping[Part, Entry]) -> AdapterKind:
    if parts.keys() == {"disha"}:
        axes = len(parts["disha"].shape)
        if axes not in {2, 3}:
            raise AdapterError(f"{path.name}: disha of {name} has {axes} axes; bone has 2, bat has 3")
        return "bone" if axes == 2 else "bat"
    kind = _WHOLE.get(frozenset(parts))
    if kind is None:
        raise AdapterError(f"{path.name}: {name} has {' and '.join(sorted(parts))}{_lacking(parts)}")
    for part, entry in parts.items():
        if len(entry.shape) != (3 if kind == "state" else 2):
            raise AdapterError(f"{path.name}: {part} of {name} has the shape {list(entry.shape)}")
    return kind


def _lacking(parts: Mapping[Part, Entry]) -> str:
    for whole in sorted(_WHOLE, key=len):
        if parts.keys() < whole:
            return f" alone, and lacks {' and '.join(sorted(whole - parts.keys()))}"
    return ", which no kind of adapter has together"


def shape_of(parts: Mapping[Part, Entry], *, turned: bool) -> Shape | None:
    """Return the shape [out, in] of the base's tensor that a low-rank pair implies; None for other kinds."""
    if "lora_A" not in parts:
        return None
    out, into = parts["lora_B"].shape[0], parts["lora_A"].shape[1]
    return (into, out) if turned else (out, into)
