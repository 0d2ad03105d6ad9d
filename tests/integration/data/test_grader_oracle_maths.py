"""The harness's maths graders, sample by sample: lm_eval's own process_results against ours on given completions."""

import importlib.metadata
import json
import random

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.maths import hendrycks, lm_eval_math, minerva_rules
from rwkv_data.graders.maths.maths_worker import MathsWorker

SHAPES = {
    "sentence": " {solution}\nFinal Answer: The final answer is ${answer}$. I hope it is correct.",
    "boxed": " The answer is \\boxed{{{answer}}}.",
    "dollars": " ${answer}$",
}


@pytest.fixture(scope="module")
def rows(real_rows):
    return [json.loads(line) for line in (real_rows / "math_500" / "test.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def lm_eval_utils():
    """lm_eval's modules of the three tasks. They ask for antlr 4.11, whose grammars later runtimes read as well."""
    pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
    real = importlib.metadata.version
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "4.11.0" if name.startswith("antlr4") else real(name))
        from lm_eval.tasks.aime import utils as aime
        from lm_eval.tasks.hendrycks_math import utils as hendrycks_math
        from lm_eval.tasks.minerva_math import utils as minerva_math
        from sympy.parsing.latex import _parse_latex_antlr

        patch.setattr(_parse_latex_antlr, "version", lambda _: "4.11.0")
        yield minerva_math, hendrycks_math, aime


def _completions(row, other: str) -> list[str]:
    """The three shapes, a wrong answer in the right sentence, an unfinished solution, a corrupted answer."""
    shaped = [shape.format(**row) for shape in SHAPES.values()]
    return [
        *shaped,
        SHAPES["sentence"].format(solution="", answer=other),
        row["solution"][: len(row["solution"]) // 2],
        f"Final Answer: The final answer is {row['answer'].replace('2', '3')}. I hope it is correct.",
        f"\\boxed{{{other}}} or ${row['answer']}$",
        "Final Answer: The final answer is . I hope it is correct.",
    ]


@pytest.mark.slow("oracles")
def test_every_column_is_lm_evals(rows, lm_eval_utils) -> None:
    minerva_math, hendrycks_math, aime = lm_eval_utils
    others = random.Random(0).choices([row["answer"] for row in rows], k=len(rows))
    with MathsWorker() as process:
        for row, other in list(zip(rows, others, strict=True))[::20]:
            gold = minerva_math.remove_boxed(minerva_math.last_boxed_only_string(row["solution"]))
            doc = {"solution": row["solution"], "answer": minerva_math.normalize_final_answer(gold)}
            for text in _completions(row, other):
                theirs = minerva_math.process_results(doc, [text])
                ours = lm_eval_math.grade_minerva(process, row, Answer(text))
                assert (ours.value, ours.parts["math_verify"]) == (theirs["exact_match"], theirs["math_verify"]), text
                flat = hendrycks_math.process_results(doc, [text])["exact_match"]
                assert lm_eval_math.grade_hendrycks(row, Answer(text)).value == flat, text
                short = aime.process_results({"Answer": row["answer"]}, [text])["exact_match"]
                assert lm_eval_math.grade_aime(row, Answer(text)).value == short, text


@pytest.mark.slow("oracles")
def test_normal_forms_are_lm_evals(real_rows, lm_eval_utils) -> None:
    minerva_math, hendrycks_math, _ = lm_eval_utils
    for line in (real_rows / "math" / "test.jsonl").read_text().splitlines():
        solution = json.loads(line)["solution"]
        gold = hendrycks.last_boxed(solution)
        assert gold == minerva_math.remove_boxed(minerva_math.last_boxed_only_string(solution))
        assert minerva_rules.normal(gold) == minerva_math.normalize_final_answer(gold)
        assert hendrycks.same(gold, f"${gold}") == hendrycks_math.is_equiv(gold, f"${gold}")
        assert minerva_rules.extracted_answer(solution) == minerva_math.get_unnormalized_answer(solution)


@pytest.mark.slow("golds")
@pytest.mark.parametrize(
    ("shape", "exact", "flat"), [("sentence", 1.0, 0.024), ("boxed", 0.0, 0.0), ("dollars", 0.0, 1.0)]
)
def test_the_same_right_answers_in_three_shapes(rows, shape: str, exact: float, flat: float) -> None:
    """Three graders, three shapes of 500 right completions: which sentence it is decides, not the answer."""
    texts = [(row, Answer(SHAPES[shape].format(**row))) for row in rows]
    assert sum(lm_eval_math.grade_hendrycks(row, answer).value for row, answer in texts) / 500 == flat
    with lm_eval_math.MINERVA.open() as grade:
        grades = [grade(row, answer) for row, answer in texts[::10]]
    assert {g.value for g in grades} == {exact}
    assert {g.parts["math_verify"] for g in grades} == {1.0}


@pytest.mark.slow("golds")
def test_the_ceilings_of_the_graders(real_rows) -> None:
    """Gold answers graded against themselves: 5,000 rows; what each grader refuses is known."""
    rows = [json.loads(line) for line in (real_rows / "math" / "test.jsonl").read_text().splitlines()]
    golds = [hendrycks.last_boxed(row["solution"]) for row in rows]
    bare = sum(lm_eval_math.grade_hendrycks({"answer": gold}, Answer(f" {gold}")).value for gold in golds)
    dollars = sum(lm_eval_math.grade_hendrycks({"answer": gold}, Answer(f" ${gold}$")).value for gold in golds)
    whole = sum(lm_eval_math.grade_hendrycks(row | {"answer": ""}, Answer(f" {row['solution']}")).value for row in rows)
    assert (bare, dollars, whole) == (4985, 5000, 0)
    with lm_eval_math.MINERVA.open() as grade:
        refused = [row["idx"] for row, gold in zip(rows, golds, strict=True) if not _accepts_itself(grade, row, gold)]
    assert refused == [4134]


def _accepts_itself(grade, row, gold: str) -> bool:
    text = f"Final Answer: The final answer is ${gold}$. I hope it is correct."
    same = minerva_rules.normal(minerva_rules.extracted_answer(text)) == minerva_rules.normal(gold)
    return same or grade(row, Answer(text)).value == 1.0
