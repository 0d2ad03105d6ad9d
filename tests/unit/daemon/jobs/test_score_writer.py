"""What a score says of the rows that were asked."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.jobs.score_writer import effective_kind, is_partial
from rwkv_data.prepare.prepare import prepare_own


def prepared(folder: Path, levels: list[int]) -> str:
    """Make `own_sums` a set with a row of each level, in the place of any other; return its sha256."""
    file = folder / "sums.jsonl"
    rows = [{"question": f"{number}+0?", "answer": "0", "level": level} for number, level in enumerate(levels)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return prepare_own("sums", file, folder / "data", replace=True).sha256


def job(rows_sha256: str, total: int, **settings: str) -> Any:
    return SimpleNamespace(benchmark="own_sums", kind="free_response", settings=json.dumps(settings), row_limit=None,
                           total=total, repeats=1, rows_sha256=rows_sha256)  # fmt: skip


@pytest.mark.parametrize("settings", [{"where": "level>=2"}, {"rows": "0:2"}])
def test_a_score_of_picked_rows_stays_partial_when_the_set_is_replaced(tmp_path: Path, settings: Any) -> None:
    """A regrading is scored beside rows that have nothing to do with it."""
    node: Any = SimpleNamespace(benchmarks=NodeBenchmarks(tmp_path / "data"))
    asked = job(prepared(tmp_path, [0, 1, 2, 3]), 2, **settings)
    whole = job(asked.rows_sha256, 4)
    assert is_partial(node, asked)
    assert not is_partial(node, whole)
    assert effective_kind(node, asked).picks_rows
    prepared(tmp_path, [2, 3])  # all of which match
    assert is_partial(node, asked)
    assert not is_partial(node, whole)
    assert not effective_kind(node, asked).picks_rows
