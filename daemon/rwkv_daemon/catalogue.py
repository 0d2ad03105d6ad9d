"""What there is to measure, and to measure with: checkpoints on disk and benchmarks of the catalogue, as facts.

Nothing here reads a file's contents: a checkpoint is known by its identity, its sha256 comes from the store's cache.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from rwkv_daemon.plan import KindFact, ModelFact, SelectionError, select_kinds
from rwkv_daemon.store import Store
from rwkv_daemon.store.jobs import sha256_of
from rwkv_data import registry, sets
from rwkv_data.benchmark import Benchmark, Kind
from rwkv_data.errors import DataError
from rwkv_weights import names, shelf
from rwkvctl.protocol.messages import BenchmarkView, ModelView, Selection

IdentityKey = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: where it is, which file or files it is, what its name says."""

    path: Path
    identity: IdentityKey
    name: names.ModelName
    label: str
    builtin: bool


def checkpoints(weights_dir: Path) -> Iterator[Checkpoint]:
    """Every checkpoint under the weights folder, and the built-in one."""
    for found in shelf.checkpoints(weights_dir):
        with contextlib.suppress(OSError):
            yield Checkpoint(found.path, astuple(found.identity), found.name, found.label, found.builtin)


def identity_of(path: Path) -> IdentityKey:
    """The key of the sha256 cache. Raises OSError."""
    return astuple(shelf.at(path).identity)


async def model_facts(store: Store, weights_dir: Path) -> list[tuple[Checkpoint, ModelFact]]:
    """Checkpoints with what the store knows of them."""
    facts = []
    for found in checkpoints(weights_dir):
        sha256, broken = await sha256_of(store, found.identity)
        fact = ModelFact(
            name=found.label,
            path=str(found.path),
            sha256=sha256,
            architecture=found.name.architecture,
            parameters_b=found.name.size_b,
            order=found.name.sort_key,
            builtin=found.builtin,
            broken=broken,
        )
        facts.append((found, fact))
    return facts


def model_view(found: Checkpoint, fact: ModelFact) -> ModelView:
    """A checkpoint as `rwkvctl models` shows it."""
    return ModelView(
        name=fact.name,
        path=fact.path,
        size_bytes=found.identity[2],
        sha256=fact.sha256,
        architecture=found.name.architecture,
        data_version=found.name.version,
        parameters_b=found.name.size_b,
        date=found.name.date,
        context=found.name.context,
        builtin=found.builtin,
    )


@cache
def benchmarks() -> dict[str, Benchmark]:
    """The whole catalogue. A file that does not import stops the daemon's start with its name."""
    return {name: registry.load(name) for name in registry.names()}


def kind_facts(selection: Selection, data_dir: Path) -> list[KindFact]:
    """Every kind of every benchmark, the selected ones with the selection's settings. Raises SelectionError.

    A setting must mean something to each selected kind that samples tokens: one that is silently without effect on some
    of them would be a score nobody asked for.
    """
    plain = {
        (benchmark.name, kind.name): kind_fact(benchmark, kind, readable_manifest(data_dir, benchmark.name))
        for benchmark in benchmarks().values()
        for kind in benchmark.kinds.values()
    }
    if not selection.settings:
        return list(plain.values())
    sampled = 0
    for fact in select_kinds(selection, plain.values()):
        benchmark = benchmarks()[fact.benchmark]
        kind = benchmark.kinds[fact.kind]
        if kind.settings():
            sampled += 1
            changed = with_settings(kind, selection.settings)
            manifest = readable_manifest(data_dir, benchmark.name)
            plain[fact.benchmark, fact.kind] = kind_fact(benchmark, changed, manifest)
    if not sampled:
        raise SelectionError("--set: nothing that is selected samples tokens, so there is nothing to set.")
    return list(plain.values())


def with_settings(kind: Kind, settings: dict[str, str]) -> Kind:
    """The kind with settings replaced; a bad one as the error of the flag."""
    try:
        return kind.with_settings(settings) if kind.settings() else kind
    except DataError as error:
        raise SelectionError(f"--set: {error}") from error


def readable_manifest(data_dir: Path, name: str) -> sets.Manifest | None:
    """The manifest, or None if the rows are missing or must be prepared again."""
    try:
        return sets.read_manifest(data_dir, name)
    except DataError:
        return None


def rows_stamp(folder: Path) -> tuple[object, ...]:
    """What a benchmark's files are now: damaged rows are looked at again when this has changed."""
    files = sorted(folder.glob("*")) if folder.is_dir() else []
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.is_file())


def kind_fact(benchmark: Benchmark, kind: Kind, manifest: sets.Manifest | None) -> KindFact:
    """A kind as the planner sees it."""
    current = manifest is not None and manifest.benchmark_version == benchmark.version
    return KindFact(
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        kind=kind.name,
        domain=benchmark.domain,
        configuration=kind.configuration(),
        repeats=kind.repeats,
        grader=kind.grader.name,
        grader_version=kind.grader.version,
        rows=manifest.rows if manifest is not None and current else None,
        rows_sha256=manifest.sha256 if manifest is not None and current else "",
        chain_of_thought=any(stage.name == "cot" for stage in kind.stages),
        builtin=benchmark.built_in,
    )


def benchmark_view(benchmark: Benchmark, data_dir: Path) -> BenchmarkView:
    """A benchmark as `rwkvctl benchmarks` shows it."""
    manifest = readable_manifest(data_dir, benchmark.name)
    return BenchmarkView(
        name=benchmark.name,
        title=benchmark.title,
        domain=benchmark.domain,
        kinds=tuple(benchmark.kinds),
        version=benchmark.version,
        split=benchmark.split,
        rows=manifest.rows if manifest else None,
        rows_sha256=manifest.sha256 if manifest else "",
        ready=manifest is not None,
        builtin=benchmark.built_in,
        licence=benchmark.licence,
        profile=f"{benchmark.default_kind.profile}/{benchmark.default_kind.profile_version}",
    )
