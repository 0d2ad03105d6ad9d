"""Which benchmarks there are: one module each in `rwkv_data.benchmarks`, found by its file's name; the operator's own
files; and sets of the operator's own rows.

`names()` imports nothing. `load()` is strict: a file that cannot be imported, lacks `BENCHMARK` or disagrees with its
own name raises an error that begins with the file's path; nothing is skipped.
"""

import difflib
import hashlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from rwkv_data.definition import own_benchmark
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import BenchmarkFileError, UnknownBenchmarkError

PACKAGE = "rwkv_data.benchmarks"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Where benchmarks are looked for: the built-in package, a folder of the operator's files, and the operator's own
    rows prepared in a data directory. An operator's file with the name of a built-in benchmark is refused."""

    package: str = PACKAGE
    folder: Path | None = None
    data_dir: Path | None = None

    def names(self) -> list[str]:
        """Return the names of all benchmarks, sorted: built-in ones, the operator's files and own rows."""
        return sorted({*names(self.package), *self._files(), *own_benchmark.names(self.data_dir)})

    def load(self, name: str) -> Benchmark:
        """Return the benchmark of a name. Raises UnknownBenchmarkError, or BenchmarkFileError if its file cannot be
        used."""
        files = self._files()
        if name in files:
            if name in names(self.package):
                raise BenchmarkFileError(
                    f"{files[name]} has the name of a benchmark that comes with rwkvctl; rename it"
                )
            return _benchmark_of(_from_file(files[name]), name)
        if self.data_dir and name in own_benchmark.names(self.data_dir):
            return own_benchmark.benchmark(self.data_dir, name)
        return load(name, self.package, self.names)

    def _files(self) -> dict[str, Path]:
        if self.folder is None or not self.folder.is_dir():
            return {}
        return {path.stem: path for path in sorted(self.folder.glob("*.py")) if not path.name.startswith("_")}


def file_sha256(folder: Path | None, name: str) -> str:
    """Return the first 16 digits of the sha256 of an operator's file; empty if there is none."""
    path = folder / f"{name}.py" if folder else Path()
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def names(package: str = PACKAGE) -> list[str]:
    """Return the names of the benchmarks of a package, sorted."""
    spec = find_spec(package)
    paths = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(module.name for module in pkgutil.iter_modules(paths))


def load(name: str, package: str = PACKAGE, known: Callable[[], list[str]] | None = None) -> Benchmark:
    """Return the benchmark of that name in a package; `known` gives the names to suggest."""
    if not name.isidentifier() or find_spec(f"{package}.{name}") is None:
        every = known() if known else names(package)
        near = difflib.get_close_matches(name, every, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(every)
        raise UnknownBenchmarkError(f"no benchmark is called {name!r}; {hint}")
    return _benchmark_of(_import(name, package), name)


def _import(name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package}.{name}")
    except Exception as error:
        spec = find_spec(f"{package}.{name}")
        where = spec.origin if spec else name
        raise BenchmarkFileError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """Import a file of the operator's; it runs unconfined, as the operator's own code."""
    spec = importlib.util.spec_from_file_location(f"rwkvctl_own_benchmark_{path.stem}", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BenchmarkFileError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _benchmark_of(module: ModuleType, name: str) -> Benchmark:
    benchmark = getattr(module, "BENCHMARK", None)
    if not isinstance(benchmark, Benchmark):
        raise BenchmarkFileError(f"{module.__file__} defines no BENCHMARK of type Benchmark")
    if benchmark.name != name:
        raise BenchmarkFileError(f"{module.__file__} calls its benchmark {benchmark.name!r}, not {name!r}")
    if not benchmark.kinds or any(key != kind.name for key, kind in benchmark.kinds.items()):
        raise BenchmarkFileError(f"{module.__file__} has no kinds, or kinds under other names than their own")
    return benchmark
