"""The multiple-choice part of the catalogue on rows of the published schemas: what becomes of a raw row, what is left
out, what is refused."""

import json
import re

import pytest
from effort import bounded
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.benchmarks import held_out_text, mmlu_redux
from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.graders import choice
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.row_shapes import (
    choice_arc,
    choice_bbh,
    choice_chinese,
    choice_gpqa,
    choice_hellaswag,
    choice_rows,
)
from rwkv_data.profiles import multi_choice_lm_eval

FOUR = {"A": "1", "B": "2", "C": "None", "D": "N/A"}
WORDS = ["1", "2", "None", "N/A"]
REDUX = {"question": " Q? ", "choices": ["x ", "y", "z", "w"], "answer": 1, "source": None, "potential_reason": None}
SUPER = {
    "uuid": "u1",
    "question": "Which\n one?",
    "options": ["a  b", "c", "d", "e", "f"],
    "answer": "c",
    "answer_letter": "B",
    "discipline": "Science",
    "field": "Physics",
    "subfield": "Optics",
    "difficulty": "hard",
    "is_calculation": False,
}
PRO = {
    "question_id": 70,
    "question": "Q?",
    "options": ["a ", "b", "c"],
    "answer": "C",
    "answer_index": 2,
    "cot_content": "",
    "category": "business",
    "src": "ori",
}
GPQA = {
    "Record ID": "rec1",
    "Question": "Q?",
    "Correct Answer": "right\n",
    "Incorrect Answer 1": "w1",
    "Incorrect Answer 2": "w2",
    "Incorrect Answer 3": "w3",
    "Subdomain": "Genetics",
}

# name, raw row, question, choices, letter, fields beside
SCHEMAS = [
    (
        "mmlu",
        {"question": "Q?", "choices": WORDS, "answer": 2, "subject": "anatomy"},
        "Q?",
        WORDS,
        "C",
        {"subject": "anatomy"},
    ),
    ("mmlu", {"cells": ["Q?", *WORDS, "D"], "_file": "anatomy_dev"}, "Q?", WORDS, "D", {"subject": "anatomy"}),
    (
        "mmlu_stem",
        {"question": "Q?", "type": "anatomy", "choices": WORDS, "answer": 0},
        "Q?",
        WORDS,
        "A",
        {"subject": "anatomy"},
    ),
    ("mmlu_pro", PRO, "Q?", ["a", "b", "c"], "C", {"subject": "business", "source": "ori"}),
    (
        "mmlu_redux",
        {**REDUX, "error_type": "ok", "correct_answer": None, "_config": "virology"},
        "Q?",
        ["x", "y", "z", "w"],
        "B",
        {"subject": "virology", "error_type": "ok"},
    ),
    (
        "mmlu_redux",
        {**REDUX, "error_type": "wrong_groundtruth", "correct_answer": "D", "_config": "virology"},
        "Q?",
        ["x", "y", "z", "w"],
        "D",
        {"error_type": "wrong_groundtruth"},
    ),
    (
        "mmmlu",
        {"": "0", "Question": "Q?", **FOUR, "Answer": "C", "Subject": "anatomy", "_file": "mmlu_ZH-CN"},
        "Q?",
        WORDS,
        "C",
        {"subject": "anatomy", "language": "ZH_CN"},
    ),
    (
        "cmmlu",
        {"": "0", "Question": " Q? ", **FOUR, "Answer": "B", "_file": "arts"},
        " Q? ",
        WORDS,
        "B",
        {"subject": "arts"},
    ),
    (
        "ceval",
        {"id": "0", "question": "Q?", **FOUR, "answer": "A", "_file": "law_val"},
        "Q?",
        WORDS,
        "A",
        {"subject": "law"},
    ),
]


@pytest.mark.parametrize(("name", "raw", "question", "choices", "answer", "more"), SCHEMAS)
def test_a_published_row_becomes_a_choice_row(name, raw, question, choices, answer, more) -> None:
    row = registry.load(name).convert(raw)
    assert (row["question"], row["choices"], row["answer"]) == (question, choices, answer)
    assert more.items() <= row.items()


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("ceval", {"question": "Q?", **FOUR, "answer": "", "_file": "law"}, "keeps its answers secret"),
        ("ceval", {"question": "Q?", **FOUR, "_file": "law"}, "keeps its answers secret"),
        ("cmmlu", {"Question": "Q?", "A": "1", "Answer": "A", "_file": "law"}, "'B' is missing, not text"),
        ("cmmlu", {"Question": "Q?", **FOUR, "Answer": "A"}, "names a subject"),
        ("mmlu", {"question": "Q?", "choices": WORDS, "answer": 4, "subject": "x"}, "number 4 of 4"),
        ("mmlu", {"question": "Q?", "choices": WORDS, "answer": -1, "subject": "x"}, "number -1 of 4"),
        ("mmlu", {"question": "Q?", "choices": ["a", None], "answer": 0, "subject": "x"}, "not a list of texts"),
        ("mmlu", {"question": "Q?", "choices": ["a", "b"], "answer": 0, "subject": "x"}, "2 entries, not 4"),
        ("mmlu", {"cells": ["Q?", "1"], "subject": "x"}, "2 cells"),
        ("mmlu_pro", {**PRO, "answer": "B"}, "'answer_index' 2"),
        ("mmmlu", {"Question": "Q?", **FOUR, "Answer": "C", "Subject": "x", "_file": "mmlu_XX"}, "'language' is 'XX'"),
        ("supergpqa", {**SUPER, "answer_letter": "F"}, "'answer_letter' is 'F' with 5 options"),
        ("gpqa_main", {"Question": "Q?", "Correct Answer": "x"}, "no known shape"),
        ("hellaswag", {"activity_label": "x", "ctx_a": "a", "endings": ["1", "2", "3", "4"], "label": ""}, "number -1"),
        ("lambada", {"text": "one"}, "after a blank"),
        ("lambada", {"text": "ends with one "}, "after a blank"),
        ("held_out_text", {"text": " \n"}, "'text' is empty"),
        ("bbh", {"input": "Q?", "target": "A", "_file": "unknown"}, "none of the 27 tasks"),
        (
            "arc_easy",
            {"id": "1", "question": "Q?", "choices": {"text": ["a"], "label": ["1"]}, "answerKey": "A"},
            "labels",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(name: str, raw, says: str) -> None:
    with pytest.raises(RowError, match=re.escape(says)):
        registry.load(name).convert(raw)


@pytest.mark.parametrize(
    ("error_type", "correct", "expected"),
    [
        ("wrong_groundtruth", "c", "C"),
        ("wrong_groundtruth", "3", "D"),
        ("wrong_groundtruth", "y", "B"),
        ("wrong_groundtruth", "z or w", None),
        ("wrong_groundtruth", "", None),
        ("wrong_groundtruth", None, None),
        ("no_correct_answer", "D", None),
        ("bad_question_clarity", None, None),
        ("multiple_correct_answers", None, None),
        ("expert", None, None),
    ],
)
def test_only_questions_of_redux_with_a_plain_answer_are_asked(error_type: str, correct, expected) -> None:
    raw = {**REDUX, "error_type": error_type, "correct_answer": correct, "_config": "virology"}
    row = registry.load("mmlu_redux").convert(raw)
    assert (row and row["answer"]) == expected


def test_a_correction_that_could_be_two_choices_is_none() -> None:
    assert mmlu_redux.corrected("1", ["1", "2", "3", "4"]) == ""
    assert mmlu_redux.corrected("1", ["0", "1", "2", "3"]) == "B"


class TestStoredOrder:
    def test_the_right_answer_keeps_its_letter(self) -> None:
        places = set()
        for number in range(40):
            row = choice_gpqa.from_source({**GPQA, "Record ID": f"rec{number}"})
            assert row["choices"]["ABCD".index(row["answer"])] == "right"
            assert sorted(row["choices"]) == ["right", "w1", "w2", "w3"]
            places.add(row["answer"])
        assert places == set("ABCD")

    def test_it_depends_on_the_row_alone(self) -> None:
        assert choice_gpqa.from_source(GPQA) == choice_gpqa.from_source({**GPQA, "Extra": "x"})
        supergpqa = registry.load("supergpqa")
        assert supergpqa.convert(SUPER) == supergpqa.convert(SUPER)

    def test_supergpqa_keeps_the_right_text(self) -> None:
        row = registry.load("supergpqa").convert(SUPER)
        assert row["choices"]["ABCDE".index(row["answer"])] == "c"
        assert sorted(row["choices"]) == ["a b", "c", "d", "e", "f"]
        assert (row["question"], row["subject"], row["difficulty"]) == ("Which one?", "Science", "hard")

    @pytest.mark.parametrize("selection", ["main", "extended", "diamond"])
    def test_gpqa_is_gated_and_says_that_its_rows_are_not_shown(self, selection: str) -> None:
        benchmark = registry.load(f"gpqa_{selection}")
        assert benchmark.source.gated
        assert "must not be shown" in benchmark.title
        assert (benchmark.source.config, benchmark.split) == (f"gpqa_{selection}", "train")


class TestArc:
    @pytest.mark.parametrize(
        "raw",
        [
            {
                "id": "1",
                "question": "Q?",
                "choices": {"text": ["a", "b", "c"], "label": ["1", "2", "3"]},
                "answerKey": "2",
            },
            {
                "id": "1",
                "question": {
                    "stem": "Q?",
                    "choices": [{"text": t, "label": n} for t, n in zip("abc", "ABC", strict=True)],
                },
                "answerKey": "B",
            },
        ],
    )
    def test_a_key_is_a_place_among_the_row_s_labels(self, raw) -> None:
        row = choice_arc.from_source(raw)
        assert (row["choices"], row["answer"], row["id"]) == (["a", "b", "c"], "B", "1")

    def test_adapters_hold_the_choices_as_running_text(self) -> None:
        asked = "Please choose the correct answer to the question: Q\n\nA?"
        text = f"{asked}\n\nAnswer1: an Answer Answer2: b\n\nAnswer format: x"
        row = choice_arc.from_source({"instruction": text, "answer": "answer2"})
        assert (row["question"], row["choices"], row["answer"]) == ("Q\n\nA?", ["an Answer", "b"], "B")


class TestHellaswag:
    def test_halves_are_joined_as_the_harness_does(self) -> None:
        raw = {
            "activity_label": "Mowing",
            "ctx_a": "A man mows.",
            "ctx_b": "the Man",
            "endings": ["a"] * 4,
            "label": "0",
        }
        assert choice_hellaswag.from_source(raw)["question"] == "Mowing: A man mows. The man"

    @pytest.mark.parametrize(
        ("context", "source", "halves"),
        [
            ("A man mows. the man", "activitynet~v_1", ("A man mows.", "the man")),
            ("A man mows. He. another one", "activitynet~v_1", ("A man mows. He.", "another one")),
            ("A man mows.", "activitynet~v_1", ("A man mows.", "")),
            ("[header] How to mow [title] Begin. now", "wikihow~1", ("[header] How to mow [title] Begin. now", "")),
        ],
    )
    def test_the_halves_of_a_joined_text(self, context: str, source: str, halves: tuple[str, str]) -> None:
        assert choice_hellaswag.halves({"context": context, "source_id": source}) == halves

    @given(st.text(alphabet="[]a \n.t", max_size=60))
    def test_marks_are_removed_as_by_the_harness_s_pattern(self, text: str) -> None:
        cleaned = re.sub("\\[.*?\\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")
        assert choice_hellaswag.cleaned(text) == cleaned

    def test_marks_that_never_close_cost_no_time(self) -> None:
        with bounded():
            choice_hellaswag.cleaned("[" * 400_000 + "\n]")


class TestGreaterThanD:
    def test_ten_letters(self) -> None:
        kind = registry.load("mmlu_pro").default_kind
        row = {"question": "Q", "choices": list("0123456789"), "answer": "J", "subject": "math"}
        assert kind.stages[0].choices(row)[-1] == " J"
        assert "\nJ. 9\n\nAssistant: The answer is" in kind.prompt(0, row)
        assert kind.chance(row) == pytest.approx(0.1)
        assert choice.grade(row, Answer(logprobs=(-3.0,) * 9 + (-2.0,))).value == 1.0


class TestChinese:
    def test_every_subject_has_a_name(self) -> None:
        assert (len(choice_chinese.CMMLU), len(choice_chinese.CEVAL)) == (67, 52)
        assert choice_chinese.cmmlu_description("agronomy") == "以下是关于农学的单项选择题，请直接给出正确答案的选项。"
        assert choice_chinese.ceval_description("law") == "以下是中国关于法学的单项选择题，请选出其中的正确答案。"


def test_gpqa_prompt_of_the_harness() -> None:
    row = {"question": "What is it?", "choices": ["a  b", "c", "d", "e"], "answer": "A", "subject": "x"}
    [stage] = multi_choice_lm_eval.gpqa().stages
    assert stage.prompt(row) == (
        "What is the correct answer to this question:What is it?\nChoices:\n(A) a b\n(B) c\n(C) d\n(D) e\nAnswer:"
    )
    assert stage.choices(row) == (" (A)", " (B)", " (C)", " (D)")


OPTIONS = "Which?\nOptions:\n(A) a red cat\n(B) the dog\n(C) a red cat\n(D) 4"


class TestBigBenchHard:
    @pytest.mark.parametrize(
        ("text", "target", "question", "right"),
        [
            ("So the answer is (B).", "(B)", OPTIONS, True),
            ("So the answer is B.", "(B)", OPTIONS, True),
            ("So the answer is **(B)**.", "(B)", OPTIONS, True),
            ("So the answer is (B) the dog.", "(B)", OPTIONS, True),
            ("So the answer is the dog.", "(B)", OPTIONS, True),
            ("So the answer is a red cat.", "(A)", OPTIONS, False),
            ("So the answer is (A).", "(B)", OPTIONS, False),
            ("So the answer is a dog.", "(A)", OPTIONS, False),
            ("\\boxed{B}", "(B)", OPTIONS, True),
            ("(B)", "(B)", OPTIONS, True),
            ("At first the answer is (A). But no: the answer is (B).", "(B)", OPTIONS, True),
            ("<think>the answer is (A)</think>The answer is (B)", "(B)", OPTIONS, True),
            ("The answer is true", "True", "Q", True),
            ("Yes", "Yes", "Q", True),
            ("So the answer is not valid.", "valid", "Q", False),
            ("So the answer is (A) or (B).", "(A)", OPTIONS, False),
            ("So the answer is (A) and (B).", "(A)", OPTIONS, False),
            ("So the answer is (A), (B).", "(A)", OPTIONS, False),
            ("So the answer is either (A) or (B).", "(A)", OPTIONS, False),
            ("So the answer is not (B).", "(B)", OPTIONS, False),
            ("So the answer is (B), not (A).", "(B)", OPTIONS, False),
            ("So the answer is (B) or maybe another.", "(B)", OPTIONS, False),
            ("So the answer is yes or no.", "yes", "Q", False),
            ("So the answer is 7 or 8.", "7", "Q", False),
            ("It is 7 or 8 things.", "8", "Q", False),
            ("So the answer is ] } ].", "] } ]", "Q", True),
            ("So the answer is ]}].", "] } ]", "Q", True),
            ("So the answer is ] ] }.", "] } ]", "Q", False),
            ("So the answer is apple, fig, pear.", "apple fig pear", "Q", True),
            ("So the answer is apple pear fig.", "apple fig pear", "Q", False),
            ("We have 3 + 4 = 7 things", "7", "Q", True),
            ("So the answer is -1,234.", "-1234", "Q", True),
            ("So the answer is 12.", "-12", "Q", False),
            ("There are 5 cats.\nAnd no more is said.", "yes", "Q", False),
            ("", "yes", "Q", False),
        ],
    )
    def test_what_counts_as_the_answer(self, text: str, target: str, question: str, right: bool) -> None:
        row = {"question": question, "answer": target, "task": "hyperbaton"}
        assert choice_bbh.grade(row, Answer(text)).value == float(right)

    def test_nothing_announced_is_no_answer(self) -> None:
        row = {"question": "Q", "answer": "yes", "task": "navigate"}
        grade = choice_bbh.grade(row, Answer("I wonder.\n\nPerhaps 4."))
        assert (grade.value, grade.reason, grade.extracted) == (0.0, "no_answer", None)

    @given(st.text(max_size=300))
    def test_no_text_breaks_it(self, text: str) -> None:
        for target in ("(A)", "yes", "-12", "] }", "apple fig"):
            row = {"question": OPTIONS, "answer": target, "task": "navigate"}
            assert choice_bbh.grade(row, Answer(text)).value in {0.0, 1.0}

    @pytest.mark.parametrize("text", ["the answer is " * 20_000, "(" * 100_000, "1" * 100_000, "\\boxed{" * 10_000])
    def test_hostile_text_costs_little_time(self, text: str) -> None:
        with bounded():
            choice_bbh.grade({"question": OPTIONS, "answer": "12", "task": "navigate"}, Answer(text))

    def test_a_file_of_worked_examples_becomes_rows(self) -> None:
        step = "A: Let's think step by step."
        first = f"Q: one\n\nOptions:\n{step}\nFirst.\n\nSo the answer is (A)."
        text = f"canary\n-----\nDo it.\n\n{first}\n\nQ: two\n{step} So the answer is no.\n"
        rows = [choice_bbh.from_source(raw) for raw in choice_bbh.examples([{"text": text, "_file": "snarks"}])]
        assert [row["description"] for row in rows] == ["Do it.", ""]
        assert [row["question"] for row in rows] == ["one\n\nOptions:", "two"]
        assert [row["answer"] for row in rows] == ["(A)", "no"]
        assert rows[1]["solution"] == "So the answer is no."

    @pytest.mark.parametrize("text", ["nothing", "canary\n-----\nDo it.", "canary\n-----\nDo it.\n\nQ: one\nA: no"])
    def test_another_file_is_refused(self, text: str) -> None:
        with pytest.raises(RowError):
            list(choice_bbh.examples([{"text": text, "_file": "snarks"}]))

    def test_the_examples_stand_before_the_question_with_the_description_first(self) -> None:
        pool = [
            {"question": str(n), "solution": f"S{n}", "task": "navigate", "description": "" if n else "D"}
            for n in range(3)
        ]
        kind = registry.load("bbh").default_kind
        [row] = kind.asked([{"question": "Go?", "answer": "Yes", "task": "navigate"}], pool)
        step = "A: Let's think step by step.\n"
        worked = "".join(f"Q: {n}\n{step}S{n}\n\n" for n in range(3))
        assert kind.prompt(0, row) == f"D\n\n{worked}Q: Go?\n{step}"


class TestHeldOutText:
    @given(st.text(alphabet="ab \n\r\u2028é", max_size=400))
    def test_pieces_are_the_text(self, text: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(held_out_text, "PIECE", 16)
            pieces = list(held_out_text.cut(text))
        assert all(len(piece.encode()) <= 16 for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(text.split())

    def test_a_short_text_stays_whole(self) -> None:
        text = "A line.\n\nAnother.\u2028 End"
        assert list(held_out_text.cut(text)) == [text]


def test_subject_of_a_file_of_either_split() -> None:
    assert choice_rows.subject_of({"_file": "college_law_dev"}) == "college_law"
    assert choice_rows.subject_of({"_file": "x", "_config": "virology"}) == "virology"
    with pytest.raises(RowError):
        choice_rows.subject_of({"question": "Q"})


def test_the_secret_answers_of_ceval_are_refused(tmp_path) -> None:
    benchmark = registry.load("ceval")
    raw = {"question": "Q", "A": "1", "B": "2", "C": "3", "D": "4", "_file": "law"}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(raw) + "\n")
    with pytest.raises(PrepareError, match="keeps its answers secret"):
        prepare("ceval", tmp_path / "data", path)
    assert prepared_sets.read_manifest(tmp_path / "data", benchmark) is None


def test_a_text_of_one_s_own(tmp_path) -> None:
    (tmp_path / "book.txt").write_text("A first line.\n\nA second one.\n" * 8000)
    manifest = prepare("held_out_text", tmp_path / "data", tmp_path / "book.txt")
    benchmark = registry.load("held_out_text")
    rows = prepared_sets.load_rows(tmp_path / "data", benchmark)
    assert "".join(row["text"] for row in rows) == (tmp_path / "book.txt").read_text()
    assert manifest.complete
    assert [len(row["text"]) <= 65536 for row in rows] == [True] * 4


def test_passages(tmp_path) -> None:
    path = tmp_path / "lambada_test.jsonl"
    path.write_text(json.dumps({"text": "He drank his tea"}) + "\n")
    prepare("lambada", tmp_path / "data", tmp_path)
    [row] = prepared_sets.load_rows(tmp_path / "data", registry.load("lambada"))
    assert row == {"question": "He drank his", "answer": "tea"}
