"""`weights merge`: write a base with an adapter merged into it, whole or not at all."""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from torch import Tensor

from rwkv_weights.adapters import fit
from rwkv_weights.adapters.adapter_file import Adapter
from rwkv_weights.adapters.merge import AdapterTensors, merged_tensors
from rwkv_weights.errors import AdapterError, WeightsError
from rwkv_weights.formats import index, pth_writer
from rwkv_weights.formats.pth_writer import TensorForm
from rwkv_weights.local import inventory, new_file, sha256_sidecar
from rwkv_weights.local.checkpoint_files import FileIdentity, hash_file
from rwkv_weights.local.hashing_file import HashingFile
from rwkv_weights.local.inventory import FoundCheckpoint
from rwkv_weights.local.new_file import locked_part
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.inspect import add_init, more_of, read, said
from rwkv_weights.verbs.output import Output
from rwkv_weights.verbs.places import Places
from rwkvctl.text.quantities import size

MOST_OF_NAME: Final = 60
"""Characters of the target's name in that of its part, which may not be longer than a file system allows."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a merged checkpoint was made of: on processors of one kind, the same lineage gives the same bytes."""

    base_sha256: str
    adapter_sha256: str
    kind: str
    alpha: float
    rooted: bool
    rounded: bool

    @property
    def derived(self) -> str:
        """A name for the result that is known before it is made."""
        text = json.dumps(list(astuple(self)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("adapter", type=Path, help="a file, or PEFT's folder")
    parser.add_argument("--base", required=True, metavar="MODEL", help="the checkpoint that was trained on")
    parser.add_argument("--alpha", type=float, help="alpha of a LoRA, where nothing beside it says")
    add_init(parser)
    parser.add_argument("--bf16-between", action="store_true", help="round PiSSA's difference as RWKV-PEFT's script")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE.pth", help="the file to write")
    parser.add_argument("--replace", action="store_true", help="write over a file that is there")


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Write the merged checkpoint and print what it is. Raises AdapterError, WeightsError."""
    adapter = read(flags.adapter, flags.init)
    check_mergeable(adapter, between=flags.bf16_between)
    alpha = fit.scale_of(adapter, flags.alpha)
    base, known = inventory.choose(flags.base, places.weights), Sums(places.cache)
    files = {file: FileIdentity.of(file) for file in (*base.files, *adapter.files)}
    read_base, stored = index.read(base.path), index.read_stored(base.path)
    fit.check(adapter, read_base, stored, base.label, inventory.sha256_of(base, known.known()))
    forms = {name: TensorForm(entry.dtype, entry.shape) for name, entry in stored.entries.items()}
    check_target(flags.to, flags.replace, tuple(files))
    check_space(flags.to, pth_writer.size_of(forms), places.spare_bytes)
    tensors = AdapterTensors(adapter)
    tensors.check()
    base_sha256 = _hashed(base, known)
    fit.check(adapter, read_base, stored, base.label, base_sha256)
    own = Lineage(base_sha256, _adapter_sha256(adapter), adapter.kind, alpha, adapter.notes.rooted, flags.bf16_between)
    merged = merged_tensors(stored.entries, tensors, alpha, base.label, rounded=own.rounded)
    sha256 = _written(flags.to, forms, merged, files, replace=flags.replace)
    if output.as_json:
        output.json("rwkvctl.weights-merge/1", facts_of(flags.to, base, adapter, own, sha256))
    else:
        scale = f", alpha {alpha:g}" if alpha else ""
        output.line(f"{flags.to}  {base.label} with {said(adapter)}{scale}")
        output.line(f"  sha256 {sha256}")
        for sentence in more_of(adapter):
            output.line(f"  {sentence}")
    return 0


def check_mergeable(adapter: Adapter, *, between: bool) -> None:
    """Raise AdapterError for a tuned state, which is not merged, and for a flag that the kind does not have."""
    if adapter.kind == "state":
        rest = f"; its {len(adapter.replaced)} full tensors alone are not merged" if adapter.replaced else ""
        raise AdapterError(f"{adapter.path.name} is a tuned state, which changes no weight{rest}")
    if between and adapter.kind != "pissa":
        raise AdapterError(f"{adapter.path.name} is {adapter.kind}; --bf16-between is for pissa")


def facts_of(to: Path, base: FoundCheckpoint, adapter: Adapter, lineage: Lineage, sha256: str) -> dict[str, Any]:
    """Return what was made of what as the fields of the JSON document."""
    return {
        "path": str(to), "sha256": sha256, "derived": lineage.derived, "base": base.label,
        "base_sha256": lineage.base_sha256, "adapter": str(adapter.path), "adapter_sha256": lineage.adapter_sha256,
        "kind": lineage.kind, "alpha": lineage.alpha or None, "rslora": lineage.rooted, "bf16_between": lineage.rounded,
        "changed_tensors": len(adapter.updates), "replaced_tensors": len(adapter.replaced),
    }  # fmt: skip


def check_target(to: Path, replace: bool, sources: tuple[Path, ...]) -> None:
    """Raise WeightsError if nothing may or can be written there."""
    beside = sha256_sidecar.of(to)
    if to.suffix != ".pth" or not str(to).isprintable():
        raise WeightsError(f"{to} is to be a name that ends in .pth: that is what is written")
    if not to.parent.is_dir():
        raise WeightsError(f"there is no folder {to.parent}")
    if to.is_dir() or beside.is_dir():
        raise WeightsError(f"{to if to.is_dir() else beside} is a folder; name another file")
    if to.exists() and any(to.samefile(one) for one in sources):
        raise WeightsError(f"{to} is what is to be merged; name another file")
    if os.path.lexists(to) and not replace:
        raise WeightsError(f"{to} is there already; name another file, or add --replace")


def check_space(to: Path, need: int, spare: int) -> None:
    """Raise WeightsError if a disk has no place for so many bytes."""
    free = shutil.disk_usage(to.parent).free
    if need + spare > free:
        raise WeightsError(
            f"{to.parent} has {size(free)} free, and {size(need)} are to be written ({size(spare)} stay spare)"
        )


def _hashed(base: FoundCheckpoint, known: Sums) -> str:
    """Return the base's sha256, from the cache where it knows its files."""
    if sha256 := inventory.sha256_of(base, known.known()):
        return sha256
    each = [hash_file(file) for file in base.files]
    with contextlib.suppress(OSError):  # a cache: the next merge reads it once more
        for one in each:
            if not one.changed:
                known.remember(one.path, one.identity, one.sha256)
    return inventory.combined([file.name for file in base.files], [one.sha256 for one in each])


def _adapter_sha256(adapter: Adapter) -> str:
    parts = ("adapter", "init")[: len(adapter.files)]
    return inventory.combined(parts, [hash_file(file).sha256 for file in adapter.files])


def _written(
    to: Path, forms: Mapping[str, TensorForm], tensors: Iterable[tuple[str, Tensor]], read: Mapping[Path, FileIdentity],
    *, replace: bool,
) -> str:  # fmt: skip
    """Write the file beside its place; give it its name when all of it is on the disk and none of the files that were
    read has changed meanwhile. Returns its sha256. Raises WeightsError."""
    part = to.with_name(f".{to.name[:MOST_OF_NAME]}.part")
    try:
        with locked_part(part, f"another merge writes {to}; run this again when that one has ended") as file:
            try:
                sha256 = _filled(file, forms, tensors)
                if changed := [path for path, identity in read.items() if not _is_still(path, identity)]:
                    raise WeightsError(f"{changed[0]} is gone, or was changed while it was read; run this again")
                _named(part, to, replace=replace)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise WeightsError(f"cannot write {to}: {error.strerror or error}") from error
    try:
        sha256_sidecar.write(to, sha256)
    except OSError as error:
        why = f"its .sha256 cannot be written: {error.strerror or error}"
        raise WeightsError(f"{to} is whole (sha256 {sha256}), but {why}") from error
    return sha256


def _filled(file: BinaryIO, forms: Mapping[str, TensorForm], tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Write all tensors to the disk, over what an earlier run left; returns the sha256 of the file. Raises OSError."""
    file.truncate(0)
    with ThreadPoolExecutor(2) as aside:
        hashing = HashingFile(file, aside)
        pth_writer.write(hashing, forms, one_ahead(tensors, aside))
    file.flush()
    os.fsync(file.fileno())
    return hashing.sha256


def _is_still(path: Path, identity: FileIdentity) -> bool:
    try:
        return FileIdentity.of(path) == identity
    except OSError:
        return False


def _named(part: Path, to: Path, *, replace: bool) -> None:
    """Give the part its name; the sum of a file that was there before goes. Raises WeightsError, OSError."""
    if not replace:
        new_file.name_it(part, to)
    sha256_sidecar.of(to).unlink(missing_ok=True)
    if replace:
        part.replace(to)
        new_file.sync_folder(to.parent)


def one_ahead(tensors: Iterable[tuple[str, Tensor]], aside: Executor) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in their order; the next one is made aside while one is written."""
    left = iter(tensors)
    coming = aside.submit(next, left, None)
    while (one := coming.result()) is not None:
        coming = aside.submit(next, left, None)
        yield one
