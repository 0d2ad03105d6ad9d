"""The registry finds files without importing them, refuses bad ones by name, and stays light."""

import sys

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.errors import BenchmarkFileError, UnknownBenchmarkError

NO_KINDS = """
from dataclasses import replace
from rwkv_data.benchmarks import gsm8k
BENCHMARK = replace(gsm8k.BENCHMARK, name="bad", kinds={})
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of benchmark files to fill; gives a function (name, source)."""
    folder = tmp_path / "made_up_benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(name: str, source: str) -> str:
        (folder / f"{name}.py").write_text(source)
        return str(folder / f"{name}.py")

    yield add
    for module in [name for name in sys.modules if name.startswith("made_up_benchmarks")]:
        del sys.modules[module]


def test_the_first_six_are_there() -> None:
    assert {"arc_challenge", "demo_arith", "demo_choice", "gsm8k", "math_500", "mmlu"} <= set(registry.names())


def test_names_imports_no_benchmark(package) -> None:
    package("broken", "raise RuntimeError('must not be imported')")
    assert registry.names("made_up_benchmarks") == ["broken"]


def test_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownBenchmarkError, match="did you mean 'gsm8k'"):
        registry.load("gsm8")
    with pytest.raises(UnknownBenchmarkError, match="there are aime24, "):
        registry.load("../../etc/passwd")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("", "defines no BENCHMARK"),
        ("BENCHMARK = 3", "defines no BENCHMARK"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError"),
        ("def broken(:", "cannot be imported: SyntaxError"),
        ("BENCHMARK = 1 / 0", "cannot be imported: ZeroDivisionError"),
        ("from rwkv_data.benchmarks.gsm8k import BENCHMARK", "calls its benchmark 'gsm8k', not 'bad'"),
        (NO_KINDS, "has no kinds"),
    ],
)
def test_a_bad_file_is_refused_by_its_path(package, source: str, complaint: str) -> None:
    path = package("bad", source)
    with pytest.raises(BenchmarkFileError) as caught:
        registry.load("bad", "made_up_benchmarks")
    assert str(caught.value).startswith(path)
    assert complaint in str(caught.value)
