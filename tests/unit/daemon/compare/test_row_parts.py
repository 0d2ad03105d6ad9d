"""Which rows of a job belong to a part of its set: the same rows of the set whichever of them the job asked."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.compare.row_parts import KEPT, KnownParts, RowPart
from rwkv_data.definition.errors import DataError, RowsDamagedError
from rwkv_data.definition.row_selection import Part
from rwkv_data.prepare.prepare import prepare_own

ROWS = 50


def prepared(folder: Path, rows: int = ROWS) -> str:
    """Make `own_sums` a set of so many rows; return its sha256."""
    file = folder / "sums.jsonl"
    file.write_text("".join(json.dumps({"question": f"{one}+0?", "answer": str(one)}) + "\n" for one in range(rows)))
    return prepare_own("sums", file, folder / "data", replace=True).sha256


def job(rows_sha256: str, total: int, *, number: int = 1, limit: int | None = None, repeats: int = 1,
        **settings: str) -> Any:  # fmt: skip
    return SimpleNamespace(id=number, name=f"j{number}", benchmark="own_sums", kind="free_response",
                           settings=json.dumps(settings), row_limit=limit, total=total * repeats, repeats=repeats,
                           rows_sha256=rows_sha256)  # fmt: skip


def rows_of(folder: Path, part: Part, *jobs: Any, known: KnownParts | None = None) -> list[frozenset[int]]:
    found = RowPart(part, NodeCatalogue(NodeBenchmarks(folder / "data")), known or KnownParts())
    return [asyncio.run(found.rows_of(one)) for one in jobs]


def test_the_parts_of_all_rows_are_all_of_them_once(tmp_path: Path) -> None:
    whole = job(prepared(tmp_path), ROWS)
    [search], [report], [every] = (rows_of(tmp_path, part, whole) for part in ("search", "report", "all"))
    assert len(search) == 20
    assert search | report == every == frozenset(range(ROWS))
    assert not search & report


@pytest.mark.parametrize("limit", [1, 10, 49])
def test_of_fewer_rows_those_belong_to_a_part_that_do_so_in_the_whole_set(tmp_path: Path, limit: int) -> None:
    """So that rows of the other part are not shown by a job with a limit."""
    sha256 = prepared(tmp_path)
    whole, few = rows_of(tmp_path, "search", job(sha256, ROWS), job(sha256, limit, number=2, limit=limit))
    assert few & set(range(limit)) == whole & set(range(limit))
    (held_back,) = rows_of(tmp_path, "report", job(sha256, limit, limit=limit))
    assert not few & held_back


def test_rows_are_numbered_as_the_job_asked_them(tmp_path: Path) -> None:
    sha256 = prepared(tmp_path)
    whole, later = rows_of(tmp_path, "search", job(sha256, ROWS), job(sha256, 30, number=2, rows="20:"))
    assert later == {row - 20 for row in whole if row >= 20}


def test_a_job_of_one_part_has_all_its_rows_in_it_and_none_in_the_other(tmp_path: Path) -> None:
    sha256 = prepared(tmp_path)
    of_search, of_report = job(sha256, 20, part="search"), job(sha256, 30, number=2, part="report")
    assert rows_of(tmp_path, "search", of_search, of_report) == [frozenset(range(20)), frozenset()]
    assert rows_of(tmp_path, "report", of_search, of_report) == [frozenset(), frozenset(range(30))]


def test_a_row_that_is_asked_several_times_is_one_row(tmp_path: Path) -> None:
    sha256 = prepared(tmp_path)
    once, often = rows_of(tmp_path, "search", job(sha256, ROWS), job(sha256, ROWS, number=2, repeats=3))
    assert once == often


def test_parts_of_other_rows_are_not_made_up(tmp_path: Path) -> None:
    asked = job(prepared(tmp_path), ROWS)
    prepared(tmp_path, ROWS + 1)
    with pytest.raises(RowsDamagedError, match="are not those that j1 asked"):
        rows_of(tmp_path, "search", asked)
    assert issubclass(RowsDamagedError, DataError)


def test_parts_of_another_number_of_rows_than_were_asked_are_not_made_up(tmp_path: Path) -> None:
    with pytest.raises(RowsDamagedError, match="cannot be told any more"):
        rows_of(tmp_path, "search", job(prepared(tmp_path), ROWS - 1))


def test_what_was_found_is_kept_by_part_and_rows_and_not_for_ever(tmp_path: Path) -> None:
    sha256, known = prepared(tmp_path), KnownParts()
    whole = job(sha256, ROWS)
    (search,), (report,) = (rows_of(tmp_path, part, whole, known=known) for part in ("search", "report"))
    assert search != report
    assert known.sets.keys() == {(sha256, "search"), (sha256, "report")}
    other = job(prepared(tmp_path, 10), 10, number=2)
    assert rows_of(tmp_path, "search", whole, other, known=known)[0] == search, "although its rows are gone"
    for number in range(3, KEPT + 9):
        known.jobs[number, "search"] = frozenset()
    rows_of(tmp_path, "report", other, known=known)
    assert len(known.jobs) == KEPT
    assert (2, "report") in known.jobs
