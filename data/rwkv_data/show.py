"""What is sent: the first prompts of a kind, exactly, for `rwkvctl benchmarks show`."""

from pathlib import Path
from typing import Any

from rwkv_data import registry, sets
from rwkv_data.benchmark import Kind, Row
from rwkv_data.errors import UnknownBenchmarkError


def show(name: str, kind: str = "", data_dir: Path | None = None, count: int = 3) -> list[dict[str, Any]]:
    """The first rows with each stage's prompt, choices and sampling. Without prepared rows the examples' rows serve."""
    benchmark = registry.load(name)
    if kind and kind not in benchmark.kinds:
        raise UnknownBenchmarkError(f"{name} has no kind {kind!r}; it has {', '.join(benchmark.kinds)}")
    chosen = benchmark.kinds[kind] if kind else benchmark.default_kind
    if benchmark.built_in or (data_dir and sets.read_manifest(data_dir, name)):
        rows, origin = sets.load_rows(data_dir or Path(), benchmark), "rows"
    else:
        rows, origin = [example.row for example in benchmark.examples], "examples"
    return [_shown(chosen, row, index, origin) for index, row in enumerate(rows[:count])]


def _shown(kind: Kind, row: Row, index: int, origin: str) -> dict[str, Any]:
    stages = []
    for stage in kind.stages:
        asked = stage.configuration() | {"prompt": stage.prompt(row)}
        stages.append(asked | ({"choices": list(stage.choices(row))} if stage.choices else {}))
    return {"row": index, "of": origin, "expected": str(row["answer"]), "stages": stages}
