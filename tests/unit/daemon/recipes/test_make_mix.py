"""A mix from its parts to its files: rows, funnel, card, and parts that are gone or damaged."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from training_rows import lineage

from rwkv_daemon.recipes.make_mix import make_mix
from rwkv_daemon.recipes.recipe_folder import MadeRows, RecipeFolder
from rwkv_daemon.recipes.row_order import RowOrder
from rwkv_data.definition.errors import NotCheckedError, PrepareError, RowSetMissingError
from rwkv_data.prepare.prepare import prepare_own
from rwkv_data.recipes.files.file_card import FileCard, RowSource
from rwkv_data.recipes.files.training_row import TrainingRow, Turn
from rwkv_data.recipes.foreign import row_sets
from rwkv_data.recipes.foreign.row_sets import RowSet
from rwkv_data.recipes.indexed_lines import LineWriter
from rwkv_data.recipes.mixing.mix import Mix, MixPart
from rwkv_data.recipes.mixing.mixed_rows import REPEATED
from rwkvctl import __version__

QUESTIONS = (
    "How many legs do seven spiders and three ants have together?",
    "Name the capital of the country that borders both Nepal and Bhutan.",
    "Write a short poem about a lighthouse keeper who is afraid of the dark.",
    "Which of these words rhymes best with orange: door hinge, lozenge, or syringe?",
    "Explain to a child why the sky turns red when the sun goes down.",
    "Translate into French: the cat sleeps on the warm windowsill every afternoon.",
)
SET = RowSource("numina_math", "Apache-2.0", "a" * 64, "https://example.org/numina")
CHAT, FIRST, SECOND = (MixPart("chat", is_recipe=False), MixPart("r1", is_recipe=True), MixPart("r2", is_recipe=True))


@pytest.fixture(autouse=True)
def folders_are_removed_by_whole_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library removes below an open folder is not known for our own (`no_io`)."""

    def removed(path: str | Path, *_: object, **__: object) -> None:
        for each in sorted(Path(path).rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        if Path(path).exists():
            Path(path).rmdir()

    monkeypatch.setattr(shutil, "rmtree", removed)


def said(question: str, answer: str, number: int = 1) -> TrainingRow:
    """A row of a recipe."""
    return TrainingRow(turns=(Turn("user", question), Turn("assistant", answer)), lineage=lineage(number))


def pair(question: str) -> TrainingRow:
    return TrainingRow(turns=(Turn("user", question),), chosen="good", rejected="bad", lineage=lineage())


def recipe(home: Path, name: str, rows: Sequence[TrainingRow], **card: Any) -> RecipeFolder:
    """A recipe that has made these rows."""
    folder = RecipeFolder(home / "recipes" / name)
    folder.begin()
    with LineWriter(folder.new, "rows") as lines:
        for row in rows:
            lines.add(msgspec.json.encode(row) + b"\n")
    made = msgspec.to_builtins(FileCard(**({"title": f"{name}.toml", "sources": (SET,)} | card)))
    folder.finish(MadeRows(rows=len(rows), funnel=(), card=made))
    return folder


def keep(home: Path, said_by_others: Sequence[tuple[str, str]], name: str = "chat", *, replace: bool = False) -> RowSet:
    """Rows of others, kept under a name."""
    path = home / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"prompt": asked, "completion": got}) + "\n" for asked, got in said_by_others))
    return row_sets.keep(name, path, home / "data", licence="MIT", replace=replace, report=lambda _: None)


def order(home: Path, number: int = 9, name: str = "mix.toml") -> RowOrder:
    (home / "benchmarks").mkdir(exist_ok=True)
    return RowOrder(
        toml="", name=name, sources=(), folder=str(home / "recipes" / f"r{number}"), runs_dir=str(home / "runs"),
        data_dir=str(home / "data"), benchmarks_dir=str(home / "benchmarks"), cache_dir=str(home / "cache"), store="",
        store_name="",
    )  # fmt: skip


def make(
    home: Path, *parts: MixPart, seed: int = 0, number: int = 9, say: Callable[[str], None] = lambda _: None,
    require_checked: bool = False,
) -> RecipeFolder:  # fmt: skip
    """Make a mix as the process of a recipe does."""
    folder = RecipeFolder(home / "recipes" / f"r{number}")
    folder.begin()
    folder.finish(make_mix(order(home, number), Mix(parts, seed, require_checked), folder, say))
    return folder


def result(folder: RecipeFolder) -> MadeRows:
    found = folder.result()
    assert found is not None
    return found


def card(folder: RecipeFolder) -> FileCard:
    return msgspec.convert(result(folder).card, FileCard)


def rows(folder: RecipeFolder) -> list[TrainingRow]:
    with folder.lines("rows") as lines:
        every = list(lines.every())
        assert [lines.line(number) for number in range(len(lines))] == every
    return [msgspec.json.decode(line, type=TrainingRow) for line in every]


def dropped(folder: RecipeFolder) -> list[dict[str, Any]]:
    with folder.lines("dropped") as lines:
        return [json.loads(line) for line in lines.every()]


def answers(folder: RecipeFolder) -> list[str]:
    return sorted(row.turns[-1].text for row in rows(folder))


def content(folder: RecipeFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.made.iterdir()}


def two_parts(home: Path) -> RowSet:
    """Three rows of r1, of two problems, and three of chat, one of which r1 has, too."""
    asked = QUESTIONS
    recipe(home, "r1", [said(asked[0], "A0"), said(asked[0], "A1"), said(asked[1], "A2", 2)])
    return keep(home, [(asked[2], "B0"), (asked[1], "A2"), (asked[3], "B2")])


def test_the_rows_of_all_parts_are_there_as_they_were(tmp_path: Path) -> None:
    two_parts(tmp_path)
    folder = make(tmp_path, FIRST, CHAT)
    assert answers(folder) == ["A0", "A1", "A2", "B0", "B2"]
    assert {row.lineage.row_id for row in rows(folder)} == {"gsm8k_train/1", "gsm8k_train/2", "chat/0", "chat/2"}
    assert dropped(folder) == []
    found = result(folder)
    assert found.rows == 5
    clean, mix = found.funnel
    assert (clean.rows_in, clean.rows_out, clean.dropped) == (6, 5, {REPEATED: 1})
    assert (mix.rows_in, mix.rows_out, mix.dropped) == (5, 5, {})
    assert content(folder).keys() == {"rows.jsonl", "rows.index", "dropped.jsonl", "dropped.index", "result.json"}


def test_the_same_parts_are_the_same_bytes_and_another_seed_is_another_order(tmp_path: Path) -> None:
    two_parts(tmp_path)
    first, second = make(tmp_path, FIRST, CHAT, seed=1), make(tmp_path, FIRST, CHAT, seed=1, number=10)
    assert content(first) == content(second)
    orders = [rows(make(tmp_path, FIRST, CHAT, seed=seed, number=11)) for seed in range(2, 6)]
    assert any(one != rows(first) for one in orders)
    assert all(sorted(row.turns[-1].text for row in one) == answers(first) for one in orders)


def test_the_order_of_the_parts_does_not_change_the_rows(tmp_path: Path) -> None:
    recipe(tmp_path, "r1", [said(QUESTIONS[0], "A0"), said(QUESTIONS[1], "A1", 2)])
    keep(tmp_path, [(QUESTIONS[2], "B0"), (QUESTIONS[3], "B1")])
    one, other = make(tmp_path, FIRST, CHAT, seed=3), make(tmp_path, CHAT, FIRST, seed=3, number=10)
    assert rows(one) == rows(other)


def test_the_card_says_where_the_rows_come_from_and_how_they_were_mixed(tmp_path: Path) -> None:
    kept = two_parts(tmp_path)
    recipe(
        tmp_path, "r1", [said(QUESTIONS[number // 2], f"A{number}", number // 2) for number in range(4)],
        sampling={"j81 qwq": {"temperature": "0.6"}}, costs={"tokens of j81": "7"},
        seeds={"sampling of j81": 5, "selection": 6}, versions={"rwkvctl": "0.1", "grader of j81": "math 3"},
    )  # fmt: skip
    recipe(tmp_path, "r2", [said(QUESTIONS[5], "A", 5)], seeds={"sampling of j81": 5, "selection": 8})
    parts = (
        MixPart("r1", is_recipe=True, weight=2),
        MixPart("chat", is_recipe=False, limit=1),
        MixPart("r2", is_recipe=True, weight=1),
    )
    folder = make(tmp_path, *parts, seed=7)
    found = card(folder)
    assert found.title == "mix.toml"
    assert list(found.sources) == [SET, RowSource("chat", "MIT", kept.source_sha256, str(tmp_path / "chat.jsonl"))]
    assert found.sampling == {
        "part r1 (r1.toml)": {"rows": "4", "taken": "2", "weight": "2"},
        "part chat (chat)": {"rows": "3", "taken": "1", "limit": "1"},
        "part r2 (r2.toml)": {"rows": "1", "taken": "1", "weight": "1"},
        "j81 qwq": {"temperature": "0.6"},
    }
    assert found.seeds == {"mix": 7, "sampling of j81": 5, "selection of r1": 6, "selection of r2": 8}
    assert found.versions["grader of j81"] == "math 3"
    assert found.costs == {"tokens of j81": "7"}
    assert list(found.funnel) == list(result(folder).funnel)
    assert found.funnel[1].dropped == {"more of r1": 2, "more of chat": 1}
    assert any(why.startswith("not compared") for why in found.cleaning.values())


def test_the_card_says_which_version_mixed_and_where_those_of_the_parts_differ(tmp_path: Path) -> None:
    recipe(tmp_path, "r1", [said(QUESTIONS[0], "A")], versions={"rwkvctl": "0.1", "grader of j81": "math 3"})
    recipe(tmp_path, "r2", [said(QUESTIONS[1], "A", 2)], versions={"rwkvctl": "0.2", "grader of j81": "math 4"})
    assert card(make(tmp_path, FIRST, SECOND)).versions == {
        "rwkvctl": __version__, "rwkvctl for r1": "0.1", "rwkvctl for r2": "0.2", "grader of j81": "math 3",
        "grader of j81 for r2": "math 4",
    }  # fmt: skip


def test_a_row_that_a_benchmark_has_is_dropped_and_named(tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    path.write_text(json.dumps({"question": QUESTIONS[2], "answer": "8"}) + "\n")
    prepare_own("quiz", path, tmp_path / "data")
    two_parts(tmp_path)
    folder = make(tmp_path, FIRST, CHAT)
    assert answers(folder) == ["A0", "A1", "A2", "B2"]
    (entry,) = dropped(folder)
    assert (entry["row_id"], entry["reason"], entry["rule"], entry["benchmark"]) == (
        "chat/0", "benchmark", "equal", "own_quiz",
    )  # fmt: skip
    assert result(folder).funnel[0].dropped == {REPEATED: 1, "near own_quiz": 1}
    assert card(folder).cleaning["own_quiz"] == "all of its rows"


@pytest.mark.parametrize("parts", [(FIRST, CHAT), (CHAT, FIRST)])
def test_a_row_is_dropped_if_one_that_says_the_same_is_of_a_problem_near_a_benchmark(
    tmp_path: Path, parts: tuple[MixPart, MixPart]
) -> None:
    short = "How many legs do seven spiders have?"
    path = tmp_path / "quiz.jsonl"
    path.write_text(json.dumps({"question": short, "answer": "56"}) + "\n")
    prepare_own("quiz", path, tmp_path / "data")
    asked = f"Read this and think. {short} Put the number into a box at the end."
    recipe(tmp_path, "r1", [msgspec.structs.replace(said(asked, "56"), problem=(short,))])
    keep(tmp_path, [(asked, "56"), (QUESTIONS[1], "China")])
    folder = make(tmp_path, *parts)
    assert answers(folder) == ["China"]
    assert result(folder).funnel[0].dropped == {REPEATED: 1, "near own_quiz": 1}


def test_all_samples_of_a_problem_are_dropped_with_it_and_named_once(tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    path.write_text(json.dumps({"question": QUESTIONS[0], "answer": "74"}) + "\n")
    prepare_own("quiz", path, tmp_path / "data")
    two_parts(tmp_path)
    folder = make(tmp_path, FIRST, CHAT)
    assert answers(folder) == ["A2", "B0", "B2"]
    assert [entry["row_id"] for entry in dropped(folder)] == ["gsm8k_train/1"]
    assert result(folder).funnel[0].dropped == {"near own_quiz": 2, REPEATED: 1}


def test_a_problem_of_two_parts_stays_once_with_the_samples_of_the_first(tmp_path: Path) -> None:
    recipe(tmp_path, "r1", [said(QUESTIONS[0], "A0"), said(QUESTIONS[0], "A1")])
    keep(tmp_path, [(QUESTIONS[0], "B0"), (QUESTIONS[4], "B1")])
    folder = make(tmp_path, FIRST, CHAT)
    assert answers(folder) == ["A0", "A1", "B1"]
    (entry,) = dropped(folder)
    assert (entry["row_id"], entry["repeats"], entry["reason"]) == ("chat/0", "gsm8k_train/1", "duplicate")


def test_pairs_are_mixed_with_pairs_alone(tmp_path: Path) -> None:
    recipe(tmp_path, "r1", [pair(QUESTIONS[0])])
    recipe(tmp_path, "r2", [msgspec.structs.replace(pair(QUESTIONS[1]), lineage=lineage(2))])
    keep(tmp_path, [(QUESTIONS[2], "B0")])
    assert {row.chosen for row in rows(make(tmp_path, FIRST, SECOND))} == {"good"}
    with pytest.raises(PrepareError, match="r1 and chat cannot be mixed"):
        make(tmp_path, FIRST, CHAT)


def test_a_part_without_rows_gives_none(tmp_path: Path) -> None:
    recipe(tmp_path, "r1", [])
    recipe(tmp_path, "r2", [said(QUESTIONS[0], "A0")])
    assert answers(make(tmp_path, FIRST, SECOND)) == ["A0"]
    assert rows(make(tmp_path, FIRST)) == []


def test_a_part_that_is_gone_is_refused(tmp_path: Path) -> None:
    two_parts(tmp_path)
    with pytest.raises(PrepareError, match="r2 has no rows that can be read: it was deleted"):
        make(tmp_path, FIRST, CHAT, SECOND)
    with pytest.raises(RowSetMissingError, match="there are no rows more: `rwkvctl data rows"):
        make(tmp_path, FIRST, MixPart("more", is_recipe=False))


def test_rows_that_were_changed_after_they_were_kept_are_refused(tmp_path: Path) -> None:
    two_parts(tmp_path)
    path = row_sets.folder_of(tmp_path / "data", "chat") / "rows.jsonl"
    kept = path.read_bytes()
    last = kept.splitlines(keepends=True)[-1]
    path.write_bytes(kept.replace(b'"B0"', b'"C0"'))
    with pytest.raises(PrepareError, match="the rows chat are not what their manifest says"):
        make(tmp_path, FIRST, CHAT)
    for changed in (kept.replace(b'"B0"', b'"longer"'), kept + last, kept.removesuffix(last), kept[:-9], b""):
        path.write_bytes(changed)
        with pytest.raises(PrepareError, match="damaged"):
            make(tmp_path, FIRST, CHAT)


def test_a_damaged_row_of_a_recipe_is_refused(tmp_path: Path) -> None:
    folder = recipe(tmp_path, "r1", [said(QUESTIONS[0], "A0")])
    lines = folder.made / "rows.jsonl"
    lines.write_bytes(b" " * (lines.stat().st_size - 1) + b"\n")
    with pytest.raises(PrepareError, match=r"a row of r1 cannot be read: .* run it again"):
        make(tmp_path, FIRST)


CHANGED: dict[str, Callable[[bytes], bytes]] = {
    "begins later": lambda index: index[8:],
    "ends earlier": lambda index: index[:-8],
    "an end": lambda index: index[:8] + b"\1" + index[9:],
    "empty": lambda _: b"",
    "a part of a number": lambda index: index[:-3],
    "not from the first byte on": lambda index: b"\1" + index[1:],
}


@pytest.mark.parametrize("case", CHANGED)
def test_rows_whose_index_was_changed_are_refused(tmp_path: Path, case: str) -> None:
    change_index(tmp_path, CHANGED[case])
    with pytest.raises((PrepareError, OSError), match=r"its lines are not where its index has them|index is damaged"):
        make(tmp_path, CHAT)


def change_index(home: Path, change: Callable[[bytes], bytes]) -> None:
    keep(home, [(question, "A") for question in QUESTIONS])
    path = row_sets.folder_of(home / "data", "chat") / "rows.index"
    path.write_bytes(change(path.read_bytes()))


def test_a_recipe_with_a_card_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = RecipeFolder(tmp_path / "recipes" / "r1")
    folder.begin()
    with LineWriter(folder.new, "rows"):
        pass
    folder.finish(MadeRows(rows=0, funnel=(), card={"name": "r1"}))
    with pytest.raises(PrepareError):
        make(tmp_path, FIRST)


def test_rows_that_are_replaced_meanwhile_are_those_that_were_opened(tmp_path: Path) -> None:
    keep(tmp_path, [(QUESTIONS[0], "old"), (QUESTIONS[1], "old")])
    told = list[str]()

    def replaced(text: str) -> None:
        told.append(text)
        keep(tmp_path, [(QUESTIONS[2], "new")], replace=True)

    assert answers(make(tmp_path, CHAT, say=replaced)) == ["old", "old"]
    assert told == ["writes 0 of 2 rows"]


def test_a_mix_that_requires_all_benchmarks_is_refused_while_one_is_not_prepared(tmp_path: Path) -> None:
    two_parts(tmp_path)
    with pytest.raises(NotCheckedError, match="benchmarks cannot be checked"):
        make(tmp_path, FIRST, CHAT, require_checked=True)


def test_nothing_but_what_is_being_made_is_left_after_an_error(tmp_path: Path) -> None:
    two_parts(tmp_path)
    with pytest.raises(PrepareError):
        make(tmp_path, FIRST, SECOND)
    assert RecipeFolder(tmp_path / "recipes" / "r9").result() is None
    assert list((tmp_path / "recipes" / "r9").rglob("*")) == [tmp_path / "recipes" / "r9" / "new"]


def test_a_mix_without_a_name_has_a_title(tmp_path: Path) -> None:
    two_parts(tmp_path)
    folder = RecipeFolder(tmp_path / "recipes" / "r9")
    folder.begin()
    made = make_mix(order(tmp_path, name=""), Mix((CHAT,), 0, require_checked=False), folder, lambda _: None)
    assert made.card["title"] == "training rows"
