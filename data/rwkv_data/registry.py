"""Which benchmarks there are: one module each in `rwkv_data.benchmarks`, found by its file's name.

`names()` imports nothing. `load()` is strict: a file that cannot be imported, lacks `BENCHMARK` or disagrees with its
own name raises an error that begins with the file's path; nothing is skipped.
"""

import difflib
import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType

from rwkv_data.benchmark import Benchmark
from rwkv_data.errors import BenchmarkFileError, UnknownBenchmarkError

PACKAGE = "rwkv_data.benchmarks"


def names(package: str = PACKAGE) -> list[str]:
    """The names of all benchmarks, sorted."""
    spec = find_spec(package)
    paths = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(module.name for module in pkgutil.iter_modules(paths))


def load(name: str, package: str = PACKAGE) -> Benchmark:
    """The benchmark of that name."""
    known = names(package)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(known)
        raise UnknownBenchmarkError(f"no benchmark is called {name!r}; {hint}")
    return _benchmark_of(_import(name, package), name)


def _import(name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package}.{name}")
    except Exception as error:
        spec = find_spec(f"{package}.{name}")
        where = spec.origin if spec else name
        raise BenchmarkFileError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error


def _benchmark_of(module: ModuleType, name: str) -> Benchmark:
    benchmark = getattr(module, "BENCHMARK", None)
    if not isinstance(benchmark, Benchmark):
        raise BenchmarkFileError(f"{module.__file__} defines no BENCHMARK of type Benchmark")
    if benchmark.name != name:
        raise BenchmarkFileError(f"{module.__file__} calls its benchmark {benchmark.name!r}, not {name!r}")
    if not benchmark.kinds or any(key != kind.name for key, kind in benchmark.kinds.items()):
        raise BenchmarkFileError(f"{module.__file__} has no kinds, or kinds under other names than their own")
    return benchmark
