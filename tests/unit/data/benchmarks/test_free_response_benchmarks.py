"""The free-response part of the catalogue: prompts, sampling and counts by the tables; rows of published shapes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.benchmark import WebSource
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.grader import Grader
from rwkv_data.graders.judged import judged
from rwkv_data.graders.maths.number import NUMBER
from rwkv_data.judges import equality
from rwkv_data.prepare.row_shapes.question_math import math_example, math_row
from rwkv_data.prepare.row_shapes.question_text import bare, number
from rwkv_data.profiles import sampling
from rwkvctl.protocol.engine import Sampling, Stops

FREE, MATH, AIME24 = sampling.FREE_RESPONSE_COT, sampling.MATH_COT, sampling.AIME24_COT
ONCE = (1, ("pass@1",), FREE)
TABLE = {
    "aime24": (16, ("avg@16", "pass@8"), AIME24),
    "aime25": (16, ("avg@16", "pass@8"), MATH),
    "beyond_aime": (16, ("avg@16", "pass@8"), MATH),
    "brumo25": (8, ("avg@8", "pass@8"), MATH),
    "college_math": (8, ("avg@8", "pass@8"), MATH),
    "hle": (8, ("avg@8", "pass@8"), MATH),
    "hmmt_feb25": (8, ("avg@8", "pass@8"), MATH),
    "algebra222": (4, ("avg@4",), FREE),
    "amc23": (4, ("avg@4",), FREE),
    "comp_math_24_25": (4, ("avg@4",), FREE),
    "math_odyssey": (4, ("avg@4",), FREE),
    "minerva_ocw": (4, ("avg@4",), FREE),
    "gaokao2023en": (16, ("avg@16",), FREE),
    "math_500": (4, ("avg@4", "pass@1"), FREE),
    "gsm8k": ONCE,
    "gsm_plus": ONCE,
    "asdiv": ONCE,
    "cmath": ONCE,
    "mawps": ONCE,
    "svamp": ONCE,
    "hendrycks_math": ONCE,
    "olympiadbench": ONCE,
    "omni_math": ONCE,
    "simpleqa": ONCE,
}
JUDGED = {"gsm8k", "math_500", "gaokao2023en", "comp_math_24_25", "minerva_ocw", "amc23"}
QWEN = {
    "gsm8k", "math_500", "hendrycks_math", "minerva_ocw", "aime24", "aime25", "amc23", "asdiv", "svamp", "mawps",
    "college_math", "olympiadbench", "gaokao2023en",
}  # fmt: skip
ROW = {"question": "How many\nbolts {are} <there>?", "answer": "3"}
ENDED = ("stop_token", "stop_token")


@pytest.mark.parametrize("name", TABLE)
class TestTwoStages:
    """rwkv-skills-v1, the same for every set."""

    def test_prompts_byte_for_byte(self, name: str) -> None:
        for job in ("free_response", "free_response_judge"):
            kind = registry.load(name).kinds[job]
            assert kind.prompt(0, ROW) == "User: How many\nbolts {are} <there>?\n\nAssistant: <think"
            assert kind.prompt(1, ROW) == "\nTherefore, the answer is \\(\\boxed{"
            assert (kind.profile, kind.profile_version) == ("rwkv-skills-v1", 1)
            assert [stage.name for stage in kind.stages] == ["cot", "final"]

    def test_sampling_and_counts_are_those_of_the_tables(self, name: str) -> None:
        repeats, metrics, cot = TABLE[name]
        for job in ("free_response", "free_response_judge"):
            kind = registry.load(name).kinds[job]
            assert (kind.repeats, kind.metrics, kind.stages[0].sampling) == (repeats, metrics, cot)
            assert kind.stages[0].stops == Stops(tokens=("\n\n", "User"))
            assert kind.stages[1].sampling == sampling.FREE_RESPONSE_FINAL
            assert kind.stages[1].stops == Stops(tokens=("}\\", " }\\"))

    def test_what_runs_unasked(self, name: str) -> None:
        unasked = {kind.name for kind in registry.load(name).kinds.values() if kind.default}
        judge = {"free_response_judge"} if name in JUDGED | {"hle", "simpleqa"} else set()
        assert unasked == {"free_response"} | judge


def test_aime24_thinks_longer() -> None:
    assert MATH.max_tokens == 4096
    assert AIME24.max_tokens == 16384
    assert (AIME24.temperature, AIME24.top_k, AIME24.top_p) == (MATH.temperature, MATH.top_k, MATH.top_p)


def test_judge_rules() -> None:
    rules = {name: registry.load(name).kinds["free_response_judge"].grader.judge.name for name in TABLE}
    assert rules.pop("hle") == "hle-v1"
    assert rules.pop("simpleqa") == "simpleqa-v1"
    assert set(rules.values()) == {"rwkv-skills-v1"}


class TestSecondVersion:
    HEAD = (
        "User: You are a very talented expert in maths.\nSolve the problem and output the final answer in \\boxed{}.\n"
        "Problem: How many\nbolts {are} <there>?\n\nAssistant: "
    )

    def test_thinking(self) -> None:
        kind = registry.load("math_500").kinds["free_response.rwkv-skills-v2"]
        assert kind.prompt(0, ROW) == self.HEAD + "<think>"
        assert kind.prompt(1, ROW) == "</think>\nTherefore, the answer is \\(\\boxed{"
        assert kind.prompt(0, {**ROW, "subject": "Number_Theory"}).startswith(
            "User: You are a very talented expert in Number Theory.\n"
        )
        assert kind.stages[0].stops == Stops(tokens=("\n\n", "User"), suffixes=("</think>",))
        assert (kind.profile, kind.default, kind.repeats) == ("rwkv-skills-v2", False, 4)

    def test_fake_thinking(self) -> None:
        kind = registry.load("math_500").kinds["free_response.rwkv-skills-v2-fake-cot"]
        [stage] = kind.stages
        assert stage.prompt(ROW) == self.HEAD + "<think>\n</think>\nTherefore, the answer is \\(\\boxed{"
        assert (stage.sampling, kind.repeats) == (sampling.FREE_RESPONSE_FINAL, 1)


class TestHarness:
    ENDS = ("</s>", "<|im_end|>")

    @pytest.mark.parametrize(
        ("name", "kind", "prompt", "stops", "tokens", "shots"),
        [
            ("gsm8k", "", "Question: {q}\nAnswer:", ("Question:", *ENDS), 256, 5),
            ("gsm8k", "-cot", "Q: {q}\nA:", ("Q:", *ENDS), 256, 8),
            ("math_500", "", "Problem:\n{q}\n\nSolution:", ("Problem:",), 256, 4),
            ("math_minerva", "", "Problem:\n{q}\n\nSolution:", ("Problem:",), 256, 4),
            ("math_500", "-hendrycks", "Problem: {q}\nAnswer:", ("Problem:",), 256, 0),
            ("hendrycks_math", "", "Problem: {q}\nAnswer:", ("Problem:",), 256, 0),
            ("aime24", "", "Question: {q}\nAnswer:", ("Question:", *ENDS, "<|eot_id|>"), 32768, 0),
            ("aime25", "", "Question: {q}\nAnswer:", ("Question:", *ENDS, "<|eot_id|>"), 32768, 0),
        ],
    )
    def test_question_and_stops(self, name, kind, prompt, stops, tokens, shots) -> None:
        chosen = registry.load(name).kinds[f"free_response.lm-eval{kind}"]
        [stage] = chosen.stages
        assert stage.prompt({"question": "Q?"}) == prompt.format(q="Q?")
        assert (stage.stops, stage.sampling) == (Stops(suffixes=stops), Sampling(max_tokens=tokens))
        assert (chosen.shots.count if chosen.shots else 0) == shots
        assert chosen.default == (name == "math_minerva")

    def test_the_first_example_of_wei_et_al(self) -> None:
        kind = registry.load("gsm8k").kinds["free_response.lm-eval-cot"]
        [row] = kind.asked([ROW])
        assert kind.prompt(0, row).startswith("Q: There are 15 trees in the grove. Grove workers will plant trees")
        assert kind.prompt(0, row).endswith(
            "So she has 23 - 15 dollars left. 23 - 15 is 8. The answer is 8.\n\nQ: How many\nbolts {are} <there>?\nA:"
        )

    def test_drawn_examples_are_whole_answers(self) -> None:
        benchmark = registry.load("gsm8k")
        raws = [{"question": f"Q{n}?", "answer": f"It is <<{n}>>{n},000.\n#### {n},000"} for n in range(9)]
        pool = [benchmark.convert(raw, pool=True) for raw in raws]
        kind = benchmark.kinds["free_response.lm-eval"]
        first, second = (kind.prompt(0, row) for row in kind.asked([ROW, ROW], pool))
        assert first != second
        assert first.count("\n#### ") == 5
        assert ",000\n\nQuestion: " in first
        assert [row["answer"] for row in pool[1:3]] == ["1000", "2000"]


class TestQwen:
    def test_who_has_it(self) -> None:
        assert {name for name in TABLE if "free_response.qwen-math" in registry.load(name).kinds} == QWEN | {"cmath"}

    @pytest.mark.parametrize(
        ("name", "first"),
        [
            ("svamp", "Question: There are 15 trees in the grove. "),
            ("math_500", "Question: Kevin Kangaroo begins hopping on a number line at 0. "),
            (
                "minerva_ocw",
                "Question: Find the domain of the expression $\\frac{\\sqrt{x-2}}{\\sqrt{5-x}}$.}\nAnswer: ",
            ),
        ],
    )
    def test_four_examples(self, name: str, first: str) -> None:
        kind = registry.load(name).kinds["free_response.qwen-math"]
        [row] = kind.asked([ROW])
        prompt = kind.prompt(0, row)
        assert prompt.startswith(first)
        assert len(prompt.split("\n\n\nQuestion: ")) == 5
        assert prompt.endswith("\n\n\nQuestion: How many\nbolts {are} <there>?\nAnswer:")
        stops = ("</s>", "<|im_end|>", "<|endoftext|>", "\n\nQuestion:")
        assert (kind.stages[0].stops, kind.stages[0].sampling) == (Stops(suffixes=stops), Sampling(max_tokens=2048))

    def test_a_question_of_yes_or_no_says_so(self) -> None:
        kind = registry.load("cmath").kinds["free_response.qwen-math"]
        assert kind.shots is None
        assert kind.prompt(0, {"question": " Is it? ", "answer": "Yes"}) == "Question: Is it?  (Yes or No)\nAnswer:"
        assert kind.prompt(0, {"question": "So?", "answer": "false"}) == "Question: So? (True or False)\nAnswer:"


def test_albatross() -> None:
    kind = registry.load("math_500").kinds["free_response.albatross"]
    assert kind.prompt(0, ROW) == "User: How many\nbolts {are} <there>?\n\nAssistant: <think></think"
    assert kind.stages[0].sampling == Sampling(max_tokens=1500, temperature=1.0, top_p=0.28, top_k=32)
    assert kind.stages[0].stops == Stops(suffixes=("\nUser:",))
    assert (kind.repeats, kind.metrics) == (16, ("avg@16", "pass@16"))


def test_examples_may_be_put_before_a_chain_of_thought() -> None:
    kind = registry.load("gsm8k").default_kind.with_settings({"shots": "1"})
    [row] = kind.asked([ROW], [{"question": "Two?", "answer": "2", "solution": "One and one."}])
    assert kind.prompt(0, row) == (
        "User: Two?\n\nAssistant: <think>One and one.</think>\nTherefore, the answer is \\(\\boxed{2}\\)\n\n"
        "User: How many\nbolts {are} <there>?\n\nAssistant: <think"
    )


class TestJudged:
    @pytest.fixture
    def grade(self):
        with judged(NUMBER, equality.RULE).open() as function:
            yield lambda text: function({"question": "Q", "answer": "3"}, Answer(text, ENDED))

    def test_what_the_rule_accepts_is_right(self, grade) -> None:
        assert (grade("3").value, grade("3").reason) == (1.0, "right")

    def test_what_it_refuses_goes_to_the_judge(self, grade) -> None:
        found = grade("4")
        assert (found.value, found.reason, found.extracted) == (None, "unjudged", "4")
        assert found.detail == "the rule says wrong"

    def test_nothing_is_no_question_for_a_judge(self, grade) -> None:
        assert (grade("").value, grade("").reason) == (0.0, "no_answer")

    def test_a_rule_that_fails_asks_the_judge_too(self) -> None:
        broken = Grader.of("broken", "1", lambda row, answer: Grade(None, answer.text, row["answer"], "error", "oh"))
        with judged(broken, equality.RULE).open() as function:
            found = function(ROW, Answer("x"))
        assert (found.reason, found.detail) == ("unjudged", "the rule says error: oh")

    def test_rule_and_judge_are_in_the_key(self) -> None:
        assert judged(NUMBER, equality.RULE).key == {
            "grader": "judged-number-v1",
            "version": NUMBER.version,
            "judge": f"equality-v1/{equality.RULE.version}",
        }


SHAPES = [
    (
        "gsm_plus",
        {"question": "Q?", "solution": "S", "answer": "1,234", "perturbation_type": "digit expansion"},
        {"question": "Q?", "answer": "1234", "solution": "S", "perturbation": "digit expansion"},
    ),
    (
        "gsm_plus",
        {"question": "Q?", "solution": "S", "answer": "None", "perturbation_type": "critical thinking"},
        {"question": "Q?", "answer": "None", "solution": "S", "perturbation": "critical thinking"},
    ),
    (
        "aime24",
        {"ID": "2024-II-4", "Problem": "P?", "Solution": "S", "Answer": 33},
        {"question": "P?", "answer": "33", "solution": "S"},
    ),
    (
        "aime24",
        {"id": 1, "problem": "P?", "solution": "S", "answer": "025", "url": "u", "question": "P?"},
        {"question": "P?", "answer": "25", "solution": "S"},
    ),
    ("aime25", {"problem": "P?", "answer": "336^\\circ", "id": "1"}, {"question": "P?", "answer": "336"}),
    ("beyond_aime", {"problem": "P?", "answer": 1024}, {"question": "P?", "answer": "1024"}),
    (
        "brumo25",
        {"problem_idx": 1, "problem": "P?", "answer": "$\\frac{1}{2}$", "problem_type": ["Algebra"]},
        {"question": "P?", "answer": "\\frac{1}{2}"},
    ),
    (
        "hmmt_feb25",
        {"problem_idx": 1, "problem": "P?", "answer": "103", "problem_type": ["Algebra"]},
        {"question": "P?", "answer": "103"},
    ),
    (
        "algebra222",
        {"question": "Q?", "final_answer": "-0.27", "section": "Percent", "source": ""},
        {"question": "Q?", "answer": "-0.27", "topic": "Percent"},
    ),
    (
        "svamp",
        {
            "ID": "chal-1",
            "Body": "A pack costs 76 ",
            "Question": "How much? ",
            "Equation": "( 76.0 )",
            "Answer": 76.0,
            "Type": "Subtraction",
        },
        {"question": "A pack costs 76. How much?", "answer": "76", "topic": "Subtraction"},
    ),
    (
        "svamp",
        {"Body": "Is it?", "Question": "Q?", "Answer": 1.5, "Type": "T"},
        {"question": "Is it? Q?", "answer": "1.5", "topic": "T"},
    ),
    (
        "mawps",
        {"input": "Q ?", "target": 11.5, "_file": "addsub"},
        {"question": "Q ?", "answer": "11.5", "collection": "addsub"},
    ),
    (
        "mawps",
        {"input": "Q ?", "target": 39, "type": "singleeq", "idx": 0, "_file": "test"},
        {"question": "Q ?", "answer": "39", "collection": "singleeq"},
    ),
    (
        "college_math",
        {
            "data_source": "b",
            "question_number": "1",
            "question": "Q?",
            "answer": "$(1,2),(3,4)$",
            "license": "l",
            "data_topic": "college_math.algebra",
        },
        {"question": "Q?", "answer": "(1,2),(3,4)", "topic": "algebra"},
    ),
    (
        "omni_math",
        {
            "domain": ["Mathematics -> Algebra -> Sums"],
            "difficulty": 8.0,
            "problem": "P?",
            "solution": "S",
            "answer": "$n$",
            "source": "imo",
        },
        {"question": "P?", "answer": "n", "topic": "Algebra", "difficulty": 8.0},
    ),
    (
        "math_odyssey",
        {
            "Problem_7": {
                "question": "P $n$?\n\t\n\n\\end{problem}\n\\noindent",
                "answer": "$5$.\\\\\n\\noindent",
                "reasoning": "R",
                "label": "Algebra",
                "level": "college math",
            }
        },
        {"question": "P $n$?", "answer": "5", "solution": "R", "topic": "Algebra", "level": "college math"},
    ),
    (
        "math_odyssey",
        {
            "Problem_8": {
                "question": "P?\\end{problem}",
                "answer": "B.\n\n\\noindent",
                "reasoning": "",
                "label": "Algebra",
                "level": "college math",
            }
        },
        {"question": "P?", "answer": "B", "topic": "Algebra", "level": "college math"},
    ),
    (
        "asdiv",
        {
            "ID": "nluds-0001",
            "Grade": "1",
            "Body": "Seven apples.",
            "Question": "How many? ",
            "Solution-Type": "Sum",
            "Answer": "9 (apples)",
            "Formula": "7+2=9",
        },
        {"question": "Seven apples. How many?", "answer": "9", "topic": "Sum"},
    ),
    (
        "asdiv",
        {"body": "B.", "question": "Q?", "solution_type": "Sum", "answer": "14  (seats); 3 (rows)"},
        {"question": "B. Q?", "answer": "14; 3", "topic": "Sum"},
    ),
    (
        "olympiadbench",
        {
            "id": 1,
            "subfield": "Algebra",
            "context": None,
            "question": "Q?",
            "solution": ["S"],
            "final_answer": ["$69$,$84$"],
            "is_multiple_answer": True,
            "unit": None,
            "answer_type": "Numerical",
            "error": "1e-1",
        },
        {
            "question": "Q?",
            "answer": "69,84",
            "multiple": True,
            "subject": "Algebra",
            "tolerance": "1e-1",
            "answer_type": "Numerical",
        },
    ),
    (
        "gaokao2023en",
        {"source": "s", "question": "P? answers: $\\frac{3}{10}$", "lang": "en", "answer": ""},
        {"question": "P?", "answer": "\\frac{3}{10}"},
    ),
    (
        "minerva_ocw",
        {"problem": "P?", "solution": "\\boxed{np.arcsin(10/13)}", "type": "Course", "idx": 0},
        {"question": "P?", "answer": "\\arcsin(10/13)", "solution": "\\boxed{np.arcsin(10/13)}", "subject": "Course"},
    ),
    (
        "hle",
        {
            "id": "x",
            "question": "Q?",
            "image": "",
            "image_preview": None,
            "answer": "11",
            "answer_type": "exactMatch",
            "author_name": "A",
            "rationale": "R",
            "raw_subject": "S",
            "category": "Math",
            "canary": "c",
        },
        {"question": "Q?", "answer": "11", "category": "Math", "answer_type": "exactMatch", "id": "x"},
    ),
    (
        "hle",
        {"id": "x", "question": "Q?", "image": "data:image/png;base64,AA", "answer": "11", "category": "Math"},
        None,
    ),
    (
        "simpleqa",
        {
            "original_index": "5",
            "problem": 'Who, "then"?',
            "answer": "Ada, Countess",
            "topic": "Art",
            "answer_type": "Person",
            "multi_step": "False",
            "requires_reasoning": "False",
            "urls": "u",
        },
        {"question": 'Who, "then"?', "answer": "Ada, Countess", "topic": "Art", "answer_type": "Person", "id": "5"},
    ),
    (
        "answer_judge",
        {"question": "Q?", "gt_answer": "G", "gen_answer": "A", "annotations": [{"score": 1}, {"score": 0}]},
        {"question": "Q?", "reference": "G", "generated": "A", "answer": "No"},
    ),
    (
        "answer_judge",
        {"question": "Q?", "gt_answer": "G", "gen_answer": None, "annotations": [{"score": 0.6}, {"score": None}]},
        {"question": "Q?", "reference": "G", "generated": "", "answer": "Yes"},
    ),
]


@pytest.mark.parametrize(("name", "raw", "row"), SHAPES)
def test_published_shape(name: str, raw: dict, row: dict | None) -> None:
    assert registry.load(name).convert(raw) == row


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("aime24", {"Problem": "P?", "Answer": "sixty"}, "'sixty' is no number"),
        ("beyond_aime", {"problem": "P?", "answer": 1.5}, "not a whole number"),
        ("beyond_aime", {"problem": "P?", "answer": True}, "no number"),
        ("beyond_aime", {"problem": "P?"}, "'answer' is missing"),
        ("svamp", {"Body": "B", "Question": "", "Answer": 1.0}, "'Question' is empty"),
        ("mawps", {"input": "Q", "target": "many", "type": "addsub"}, "'many' is no number"),
        ("gsm_plus", {"question": "Q?", "answer": "1"}, "'perturbation' is missing"),
        ("math_odyssey", {"Problem_1": "text"}, "holds no problem"),
        ("olympiadbench", {"question": "Q?", "final_answer": ["1", "2"]}, "2 entries"),
        ("hendrycks_math", {"problem": "P?", "solution": "no box"}, "no answer in a box"),
        (
            "hle",
            {"question": "Q?", "answer": "", "category": "Math", "answer_type": "a", "id": "x"},
            "'answer' is empty",
        ),
        (
            "answer_judge",
            {"question": "Q?", "gt_answer": "G", "gen_answer": "A", "annotations": None},
            "only the split",
        ),
        ("answer_judge", {"question": "Q?", "gt_answer": "G", "annotations": "none"}, "no known shape"),
    ],
)
def test_a_row_that_cannot_be_asked_is_refused(name: str, raw: dict, message: str) -> None:
    with pytest.raises(RowError, match=message):
        registry.load(name).convert(raw)


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("so $\\boxed{2}$.", "2"),
        ("first $\\boxed{1}$, after much more work we find at last that it is $\\boxed{\\frac{1}{2}}$", "\\frac{1}{2}"),
        ("\\fbox{yes}", "yes"),
        ("it is $\\boxed 5$", "5"),
    ],
)
def test_the_answer_of_a_solution(solution: str, answer: str) -> None:
    assert math_row({"problem": "P?", "solution": solution, "type": "Algebra"})["answer"] == answer


def test_training_problems_without_solutions() -> None:
    assert math_example({"problem": "P?", "answer": "5", "type": "Algebra"}) == {"question": "P?", "answer": "5"}
    assert math_example({"problem": "P?", "answer": None}) is None
    assert math_example({"problem": "P?", "solution": "\\boxed{5}"})["solution"] == "\\boxed{5}"


TO_JUDGE = {"question": "Q?", "reference": "G", "generated": "A", "answer": "No"}


class TestAnswerJudge:
    def test_prompt(self) -> None:
        kind = registry.load("answer_judge").default_kind
        assert "Question: Q?\nReference answer: G\nAnswer to judge: A\n" in kind.prompt(0, TO_JUDGE)
        assert kind.prompt(0, TO_JUDGE).endswith("\n\nAssistant: <think")
        assert kind.prompt(1, TO_JUDGE) == "\nJudgement:"

    @pytest.mark.parametrize(
        ("text", "gold", "value", "parts"),
        [
            (" Yes", "Yes", 1.0, (0.0, 0.0, 0.0)),
            (" yes.", "No", 0.0, (1.0, 0.0, 0.0)),
            ("**No**", "Yes", 0.0, (0.0, 1.0, 0.0)),
            ("Perhaps not", "No", 0.0, (0.0, 0.0, 1.0)),
            ("", "No", 0.0, (0.0, 0.0, 1.0)),
        ],
    )
    def test_shares_of_mistakes(self, text, gold, value, parts) -> None:
        found = registry.load("answer_judge").default_kind.grade({**TO_JUDGE, "answer": gold}, Answer(text, ENDED))
        names = ("false_positive", "false_negative", "invalid")
        assert (found.value, tuple(found.parts[name] for name in names)) == (value, parts)


def test_pinned_files_name_their_commit_and_digest() -> None:
    sources = [registry.load(name).source for name in TABLE]
    pinned = [source for source in sources if isinstance(source, WebSource)]
    assert len(pinned) == 12
    for url, digest in (pair for source in pinned for pair in zip(source.urls, source.sha256, strict=True)):
        host, _, path = url.removeprefix("https://").partition("/")
        assert host == "raw.githubusercontent.com"
        assert len(path.split("/")[2]) == 40
        assert len(digest) == 64


@pytest.mark.parametrize(
    ("given", "text"),
    [(27.0, "27"), (11.5, "11.5"), ("1,234", "1234"), ("025", "25"), ("-0.50", "-0.50"), (0, "0"), ("-3.000", "-3")],
)
def test_numbers_as_text(given, text) -> None:
    assert number(given) == text


@given(st.one_of(st.integers(), st.floats(-1e15, 1e15).map(lambda value: round(value, 3))))
def test_a_number_keeps_its_value_or_is_refused(value) -> None:
    try:
        text = number(value)
    except RowError:
        assert "e" in str(value)
        return
    assert float(text) == float(value)
    assert number(text) == text


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("$2$", "2"),
        (" $3 \\sqrt{6}$. ", "3 \\sqrt{6}"),
        ("$69$,$84$", "69,84"),
        ("$a$ or $b$", "$a$ or $b$"),
        ("\\$ 9681.72", "\\$ 9681.72"),
        ("all real numbers", "all real numbers"),
    ],
)
def test_dollars_around_an_answer_go(answer: str, plain: str) -> None:
    assert bare(answer) == plain


@given(st.text(alphabet="ab,.; \\{}1\n", min_size=1, max_size=60).filter(str.strip))
def test_dollars_and_a_full_stop_say_nothing(answer: str) -> None:
    assert bare(f" ${answer}$. ") == bare(f"${answer}$") == answer.strip()


@pytest.mark.parametrize("name", [*TABLE, "math_minerva", "answer_judge"])
def test_rows_of_the_examples_survive_json(name: str) -> None:
    for example in registry.load(name).examples:
        assert json.loads(json.dumps(example.row)) == example.row


JUDGED_SETS = [
    name for name in registry.names() if any(k.grader.judge and k.default for k in registry.load(name).kinds.values())
]


@pytest.mark.parametrize("name", JUDGED_SETS)
def test_of_a_set_that_is_graded_both_ways_one_kind_is_meant(name: str) -> None:
    benchmark = registry.load(name)
    pair = [kind for kind in benchmark.kinds.values() if kind.default and benchmark.asked_like(kind).default]
    meant = {
        judge: [kind.grader.judge is not None for kind in pair if not benchmark.instead_of(kind, judge=judge)]
        for judge in (True, False)
    }
    assert meant == ({True: [True], False: [False]} if len(pair) == 2 else {True: [True], False: [True]})


@pytest.mark.parametrize("name", registry.names())
def test_kinds_share_completions_only_where_every_prompt_is_the_same(name: str) -> None:
    benchmark = registry.load(name)
    row = benchmark.examples[0].row
    for kind in benchmark.kinds.values():
        like = benchmark.asked_like(kind)
        if like is kind:
            continue
        assert {**kind.configuration(), "kind": ""} == {**like.configuration(), "kind": ""}
        assert [kind.prompt(n, row) for n in range(len(kind.stages))] == [
            like.prompt(n, row) for n in range(len(like.stages))
        ]
