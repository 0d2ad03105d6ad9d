"""docs/benchmarks.md agrees with the catalogue."""

from pathlib import Path

from rwkv_data.definition import registry
from rwkv_data.reference import catalogue_page
from rwkv_data.reference.catalogue_page import TITLES

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE = catalogue_page.page()


def test_the_page_is_fresh() -> None:
    fresh = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert fresh == PAGE, "run: python -m rwkv_data.reference.catalogue_page > docs/benchmarks.md"


def test_every_benchmark_and_kind_is_there_once() -> None:
    lines = PAGE.splitlines()
    for name in registry.names():
        benchmark = registry.load(name)
        assert benchmark.domain in TITLES
        assert lines.count(f"### {name}") == 1
        assert sum(line.startswith(f"| [{name}](#{name}) | ") for line in lines) == 1
        below = lines[lines.index(f"### {name}") :]
        table = below[below.index("|---|---|---|---|---|") + 1 :][: len(benchmark.kinds)]
        assert [line.split("|")[1].strip(" *") for line in table] == list(benchmark.kinds)


def test_unverified_schemas_and_licences_are_said() -> None:
    unverified = [name for name in registry.names() if not registry.load(name).schema_verified]
    assert PAGE.count("*Schema unverified.*") == len(unverified) > 0
    assert "non-commercial" in PAGE
    assert max(map(len, PAGE.splitlines())) < 400
