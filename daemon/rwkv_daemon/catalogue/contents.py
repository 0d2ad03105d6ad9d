"""What can be measured: the checkpoints on disk and the benchmarks, as facts for the planner.

No file's contents are read here: a checkpoint is known by its file's identity, and its sha256 comes from the store's
cache.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from rwkv_daemon.catalogue import suite_kinds
from rwkv_daemon.host.shown_files import inodes_of
from rwkv_daemon.rules.file_settling import Settling
from rwkv_daemon.rules.memory_fit import least_bytes
from rwkv_daemon.rules.plan import KindFact, ModelFact, OfferedKind, SelectionError, select_kinds
from rwkv_daemon.store import Store
from rwkv_daemon.store.queries.jobs import known_weights
from rwkv_data.definition import overrides, own_benchmark, registry, suites
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import DataError, RowsDamagedError, UnknownBenchmarkError
from rwkv_data.definition.kind import PICKS, Kind
from rwkv_data.definition.overrides import Overrides
from rwkv_data.definition.row_window import Extent
from rwkv_data.definition.suites import Suite
from rwkv_data.labels import label_file
from rwkv_data.prepare import prepared_sets
from rwkv_data.reference.show import source_of
from rwkv_weights.local import file_names, inventory
from rwkvctl.protocol.requests import NamedCheckpoint, Selection
from rwkvctl.protocol.views import BenchmarkView, ModelView
from rwkvctl.settings.config import Config

IdentityKey = tuple[int, int, int, int]
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A checkpoint: its path, its file's identity, and what its name says. `inodes` is set if it was named by path."""

    path: Path
    identity: IdentityKey
    name: file_names.ModelName
    label: str
    builtin: bool
    inodes: str = ""


def checkpoints(weights_dir: Path) -> Iterator[CheckpointFile]:
    """Yield every checkpoint under the weights folder, and the built-in one."""
    for found in inventory.checkpoints(weights_dir):
        with contextlib.suppress(OSError):
            yield CheckpointFile(found.path, astuple(found.identity), found.name, found.label, found.builtin)


def identity_of(path: Path) -> IdentityKey:
    """Return the key of the sha256 cache: device, inode, size and time of the last change in ns. Raises OSError."""
    return astuple(inventory.at(path).identity)


def named(given: Sequence[NamedCheckpoint]) -> Iterator[CheckpointFile]:
    """Yield the checkpoints that a selection names by path. Raises SelectionError for one that cannot be read."""
    for one in given:
        try:
            found = inventory.at(Path(one.path))
            identity, inodes = astuple(found.identity), inodes_of(found.files)
        except (OSError, ValueError, IndexError) as error:
            raise SelectionError(f"{one.path} is no checkpoint that can be read ({error}).") from error
        yield CheckpointFile(found.path, identity, found.name, one.name or found.label, builtin=False, inodes=inodes)


def elsewhere(given: Sequence[NamedCheckpoint]) -> Iterator[CheckpointFile]:
    """Yield the checkpoints outside the weights folder that a selection names by path. A file name without size and
    data version gets its folder in front (`run7-rwkv-final`), since every training run has such a file. Raises
    SelectionError."""
    for one, found in zip(given, named(given), strict=True):
        plain = not one.name and found.name.size_b is None and not found.name.version
        yield replace(found, label=f"{found.path.parent.name}-{found.label}") if plain else found


async def model_facts(
    store: Store, found_ones: Iterable[CheckpointFile], settling: Settling
) -> list[tuple[CheckpointFile, ModelFact]]:
    """Return checkpoints with what the store knows of them, and which are still being copied."""
    facts, known = [], await known_weights(store)
    for found in found_ones:
        sha256, broken = known.get(found.identity, ("", ""))
        at = str(found.path)
        broken = broken or ("" if sha256 else settling.cut_off.get(at, ""))
        copying = not sha256 and at in settling.copying
        facts.append((found, model_fact(found, sha256, broken, copying=copying)))
    return facts


def model_fact(found: CheckpointFile, sha256: str, broken: str = "", *, copying: bool = False) -> ModelFact:
    """Return a checkpoint as the planner sees it."""
    return ModelFact(
        name=found.label,
        path=str(found.path),
        sha256=sha256,
        architecture=found.name.architecture,
        parameters_b=found.name.size_b,
        order=found.name.sort_key,
        builtin=found.builtin,
        broken=broken,
        copying=copying,
        inodes=found.inodes,
    )


def model_view(found: CheckpointFile, fact: ModelFact, numerics: str) -> ModelView:
    """Return a checkpoint as `rwkvctl models` shows it, on a node with this numerics profile."""
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
        broken=fact.broken,
        copying=fact.copying,
        need_bytes=least_bytes(found.identity[2], numerics),
    )


@dataclass(slots=True)
class NodeBenchmarks:
    """The benchmarks of this node: built-in ones, the operator's own files, own rows; and the standing settings of all.

    Files are imported once. The daemon does not start if a file cannot be imported.
    """

    data_dir: Path
    folder: Path | None = None
    judge: str = ""
    unsandboxed: bool = False
    files: dict[str, Benchmark] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=Overrides)
    suites: dict[str, Suite] = field(default_factory=dict)
    file_sha256: dict[str, str] = field(default_factory=dict)
    as_read: tuple[object, ...] = ()
    remembered: dict[tuple[str, str], tuple[tuple[object, ...], Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, config: Config) -> "NodeBenchmarks":
        """Import every benchmark and read the settings. Raises DataError or ConfigError."""
        unsandboxed = config.settings.run_untrusted_code_unsandboxed
        benchmarks = cls(config.data_dir, config.benchmarks_dir, unsandboxed=unsandboxed)
        files = registry.Catalogue(folder=benchmarks.folder)
        benchmarks.files = {name: files.load(name) for name in files.names()}
        if (folder := config.benchmarks_dir).is_dir():
            stems = [path.stem for path in folder.glob("*.py")]
            benchmarks.file_sha256 = {stem: registry.file_sha256(folder, stem) for stem in stems}
        benchmarks.overrides = overrides.read(config.overrides_file, benchmarks.all())
        benchmarks.suites = suites.read(config.overrides_file, benchmarks.all())
        benchmarks.as_read = stamp_of(config)
        return benchmarks

    def all(self) -> dict[str, Benchmark]:
        """Return every benchmark by name. Sets of own rows may come and go, so each is read again when its manifest
        changes."""
        own_rows = {}
        for name in own_benchmark.names(self.data_dir):
            with contextlib.suppress(DataError):  # a set that is not complete does not count
                own_rows[name] = self._remembered("own", name, partial(own_benchmark.benchmark, self.data_dir, name))
        return self.files | own_rows

    def manifest(self, benchmark: Benchmark) -> prepared_sets.Manifest | None:
        """Return the manifest of the rows, or None if they are missing or must be prepared again."""
        return self._remembered("manifest", benchmark.name, partial(readable_manifest, self.data_dir, benchmark))

    def extent(self, benchmark: Benchmark) -> Extent | None:
        """Return how many rows there are, with their days and fields; None if they are missing."""
        manifest = self.manifest(benchmark)
        if manifest is None:
            return None
        return self._remembered(
            "extent", benchmark.name, partial(prepared_sets.extent_of, self.data_dir, benchmark, manifest)
        )

    def _remembered(self, what: str, name: str, read: Callable[[], Read]) -> Read:
        """Return what `read` gives for a set; the value is kept as long as the manifest is the same file."""
        try:
            found = prepared_sets.manifest_path(self.data_dir, name).stat()
            stamp: tuple[object, ...] = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            stamp = ()
        if what == "extent":
            stamp = (*stamp, *label_file.stamp(self.data_dir, name))
        known = self.remembered.get((what, name))
        if known is None or known[0] != stamp:
            known = self.remembered[what, name] = (stamp, read())
        found_then: Read = known[1]
        return found_then

    def kind(self, name: str, kind: str, settings: Mapping[str, str], extent: Extent) -> Kind:
        """Return a kind with a job's settings, for a set. Raises UnknownBenchmarkError if it does not exist any
        more."""
        return self.kind_of(name, kind).with_known_settings(settings).sized(extent)

    def changed_since(self, config: Config) -> str:
        """Return a sentence if the operator's files have changed since they were read; else empty."""
        if self.as_read == stamp_of(config):
            return ""
        return f"{config.overrides_file.name} or a file in {config.benchmarks_dir} has changed: `rwkvctl reload`"

    def get(self, name: str) -> Benchmark:
        """Return a benchmark by name. Raises UnknownBenchmarkError if there is none; its file may have been removed."""
        found = self.all().get(name)
        if found is None:
            raise UnknownBenchmarkError(f"there is no benchmark {name} any more; put its file or rows back")
        return found

    def kind_of(self, name: str, kind: str) -> Kind:
        """Return a kind by name, without any settings applied. Raises UnknownBenchmarkError if there is none."""
        kinds = self.get(name).kinds
        if kind not in kinds:
            raise UnknownBenchmarkError(f"{name} has no kind {kind} any more")
        return kinds[kind]

    def settings(self, benchmark: str, kind: Kind, model: str = "") -> dict[str, str]:
        """Return the operator's standing settings for a kind of a benchmark, for one model if named."""
        return self.overrides.settings(benchmark, kind, model)

    def selected_settings(self, selection: Selection, benchmark: str, kind: Kind, model: str = "") -> dict[str, str]:
        """Return the settings with which a selection means a kind, of one model if named: what is standing, then what
        its suite says, then its own. Raises SelectionError."""
        suite = self.suite_of(selection)
        of_suite = suite.settings(benchmark, kind) if suite else {}
        return self.settings(benchmark, kind, model) | of_suite | of_selection(selection, kind)

    def suite_of(self, selection: Selection) -> Suite | None:
        """Return the suite that a selection names, if it names one. Raises SelectionError if there is none."""
        if not selection.suite:
            return None
        if (suite := self.suites.get(selection.suite)) is None:
            known = ", ".join(sorted(self.suites)) or "none; benchmarks.toml defines them as [suites.NAME]"
            raise SelectionError(f"--suite: there is no suite {selection.suite}; there are {known}.")
        return suite

    def names_benchmarks(self, selection: Selection) -> bool:
        """Whether a selection, or its suite, names benchmarks. Raises SelectionError."""
        suite = self.suite_of(selection)
        return bool(selection.only_datasets or (suite is not None and suite.members))

    def with_limit(self, selection: Selection) -> Selection:
        """Return a selection with the limit of its suite, if it has none of its own. Raises SelectionError."""
        suite = self.suite_of(selection)
        if suite is None or selection.limit is not None:
            return selection
        return structs.replace(selection, limit=suite.limit)


def kind_facts(selection: Selection, benchmarks: NodeBenchmarks) -> list[KindFact]:
    """Return the selected kinds with their standing settings and the selection's. Raises SelectionError.

    A setting must exist for each selected kind that samples tokens, and for at least one kind: a setting without effect
    would silently give a score that nobody asked for. Rows that are picked must be there, and have the fields.
    """
    every, facts, known = benchmarks.all(), [], 0
    offers = [offered(one, kind, benchmarks.judge) for one in every.values() for kind in one.kinds.values()]
    suite = benchmarks.suite_of(selection)
    for offer in select_kinds(selection, offers, suite_kinds.kinds_of(suite, selection, offers) if suite else None):
        benchmark = every[offer.benchmark]
        kind = benchmark.kinds[offer.kind]
        wanted = of_selection(selection, kind)
        known += bool(wanted)
        settings = benchmarks.selected_settings(selection, benchmark.name, kind)
        fact = kind_fact(benchmarks, benchmark, kind, settings)
        if fact.rows_problem and not wanted.keys().isdisjoint(PICKS):
            raise SelectionError(f"--set for {fact.benchmark} {fact.kind}: {fact.rows_problem}.")
        facts.append(fact)
    if not known and selection.settings:
        raise SelectionError(f"--set: nothing that is selected has a setting {next(iter(selection.settings))!r}.")
    return facts


def offered(benchmark: Benchmark, kind: Kind, judge: str) -> OfferedKind:
    """Return a kind as a selection looks at it, on a node with this judge."""
    return OfferedKind(
        benchmark=benchmark.name,
        kind=kind.name,
        domain=kind.domain or benchmark.domain,
        profile=kind.profile,
        default=kind.default,
        builtin=benchmark.built_in,
        training=benchmark.training,
        instead=benchmark.instead_of(kind, judge=bool(judge)),
    )


def of_selection(selection: Selection, kind: Kind) -> dict[str, str]:
    """Return what `--set` and `--seed` mean for a kind, under full names; for a kind that samples nothing, only the
    settings it can take, and those that pick rows: without one that is misspelt, all rows would be asked."""
    given = dict(selection.settings)
    if selection.seed is not None:
        given["seed"] = str(selection.seed)
    if not kind.samples_tokens:
        given = {name: text for name, text in given.items() if name in PICKS or not overrides.refusal(kind, name, text)}
    return kind.full_names(given)


@dataclass(slots=True)
class ModelSettings:
    """Kinds with a model's own standing settings, for one plan; each combination is computed once."""

    benchmarks: NodeBenchmarks
    selection: Selection
    known: dict[tuple[object, ...], KindFact] = field(default_factory=dict)

    def of(self, model: ModelFact, fact: KindFact) -> KindFact:
        """Return the kind with the model's standing settings, if there are any. `--set` takes precedence."""
        if fact.harness or not self.benchmarks.overrides.reaches(model.name, fact.benchmark, fact.kind):
            return fact
        benchmark = self.benchmarks.get(fact.benchmark)
        kind = benchmark.kinds[fact.kind]
        settings = self.benchmarks.selected_settings(self.selection, benchmark.name, kind, model.name)
        place = (fact.benchmark, fact.kind, *sorted(settings.items()))
        if place not in self.known:
            self.known[place] = kind_fact(self.benchmarks, benchmark, kind, settings)
        return self.known[place]


def readable_manifest(data_dir: Path, benchmark: Benchmark) -> prepared_sets.Manifest | None:
    """Return the manifest of the rows, or None if they are missing or must be prepared again."""
    try:
        return prepared_sets.read_manifest(data_dir, benchmark)
    except DataError:
        return None


def stamp_of(config: Config) -> tuple[object, ...]:
    """Return a value that changes when the operator's own benchmarks or settings do."""
    folder = config.benchmarks_dir
    files = [config.overrides_file, *(sorted(folder.glob("*.py")) if folder.is_dir() else [])]
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.is_file())


def rows_stamp(config: Config, benchmark: str, source_job: int | None = None) -> tuple[object, ...]:
    """Return a value that changes when a benchmark's rows or its own file do, or the samples of the job that is
    rewritten: what is damaged is checked again then."""
    folder, file = config.data_dir / benchmark, config.benchmarks_dir / f"{benchmark}.py"
    files = [*sorted(folder.glob("*")), *sorted(folder.glob(f"{label_file.FOLDER}/*")), file]
    if source_job is not None:
        files += sorted((config.runs_dir / f"j{source_job}").glob("samples-*.jsonl"))
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.is_file())


def kind_fact(benchmarks: NodeBenchmarks, benchmark: Benchmark, kind: Kind, settings: Mapping[str, str]) -> KindFact:
    """Return a kind with these settings as the planner sees it. Raises SelectionError for an invalid setting."""
    manifest = benchmarks.manifest(benchmark)
    current = manifest if manifest is not None and manifest.benchmark_version == benchmark.version else None
    like, offer = benchmark.asked_like(kind), offered(benchmark, kind, benchmarks.judge)
    kind = with_settings(benchmark.name, kind, settings)
    extent = benchmarks.extent(benchmark) if current is not None else None
    problem = kind.rows_problem(extent) if extent is not None else ""
    if extent is not None and not problem:
        settings = pinned(settings, kind, extent)
        kind = kind.sized(extent).pinned(extent)
    return KindFact(
        **asdict(offer),
        benchmark_version=benchmark.version,
        configuration=configuration(benchmarks, benchmark.name, kind, current) | {"kind": like.name},
        repeats=kind.repeats,
        grader=kind.grader.name,
        grader_version=kind.grader.version,
        rows=kind.rows_asked(extent) if extent is not None and not problem else None,
        rows_problem=problem,
        rows_sha256=current.sha256 if current else "",
        chain_of_thought=any(stage.name == "cot" for stage in kind.stages),
        settings=dict(settings),
        grading=grading(benchmarks, kind),
        judged=kind.grader.judge is not None,
        asked_as=like.name,
        takes_chat=kind.takes_chat,
        chooses=kind.chooses,
    )


def pinned(settings: Mapping[str, str], kind: Kind, extent: Extent | None) -> dict[str, str]:
    """Return the settings of a kind, in which labels that `where` and `order` name have their present version: a job
    asks the same rows whatever labels are made later. `kind` has these settings."""
    if extent is None or not kind.picks_rows:
        return dict(settings)
    now = kind.pinned(extent).picks
    changed = {name: now[name] for name, text in kind.picks.items() if now[name] != text}
    # The name of a field may be that of a file on the command line: `show --repro` prints what is stored.
    return dict(settings) | ({"order": now["order"]} if settings.get("order") else {}) | changed


def configuration(
    benchmarks: NodeBenchmarks, name: str, kind: Kind, manifest: prepared_sets.Manifest | None
) -> dict[str, object]:
    """Return what enters the generation key; with the pool's sha256 if examples are taken from it, and that of the
    operator's own file, whose prompts may change without a new version."""
    plain = kind.configuration()
    if name in benchmarks.file_sha256:
        plain["file_sha256"] = benchmarks.file_sha256[name]
    if kind.shots and kind.shots.needs_pool:
        plain["shots"] |= {"pool_sha256": manifest.pool_sha256 if manifest else ""}
    return plain


def grading(benchmarks: NodeBenchmarks, kind: Kind) -> dict[str, object]:
    """Return what enters the grade key beside the grader's name and version."""
    more = {name: value for name, value in kind.grading_key().items() if name not in {"grader", "version"}}
    if kind.grader.judge is not None:
        more["judge_model"] = benchmarks.judge
    if kind.grader.runs_code and benchmarks.unsandboxed:
        more["unsandboxed"] = True
    return more


def with_settings(benchmark: str, kind: Kind, settings: Mapping[str, str]) -> Kind:
    """Return the kind with settings replaced. Raises SelectionError, as an error of `--set`, for an invalid setting."""
    try:
        return kind.with_settings(settings)
    except DataError as error:
        raise SelectionError(f"--set for {benchmark} {kind.name}: {error}") from error


def benchmark_view(benchmark: Benchmark, data_dir: Path, judge: str = "") -> BenchmarkView:
    """Return a benchmark as `rwkvctl benchmarks` shows it, on a node with this judge."""
    manifest, error = rows_of(benchmark, data_dir)
    return BenchmarkView(
        name=benchmark.name,
        title=benchmark.title,
        domain=benchmark.domain,
        kinds=tuple(benchmark.kinds),
        usual=tuple(
            kind.name
            for kind in benchmark.kinds.values()
            if kind.default and not benchmark.instead_of(kind, judge=bool(judge))
        ),
        version=benchmark.version,
        split=benchmark.split,
        rows=manifest.rows if manifest else None,
        rows_sha256=manifest.sha256 if manifest else "",
        ready=manifest is not None,
        builtin=benchmark.built_in,
        licence=benchmark.licence,
        profile=f"{benchmark.default_kind.profile}/{benchmark.default_kind.profile_version}",
        source=manifest.source if manifest else source_of(benchmark),
        upstream=source_of(benchmark),
        problem=str(error or ""),
        damaged=isinstance(error, RowsDamagedError),
        prepared=manifest.created if manifest else "",
        training=benchmark.training,
        rows_complete=benchmark.rows,
        schema_verified=benchmark.schema_verified,
    )


def rows_of(benchmark: Benchmark, data_dir: Path) -> tuple[prepared_sets.Manifest | None, DataError | None]:
    """Return the manifest of rows that can be used; or None, and why there are none."""
    try:
        return prepared_sets.current_manifest(data_dir, benchmark), None
    except DataError as error:
        return None, error
