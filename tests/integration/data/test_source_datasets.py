"""What the `datasets` library makes of every real file of rows, beside what our readers make of it.

Both agree on most files. Each difference is listed here, and is why JSON and csv are read by our own readers.
"""

import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import column_rows, local

Rows = list[dict[str, Any]]

NO_ROWS = {
    "apps/train/*/[ims]*.json", "ceval/subject_mapping.json", "mmlu/mapping.json", "mmlu/dev_hf_dataset/*.json",
}  # fmt: skip
"""JSON files that hold no list of objects."""

TOO_BIG = "Value is too big!"
JSON_DIFFERS = {
    "comp_math_24_25/test.jsonl": {"source: missing -> None": 226, "reference_solution: missing -> None": 196},
    "gaokao2023en/test.jsonl": {"id: missing -> None": 92, "sourcename: missing -> None": 92},
    "human_eval_plus/HumanEvalPlus-Mini.jsonl.gz": {TOO_BIG: 1},
    "human_eval_plus/HumanEvalPlus.jsonl.gz": {TOO_BIG: 1},
    "mbpp_plus/MbppPlus.jsonl.gz": {TOO_BIG: 1},
}
"""The integers of the last three do not fit in 64 bits."""

CSV_DIFFERS = {
    "ceval": {"str -> int": 13948},
    "cmmlu": {": lost": 11917, "Unnamed: 0: missing -> int": 11917, "str -> float": 20},
    "mmlu": {"'None' -> None": 12},
}


@pytest.fixture(scope="module")
def library() -> Any:
    library = column_rows._library()
    library.disable_progress_bars()
    return library


def ours(path: Path, *names: str) -> Rows:
    return [
        {name: value for name, value in row.items() if name != "_file"}
        for _, row in local.open_rows(path, names, "test").placed
    ]


def differences(row: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """How the second row differs from the first."""
    for name in row.keys() | other.keys():
        if name not in other:
            yield f"{name}: lost"
        elif name not in row:
            yield f"{name}: missing -> {None if other[name] is None else type(other[name]).__name__}"
        elif repr(row[name]) != repr(other[name]):
            yield f"{row[name]!r} -> None" if other[name] is None else f"str -> {type(other[name]).__name__}"


def compared(rows: Rows, others: Rows) -> Counter[str]:
    assert len(rows) == len(others)
    return Counter(said for row, other in zip(rows, others, strict=True) for said in differences(row, other))


@pytest.mark.slow("golds")
def test_json_is_the_same_but_for_missing_fields_and_integers_beyond_64_bits(real_rows, library, tmp_path) -> None:
    found, same = {}, 0
    for path in sorted([*real_rows.rglob("*.json"), *real_rows.rglob("*.jsonl"), *real_rows.rglob("*.jsonl.gz")]):
        name = path.relative_to(real_rows).as_posix()
        if any(path.relative_to(real_rows).match(glob) for glob in NO_ROWS):
            with pytest.raises(PrepareError):
                ours(path)
            continue
        field = {"field": "examples"} if name.startswith("bbh/") else {}
        try:
            theirs = list(library.IterableDataset.from_json(str(path), cache_dir=str(tmp_path), **field))
        except ValueError as error:
            found[name] = {str(error)[: len(TOO_BIG)]: 1}
            continue
        if told := compared(ours(path), theirs):
            found[name] = dict(told)
        else:
            same += 1
    assert found == JSON_DIFFERS
    assert same == 63


@pytest.mark.slow("golds")
def test_csv_loses_the_word_none_the_type_text_and_a_column_without_a_name(real_rows, library, tmp_path) -> None:
    for name in ("ceval", "mmlu"):
        with zipfile.ZipFile(real_rows / name / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
    folders = {"ceval": tmp_path / "ceval", "mmlu": tmp_path / "mmlu", "cmmlu": real_rows / "cmmlu"}
    for name, folder in folders.items():
        told: Counter[str] = Counter()
        for path in sorted(path for path in folder.rglob("*.csv") if "__MACOSX" not in path.parts):
            rows, names = ours(path), {}
            if "cells" in rows[0]:
                rows = [{str(place): cell for place, cell in enumerate(row["cells"])} for row in rows]
                names = {"names": list(rows[0])}
            told += compared(rows, list(library.IterableDataset.from_csv(str(path), cache_dir=str(tmp_path), **names)))
        assert dict(told) == CSV_DIFFERS[name]


def test_what_reads_as_a_time_stays_text_with_us_alone(library, tmp_path) -> None:
    """As the dates of contests are written in LiveCodeBench."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"contest_date": "2024-08-01T00:00:00"}\n')
    assert ours(path) == [{"contest_date": "2024-08-01T00:00:00"}]
    assert (
        next(iter(library.IterableDataset.from_json(str(path), cache_dir=str(tmp_path))))["contest_date"].year == 2024
    )


NOT_IN_COLUMNS = {*JSON_DIFFERS, "ifeval/input_data.jsonl"}
"""Rows of these have not all the same fields (ifeval: the objects in them), or integers that no column holds."""
OF_SEVERAL_FILES = ("bbh/bbh/*.json", "ceval/ceval.zip", "cmmlu/test/*.csv", "mmlu/mmlu.zip")


@pytest.mark.slow("golds")
def test_real_rows_come_back_from_parquet_and_arrow(real_rows, library, tmp_path) -> None:
    """The rows of each file, written by the library, as one finds them on the hub."""
    names = {path.relative_to(real_rows) for path in [*real_rows.glob("*/*.json"), *real_rows.glob("*/*.jsonl")]}
    alone = {name.as_posix() for name in names if not any(name.match(glob) for glob in NO_ROWS)}
    for name in sorted({*alone, *OF_SEVERAL_FILES} - NOT_IN_COLUMNS):
        rows = ours(real_rows, name)
        whole = library.Dataset.from_list(rows)
        whole.to_parquet(str(tmp_path / "x.parquet"))
        whole.save_to_disk(str(tmp_path / "saved"))
        (saved,) = (tmp_path / "saved").glob("*.arrow")
        assert repr(ours(tmp_path / "x.parquet")) == repr(ours(saved)) == repr(rows), name
