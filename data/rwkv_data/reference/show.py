"""What is sent, exactly: the first prompts of a kind, and where the prompts of two kinds differ."""

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rwkv_data.definition.benchmark import Benchmark, HubSource, WebSource
from rwkv_data.definition.errors import SettingError, UnknownBenchmarkError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets


def kind_of(benchmark: Benchmark, name: str) -> Kind:
    """A kind by its name; without a name the first. Raises UnknownBenchmarkError."""
    if name and name not in benchmark.kinds:
        known = ", ".join(benchmark.kinds)
        raise UnknownBenchmarkError(f"{benchmark.name} has no kind {name!r}; it has {known}")
    return benchmark.kinds[name] if name else benchmark.default_kind


def show(
    benchmark: Benchmark,
    kind: str = "",
    data_dir: Path | None = None,
    count: int = 3,
    settings: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The first rows with each stage's prompt, choices and sampling. Without prepared rows the examples' rows serve."""
    chosen = kind_of(benchmark, kind).with_known_settings(settings or {})
    asked, origin = first_rows(benchmark, chosen, data_dir, count)
    return [_shown(chosen, row, index, origin) for index, row in enumerate(asked)]


def first_rows(benchmark: Benchmark, kind: Kind, data_dir: Path | None, count: int) -> tuple[list[Row], str]:
    """The first rows that are asked, and whether they are rows of the set or of its examples."""
    unprepared = not benchmark.built_in and (
        data_dir is None or prepared_sets.read_manifest(data_dir, benchmark) is None
    )
    if benchmark.private or unprepared:
        examples = [example.row for example in benchmark.examples if example.kind in {"", kind.name}]
        return [row for index, row in enumerate(examples) if row not in examples[:index]][:count], "examples"
    where = data_dir or Path()
    extent = prepared_sets.extent_of(where, benchmark, prepared_sets.current_manifest(where, benchmark))
    if problem := kind.rows_problem(extent):
        raise SettingError(f"{benchmark.name} {kind.name}: {problem}")
    return prepared_sets.load_asked(where, benchmark, kind.sized(extent), count), "rows"


def difference(benchmark: Benchmark, one: str, other: str, data_dir: Path | None = None, row: int = 0) -> list[str]:
    """The prompts of two kinds for one row as a unified diff, stage by stage; empty where they are the same."""
    kinds = [kind_of(benchmark, name) for name in (one, other)]
    before, after = (_as_lines(_row_shown(benchmark, kind, data_dir, row)) for kind in kinds)
    return list(difflib.unified_diff(before, after, kinds[0].name, kinds[1].name, lineterm="", n=2))


def _row_shown(benchmark: Benchmark, kind: Kind, data_dir: Path | None, row: int) -> dict[str, Any]:
    rows, _ = first_rows(benchmark, kind, data_dir, row + 1)
    if not 0 <= row < len(rows):
        raise SettingError(f"there is no row {row}; {len(rows)} are there")
    return _shown(kind, rows[row], row, "")


def facts(benchmark: Benchmark, kind: Kind) -> dict[str, Any]:
    """All that decides a score of this kind, beside the rows."""
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "version": benchmark.version,
        "licence": benchmark.licence,
        "rows": benchmark.rows,
        "source": source_of(benchmark),
        "schema_verified": benchmark.schema_verified,
        "training": benchmark.training,
        "kind": kind.name,
        "kinds": list(benchmark.kinds),
        "profile": f"{kind.profile}/{kind.profile_version}",
        "grader": f"{kind.grader.name} {kind.grader.version}",
        "judge": f"{kind.grader.judge.name} {kind.grader.judge.version}" if kind.grader.judge else "",
        "metrics": list(kind.metrics),
        "settings": kind.settings(),
        "stages": [stage.configuration() for stage in kind.stages],
    }


def source_of(benchmark: Benchmark) -> str:
    """Where the rows come from, in a few words."""
    source = benchmark.source
    if isinstance(source, HubSource):
        gate = " (gated)" if source.gated else ""
        return f"hub {source.repo} {source.config} {source.split}{gate}".replace("  ", " ")
    if isinstance(source, WebSource):
        return source.urls[0] + (f" and {len(source.urls) - 1} more" if len(source.urls) > 1 else "")
    return "built in" if benchmark.built_in else "local files"


def _shown(kind: Kind, row: Row, index: int, origin: str) -> dict[str, Any]:
    stages = []
    for number, stage in enumerate(kind.stages):
        asked = stage.configuration() | {"prompt": kind.prompt(number, row)}
        stages.append(asked | ({"choices": list(stage.choices(row))} if stage.choices else {}))
    return {"row": index, "of": origin, "expected": str(row.get("answer", "")), "stages": stages}


def _as_lines(shown: Mapping[str, Any]) -> Sequence[str]:
    lines: list[str] = []
    for stage in shown["stages"]:
        rest = {name: value for name, value in stage.items() if name not in {"prompt", "name"}}
        lines += [f"== stage {stage['name']}", *stage["prompt"].split("\n")]
        lines.append(f"-- {json.dumps(rest, ensure_ascii=False, sort_keys=True)}")
    return lines
