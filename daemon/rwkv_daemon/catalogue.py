"""What there is to measure and to measure with: checkpoints on disk, benchmarks of the catalogue, as facts for planning.

Nothing here reads a file's contents: a checkpoint is known by its identity, its sha256 comes from the store's cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rwkv_daemon.plan import KindFact, ModelFact, SelectionError
from rwkv_daemon.store import Store
from rwkv_daemon.store.jobs import sha256_of
from rwkv_data import registry, sets
from rwkv_data.benchmark import Benchmark, Kind
from rwkv_data.errors import DataError
from rwkv_weights import names
from rwkv_weights.files import FileIdentity, builtin_checkpoint_path
from rwkvctl.protocol.messages import BenchmarkView, ModelView, Selection

IdentityKey = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint file: where it is, which file it is, what its name says."""

    path: Path
    identity: IdentityKey
    name: names.ModelName
    builtin: bool

    @property
    def label(self) -> str:
        return "builtin" if self.builtin else self.name.text


def checkpoints(weights_dir: Path) -> Iterator[Checkpoint]:
    """Every .pth file under the weights folder, and the built-in one. A file that vanishes meanwhile is left out."""
    for path in sorted(weights_dir.rglob("*.pth")) if weights_dir.is_dir() else []:
        try:
            yield Checkpoint(path, identity_of(path), names.parse(path.name), builtin=False)
        except FileNotFoundError:
            continue
    try:
        path = builtin_checkpoint_path()
    except FileNotFoundError:
        return
    yield Checkpoint(path, identity_of(path), names.parse(path.name), builtin=True)


def identity_of(path: Path) -> IdentityKey:
    """The key of the sha256 cache."""
    found = FileIdentity.of(path)
    return found.device, found.inode, found.size, found.mtime_ns


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
    """Every kind of every benchmark with the selection's settings applied. Raises SelectionError for a bad setting.

    A setting that only some kinds have is an error only if no selected kind has it.
    """
    used: set[str] = set()
    facts = []
    for benchmark in benchmarks().values():
        manifest = readable_manifest(data_dir, benchmark.name)
        for kind in benchmark.kinds.values():
            changed, taken = with_settings(kind, selection.settings)
            used |= taken
            facts.append(kind_fact(benchmark, changed, manifest))
    if unknown := sorted(set(selection.settings) - used):
        known = sorted({name for b in benchmarks().values() for k in b.kinds.values() for name in k.settings()})
        raise SelectionError(f"--set: no benchmark has {', '.join(unknown)}; known are {', '.join(known)}.")
    return facts


def with_settings(kind: Kind, settings: dict[str, str]) -> tuple[Kind, set[str]]:
    """The kind with those settings it has, and their names."""
    taken = {name for name in settings if has_setting(kind, name)}
    try:
        return kind.with_settings({name: settings[name] for name in taken}), taken
    except DataError as error:
        raise SelectionError(f"--set: {error}") from error


def has_setting(kind: Kind, name: str) -> bool:
    """A setting by its full name (`cot.temperature`), or by its last part where stages share it."""
    return any(name in {full, full.rpartition(".")[2]} for full in kind.settings())


def readable_manifest(data_dir: Path, name: str) -> sets.Manifest | None:
    """The manifest, or None if the rows are missing or must be prepared again."""
    try:
        return sets.read_manifest(data_dir, name)
    except DataError:
        return None


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
