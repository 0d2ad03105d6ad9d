"""`weights verify`: read everything, and say of names, shapes, numbers and bytes whether they are as they should be."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rwkv_weights.errors import CheckpointError, WeightsError, WeightsUsageError
from rwkv_weights.formats import index, read_pass
from rwkv_weights.formats.finite import listed
from rwkv_weights.formats.index import Index
from rwkv_weights.local import inventory, sha256_sidecar
from rwkv_weights.local.checkpoint_files import HashedFile
from rwkv_weights.local.inventory import FoundCheckpoint
from rwkv_weights.local.sha256_cache import Sums
from rwkv_weights.verbs.output import Output
from rwkv_weights.verbs.places import Places
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.progress_meter import Meter


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a checkpoint: its name, whether it passed, and what was found."""

    name: str
    ok: bool
    what: str


@dataclass(frozen=True, slots=True)
class Report:
    """The checks of one checkpoint, and the sha256 of its bytes."""

    found: FoundCheckpoint
    checks: tuple[Check, ...]
    sha256: str

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def plain(self) -> dict[str, Any]:
        checks = [{"name": check.name, "ok": check.ok, "what": check.what} for check in self.checks]
        facts = {"name": self.found.label, "path": str(self.found.path), "ok": self.ok}
        return facts | {"sha256": self.sha256, "checks": checks}


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a path, a name, or a part of a name that only one has")
    parser.add_argument("--sha256", default="", metavar="HEX", help="what the file's sha256 must be")


def run(flags: argparse.Namespace, places: Places, output: Output) -> int:
    """Print the report; 1 if anything is not as it should be."""
    given = flags.sha256.lower().strip()
    if given and not re.fullmatch(r"[0-9a-f]{64}", given):
        raise WeightsUsageError(f"--sha256: {flags.sha256!r} is not 64 hexadecimal digits.")
    found = inventory.choose(flags.model, places.weights)
    report = verify(found, given, Sums(places.cache), output)
    if output.as_json:
        output.json("rwkvctl.weights-verify/1", report.plain)
    else:
        output.line(f"{found.label}  {found.path}")
        for check in report.checks:
            output.line(f"  {check.name:<7} {'ok ' if check.ok else 'BAD'}  {check.what}")
    return Exit.OK if report.ok else Exit.FAILED


def verify(found: FoundCheckpoint, given: str, sums: Sums, output: Output) -> Report:
    """Run all checks. Raises WeightsError where the file cannot be read to its end."""
    checks: list[Check] = []
    if odd := [file for file in found.files if not file.is_file()]:
        raise WeightsError(f"{odd[0]} is no file that can be read to its end.")
    try:
        read = index.read(found.path)
        checks += _shape(read)
    except CheckpointError as error:
        read = None
        checks.append(Check("names", ok=False, what=str(error)))
    try:
        with Meter(in_bytes=True, quiet=output.as_json) as meter:
            add = meter.adding(found.label, found.size)
            seen = read_pass.read_all(read, add) if read else read_pass.hash_files(found.files, add)
    except OSError as error:
        raise WeightsError(f"{found.path} cannot be read to its end: {error.strerror or error}") from error
    if read:
        checks.append(_values(read, seen.damaged))
    if not seen.hashes:
        return Report(found, tuple(checks), "")
    sha256 = inventory.combined([one.path.name for one in seen.hashes], [one.sha256 for one in seen.hashes])
    checks += _sums(seen.hashes, sha256, given, sums, output)
    return Report(found, tuple(checks), sha256)


def _shape(read: Index) -> list[Check]:
    dims = read.dims
    return [
        Check("names", ok=True, what=f"{len(read.entries):,} tensors, none missing, none unknown"),
        Check("shapes", ok=True, what=f"{dims.layers} layers, width {dims.width:,}, vocabulary {dims.vocabulary:,}"),
    ]


def _values(read: Index, damaged: tuple[str, ...]) -> Check:
    if damaged:
        return Check("values", ok=False, what=f"NaN or infinities in {listed(list(damaged))}")
    return Check("values", ok=True, what=f"{read.parameters:,} numbers, all finite")


def _sums(hashes: tuple[HashedFile, ...], sha256: str, given: str, sums: Sums, output: Output) -> Iterator[Check]:
    """Every sum there is to compare with; afterwards the new one is remembered, unless it contradicts one of them."""
    if changed := [one.path.name for one in hashes if one.changed]:
        yield Check("sha256", ok=False, what=f"{', '.join(changed)} changed while it was read; verify it again")
        return
    wanted = [("--sha256", given, sha256)] if given else []
    known = sums.known()
    for one in hashes:
        wanted += [
            (f"{sha256_sidecar.of(one.path).name}", text, one.sha256)
            for text in [sha256_sidecar.read(one.path)]
            if text
        ]
        if not given and (before := known.get(one.identity)):
            wanted.append(("an earlier reading of the same file", before, one.sha256))
    wrong = [(source, want, is_) for source, want, is_ in wanted if want != is_]
    for source, want, is_ in wrong:
        yield Check("sha256", ok=False, what=f"{is_}, but {source} says {want}")
    if not wrong:
        compared = f"as in {' and in '.join(dict.fromkeys(source for source, _, _ in wanted))}" if wanted else ""
        yield Check("sha256", ok=True, what=f"{sha256}, {compared or 'nothing to compare it with'}")
        _remember(hashes, sums, output)


def _remember(hashes: tuple[HashedFile, ...], sums: Sums, output: Output) -> None:
    try:
        for one in hashes:
            sums.remember(Path(one.path), one.identity, one.sha256)
    except OSError as error:
        output.note(f"the sha256 is not remembered: {sums.path} cannot be written ({error.strerror})")
