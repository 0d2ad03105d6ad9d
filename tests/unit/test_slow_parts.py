"""A slow part is left out only as long as nothing that it depends on has changed since it passed whole."""

from pathlib import Path

import pytest
import slow_parts
from slow_parts import Part


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one source, one test and no record."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text("1")
    (tmp_path / "test_a.py").write_text("1")
    monkeypatch.setattr(slow_parts, "ROOT", tmp_path)
    monkeypatch.setattr(slow_parts, "PASSED", tmp_path / "passed.json")
    return tmp_path


def part(tree: Path, **values: object) -> Part:
    made = Part("exact", ("engine/**/*.py",), {tree / "test_a.py"}, cases=2, passed=1, want_gpu=1)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_what_passed_is_known_until_a_file_changes(tree: Path) -> None:
    assert slow_parts.record([part(tree)]) == ["exact"]
    assert slow_parts.passed() == {"exact": part(tree).state}
    assert slow_parts.record([part(tree)]) == []
    for change in (tree / "engine" / "a.py", tree / "test_a.py", tree / "engine" / "new.py", tree / "constraints.txt"):
        before = part(tree).state
        change.write_text("2")
        assert part(tree).state != before, change
    before = part(tree).state
    (tree / "engine" / "__pycache__").mkdir()
    (tree / "engine" / "__pycache__" / "a.py").write_text("")
    (tree / "other.py").write_text("")
    assert part(tree).state == before


@pytest.mark.parametrize("values", [{"cases": 3}, {"passed": 0}, {"passed": 0, "want_gpu": 2}])
def test_a_part_that_did_not_pass_whole_is_not_recorded(tree: Path, values: dict[str, object]) -> None:
    assert slow_parts.record([part(tree, **values)]) == []
    assert slow_parts.passed() == {}


def test_every_part_names_files_that_are_there() -> None:
    for name, found in slow_parts.table().items():
        for pattern in found.files:
            assert any(slow_parts.ROOT.glob(pattern)), f"{name}: nothing matches {pattern}"
