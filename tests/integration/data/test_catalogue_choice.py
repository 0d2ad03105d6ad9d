"""The real rows of the multiple-choice sets, of BIG-Bench Hard, and of texts that are scored: prepared from files,
asked, and graded by their own right answers."""

import json
import zipfile
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.row_shapes import choice_bbh, choice_chinese, choice_mmlu


class Prepared(NamedTuple):
    """A benchmark with its prepared rows and examples."""

    benchmark: Benchmark
    rows: list[Row]
    pool: list[Row]


@pytest.fixture(scope="module")
def prepared(real_rows, tmp_path_factory):
    """Prepare a set once, from its folder among the real rows or one of its files."""
    home, done = tmp_path_factory.mktemp("data"), {}

    def prepare_once(name: str, file: str = "") -> Prepared:
        if (name, file) not in done:
            data_dir = home / f"{name}-{file}"
            manifest = prepare(name, data_dir, real_rows / name / file)
            benchmark = registry.load(name)
            pool = prepared_sets.load_pool(data_dir, benchmark) if manifest.pool_rows else []
            done[name, file] = Prepared(benchmark, prepared_sets.load_rows(data_dir, benchmark), pool)
        return done[name, file]

    return prepare_once


SETS = [
    ("mmlu", "", 14042, 285),
    ("mmlu_stem", "", 3018, 0),
    ("cmmlu", "", 11582, 335),
    ("ceval", "", 1346, 260),
    ("arc_challenge", "", 1172, 1119),
    ("arc_challenge", "ARC-Challenge-Test.jsonl", 1150, 1119),
    ("arc_easy", "", 2376, 2251),
    ("hellaswag", "", 500, 0),
    ("bbh", "", 6511, 81),
]


@pytest.mark.parametrize(("name", "file", "rows", "pool"), SETS)
def test_all_rows_and_examples_are_there(prepared, name: str, file: str, rows: int, pool: int) -> None:
    found = prepared(name, file)
    assert (len(found.rows), len(found.pool)) == (rows, pool)


@pytest.mark.parametrize(("name", "file", "_rows", "_pool"), SETS)
def test_every_row_has_prompts_and_its_own_answer_is_right(
    prepared, name: str, file: str, _rows: int, _pool: int
) -> None:
    found = prepared(name, file)
    for kind in found.benchmark.kinds.values():
        asked = kind.asked(found.rows, found.pool)[:: 1 if len(found.rows) < 2000 else 37]
        with kind.grading() as grade:
            for row in asked:
                assert all(kind.prompt(number, row) for number in range(len(kind.stages)))
                assert grade(row, right_answer(row)).value == 1.0
                assert grade(row, wrong_answer(row)).value == 0.0


def right_answer(row: Row) -> Answer:
    """Return the row's right answer for every kind: as text, and as log-likelihoods."""
    if "choices" not in row:
        return Answer(f"So the answer is {row['answer']}.", ("stop_suffix",))
    return _chosen("ABCDEFGHIJ".index(row["answer"]), len(row["choices"]))


def wrong_answer(row: Row) -> Answer:
    if "choices" not in row:
        return Answer("So the answer is nothing of the kind.", ("stop_suffix",))
    return _chosen(("ABCDEFGHIJ".index(row["answer"]) + 1) % len(row["choices"]), len(row["choices"]))


def _chosen(place: int, count: int) -> Answer:
    scores = tuple(-1.0 if other == place else -2.0 for other in range(count))
    return Answer(f"Answer: {'ABCDEFGHIJ'[place]}", ("stop_token",), logprobs=scores)


def test_subjects(prepared) -> None:
    assert {row["subject"] for row in prepared("mmlu").rows} == set(choice_mmlu.SUBJECTS)
    assert {row["subject"] for row in prepared("cmmlu").rows} == set(choice_chinese.CMMLU)
    assert {row["subject"] for row in prepared("ceval").rows} == set(choice_chinese.CEVAL)
    assert {row["task"] for row in prepared("bbh").rows} == set(choice_bbh.SHA256)
    for name in ("mmlu", "cmmlu", "ceval"):
        assert set(Counter(row["subject"] for row in prepared(name).pool).values()) == {5}


def test_words_that_look_like_nothing_stay_words(prepared) -> None:
    for name, least in (("mmlu", 10), ("mmlu_stem", 1)):
        choices = [choice for row in prepared(name).rows for choice in row["choices"]]
        assert sum(choice in {"None", "N/A", "nan", "NaN", "null"} for choice in choices) >= least
        assert not any(choice == "" for choice in choices)


def test_mmlu_stem_is_a_part_of_mmlu(prepared) -> None:
    whole = {(row["question"].strip(), row["subject"], row["answer"]) for row in prepared("mmlu").rows}
    part = [(row["question"].strip(), row["subject"], row["answer"]) for row in prepared("mmlu_stem").rows]
    assert sum(row in whole for row in part) > 0.99 * len(part)


def test_worked_examples_of_bbh_are_right_by_our_rule(prepared) -> None:
    found = prepared("bbh")
    kind = found.benchmark.default_kind
    wrong = [row for row in found.pool if kind.grade(row, Answer(row["solution"], ("stop_suffix",))).value != 1.0]
    assert wrong == []
    assert sum(bool(row["description"]) for row in found.pool) == 27


def test_answers_of_bbh_are_told_apart(prepared) -> None:
    """Grade each row's answer by the next row of the task: it is right only where both answers are the same."""
    kind = prepared("bbh").benchmark.default_kind
    rows = prepared("bbh").rows
    for row, other in pairwise(rows):
        if row["task"] == other["task"]:
            grade = kind.grade(row, right_answer(other))
            assert (grade.value == 1.0) == (row["answer"] == other["answer"]), (row["answer"], grade)


def test_no_canary_is_asked(prepared) -> None:
    found = prepared("bbh")
    assert not any("canary" in json.dumps(row).casefold() for row in [*found.rows, *found.pool])


def test_hellaswag_has_no_marks_and_begins_with_its_activity(prepared) -> None:
    for row in prepared("hellaswag").rows:
        assert row["question"].startswith(f"{row['subject']}: ")
        assert not any("[" in text for text in (row["question"], *row["choices"]))


CEVAL_HEADER = "id,question,A,B,C,D,answer\n"
CMMLU_HEADER = ",Question,A,B,C,D,Answer\n"


def _zipped(path, members: dict[str, str]) -> None:
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_sets_whose_files_are_read_raw_come_from_the_hub(hub, data_command, tmp_path) -> None:
    """Archives and tables in the repositories, with "None" and "N/A" as words, and the examples from the dev split."""
    languages = hub.root / "datasets" / "openai" / "MMMLU" / "test"
    languages.mkdir(parents=True)
    for language in ("DE-DE", "ZH-CN"):
        line = "0,Frage?,None,N/A,2,3,B,anatomy\n"
        (languages / f"mmlu_{language}.csv").write_text(",Question,A,B,C,D,Answer,Subject\n" + line)
    _zipped(
        hub.root / "datasets" / "ceval" / "ceval-exam" / "ceval-exam.zip",
        {
            "val/law_val.csv": CEVAL_HEADER + "0,Q?,1,2,3,4,D\n",
            "test/law_test.csv": CEVAL_HEADER + "0,Secret?,1,2,3,4,\n",
            "dev/law_dev.csv": CEVAL_HEADER.replace("answer", "answer,explanation") + "0,E?,1,2,3,4,A,why\n",
        },
    )
    _zipped(
        hub.root / "datasets" / "haonan-li" / "cmmlu" / "cmmlu_v1_0_1.zip",
        {"test/arts.csv": CMMLU_HEADER + "0,Q?,1,2,3,4,C\n", "dev/arts.csv": CMMLU_HEADER + "0,E?,1,2,3,4,B\n"},
    )
    found = {}
    for name in ("mmmlu", "ceval", "cmmlu"):
        run = data_command("prepare", name)
        assert run.returncode == 0, run.stderr
        data_dir, benchmark = tmp_path / "home" / "data", registry.load(name)
        pool = prepared_sets.load_pool(data_dir, benchmark) if name != "mmmlu" else []
        found[name] = (prepared_sets.load_rows(data_dir, benchmark), pool)
    german, chinese = found["mmmlu"][0]
    assert (german["language"], german["choices"], german["answer"]) == ("DE_DE", ["None", "N/A", "2", "3"], "B")
    assert (chinese["language"], chinese["subject"]) == ("ZH_CN", "anatomy")
    for name, subject, answers in (("ceval", "law", "DA"), ("cmmlu", "arts", "CB")):
        [row], [example] = found[name]
        assert (row["subject"], example["subject"]) == (subject, subject)
        assert row["answer"] + example["answer"] == answers
