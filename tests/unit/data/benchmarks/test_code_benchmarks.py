"""The code, instruction, translation and chat part of the catalogue on rows of the published schemas: what becomes of a
raw row, what is refused, and what is sent, byte for byte."""

import base64
import json
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.errors import RowError
from rwkv_data.graders.code.contest_tests import BadTestsError
from rwkv_data.prepare.row_shapes import arena_rows, code_contest, code_human_eval, translation_rows
from rwkv_data.profiles import chat, code
from rwkvctl.protocol.engine import Sampling, Stops

UNPENALISED = (" ", "\t", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
FUNCTION = {
    "task_id": "HumanEval/53",
    "prompt": 'import math\n\n\ndef add(x: int, y: int):\n    """Add.\n\n    >>> add(2, 3)\n    5\n    """\n',
    "entry_point": "add",
    "canonical_solution": "    return x + y\n",
    "test": "\n\ndef check(candidate):\n    assert candidate(0, 1) == 1\n",
}
PACK = {
    **FUNCTION,
    "task_id": "Python/53",
    "test": "\n\ndef check(add):\n    assert add(0, 1) == 1\n\ncheck(add)",
    "buggy_solution": "    return x - y\n",
    "declaration": "def add(x: int, y: int):\n",
    "bug_type": "operator misuse",
}
PLUS = {**FUNCTION, "atol": 0, "contract": "", "base_input": [[0, 1]], "plus_input": [[float("nan"), 1], [2**70, 0]]}
MBPP = {
    "task_id": 11,
    "text": "Write a python function to add.",
    "code": "import math\r\ndef add(x, y): \r\n\treturn x + y",
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(2, 2) == 4"],
    "challenge_test_list": [],
}
SANITISED = {
    "task_id": 2,
    "prompt": "Write a function.",
    "code": "def f(): pass",
    "test_imports": ["import math"],
    "test_list": ["assert f() is None"],
    "source_file": "x",
}
PRIVATE = [{"input": "3 4\n", "output": "7\n", "testtype": "stdin"}]
LCB = {
    "question_title": "Sum",
    "question_content": "Add two numbers.\n",
    "platform": "atcoder",
    "question_id": "abc_a",
    "contest_id": "abc",
    "contest_date": "2024-01-06T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps(PRIVATE)))).decode(),
    "metadata": "{}",
}
APPS = {
    "problem_id": 7,
    "question": "Add.",
    "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]}),
    "difficulty": "interview",
    "url": "https://example.org/7",
    "starter_code": "",
}
WMT = {
    "lp": "en-ja_JP",
    "domain": "news",
    "document_id": "d1",
    "segment_id": 4,
    "is_bad_source": False,
    "source": "A house.",
    "target": "家。",
    "original_target": "家",
}
RULED = {
    "key": "12",
    "prompt": "Write.",
    "instruction_id_list": ["punctuation:no_comma"],
    "kwargs": [{"num_words": None}],
}

SCHEMAS = [
    ("human_eval", FUNCTION, {"prompt": FUNCTION["prompt"], "entry_point": "add", "answer": "    return x + y\n"}),
    ("human_eval_cn", {**PACK, "entry_point": None}, {"entry_point": "add", "id": "Python/53"}),
    ("human_eval_fix", PACK, {"buggy_solution": "    return x - y\n", "entry_point": "add"}),
    ("human_eval_plus", PLUS, {"plus_input": "[[NaN,1],[1180591620717411303424,0]]", "base_input": "[[0,1]]"}),
    ("mbpp", MBPP, {"prompt": "Write a python function to add.", "test_imports": [], "id": 11}),
    ("mbpp_sanitized", SANITISED, {"prompt": "Write a function.", "test_imports": ["import math"], "id": 2}),
    ("mbpp_plus", {**PLUS, "plus_input": {}}, {"plus_input": "[]"}),
    ("livecodebench", LCB, {"question": "Add two numbers.\n", "date": "2024-01-06", "function": ""}),
    ("apps", APPS, {"id": "7", "function": "", "answer": "print(sum(map(int, input().split())))"}),
    ("taco", {**APPS, "difficulty": "MEDIUM_HARD", "solutions": None}, {"difficulty": "MEDIUM_HARD", "answer": ""}),
    ("ifeval", {**RULED, "key": 12}, {"question": "Write.", "key": 12, "kwargs": [{}]}),
    ("ifbench", RULED, {"question": "Write.", "key": 12, "kwargs": [{}]}),
    ("wmt24pp", WMT, {"question": "A house.", "answer": "家。", "target": "ja_JP", "pair": "en-ja_JP"}),
]


@pytest.mark.parametrize(("name", "raw", "expected"), SCHEMAS, ids=[name for name, *_ in SCHEMAS])
def test_a_published_row_is_prepared(name: str, raw: dict, expected: dict) -> None:
    row = registry.load(name).convert(raw)
    assert row is not None
    assert {field: row[field] for field in expected} == expected
    assert isinstance(row["answer"], str)


def test_a_test_that_calls_itself_is_left_to_us() -> None:
    row = code_human_eval.from_source(PACK)
    assert row["test"] == "\n\ndef check(add):\n    assert add(0, 1) == 1\n\n"
    assert code_human_eval.from_source(FUNCTION)["test"] == FUNCTION["test"]


def test_a_folder_of_apps_has_its_facts_in_another_file() -> None:
    folder = {name: APPS[name] for name in ("question", "input_output", "solutions")}
    metadata = json.dumps({"difficulty": "competition", "url": "u"})
    row = code_contest.problem_row({**folder, "metadata": metadata, "_file": "0111"})
    assert row is not None
    assert (row["difficulty"], row["url"], row["id"], row["starter_code"]) == ("competition", "u", "0111", "")


@pytest.mark.parametrize(
    "tests", ["", "{}", '{"inputs": [], "outputs": []}', '{"inputs": ["1"]}', f'{{"inputs": [{"9" * 5000}]}}']
)
def test_a_problem_whose_tests_say_nothing_is_left_out(tests: str) -> None:
    assert registry.load("apps").convert({**APPS, "input_output": tests}) is None


@pytest.mark.parametrize("task_id", [1, 10, 511, 974])
def test_other_splits_of_mbpp_are_left_out(task_id: int) -> None:
    assert registry.load("mbpp").convert({**MBPP, "task_id": task_id}) is None


def test_examples_of_mbpp_are_tasks_two_to_four() -> None:
    found = [registry.load("mbpp").convert({**MBPP, "task_id": number}, pool=True) for number in range(1, 12)]
    assert [row["id"] for row in found if row] == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "raw", "change", "said"),
    [
        ("human_eval", FUNCTION, {"test": "assert add(1, 2) == 3"}, "defines no function 'check'"),
        ("human_eval", FUNCTION, {"test": "def check(:"}, "no Python program"),
        ("human_eval", FUNCTION, {"entry_point": "a b"}, "not a name"),
        ("human_eval", FUNCTION, {"entry_point": ""}, "'entry_point' is empty"),
        ("human_eval_fix", PACK, {"buggy_solution": " "}, "'buggy_solution' is empty"),
        ("human_eval_plus", PLUS, {"base_input": []}, "'base_input' is empty"),
        ("human_eval_plus", PLUS, {"plus_input": [3]}, "no list of lists"),
        ("human_eval_plus", PLUS, {"canonical_solution": "  return ("}, "no Python program"),
        ("mbpp", MBPP, {"test_list": []}, "'test_list' is empty"),
        ("mbpp", MBPP, {"test_list": ["assert ("]}, "no Python program"),
        ("mbpp", MBPP, {"task_id": "11"}, None),
        ("livecodebench", LCB, {"private_test_cases": "nonsense"}, "unpacked"),
        ("livecodebench", LCB, {"public_test_cases": "[]", "private_test_cases": "[]"}, "at least one"),
        ("livecodebench", LCB, {"contest_date": ""}, "'contest_date' is empty"),
        ("ifeval", RULED, {"kwargs": []}, "tables of arguments"),
        ("wmt24pp", WMT, {"target": ""}, "'target' is empty"),
    ],
)
def test_what_cannot_be_asked_is_refused(name: str, raw: dict, change: dict, said: str | None) -> None:
    if said is None:
        assert registry.load(name).convert({**raw, **change}) is None
        return
    with pytest.raises(RowError, match=said):
        registry.load(name).convert({**raw, **change})


class Trap:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("run",))


def test_private_tests_run_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    trap = base64.b64encode(zlib.compress(pickle.dumps(Trap()))).decode()
    with pytest.raises(RowError, match="text only"):
        registry.load("livecodebench").convert({**LCB, "private_test_cases": trap})
    assert capsys.readouterr().out == ""


texts = st.text(max_size=30)


@given(st.lists(st.tuples(texts, texts), max_size=4), texts)
def test_packed_tests_come_back_as_they_were(cases: list[tuple[str, str]], name: str) -> None:
    tests = {"inputs": [a for a, _ in cases], "outputs": [b for _, b in cases], "fn_name": name}
    assert code_contest.unpacked({"tests": code_contest.packed(tests)})["input_output"] == tests


@pytest.mark.parametrize("text", ["", "x", "AAAA", None, base64.b64encode(zlib.compress(b"[")).decode()])
def test_packed_nonsense_is_refused(text: str | None) -> None:
    with pytest.raises((RowError, BadTestsError)):
        code_contest.check_packed({"date": "2024", "tests": text, "question": "q", "difficulty": "easy"})


class TestPrompts:
    """Prompts, byte for byte."""

    def test_human_eval(self) -> None:
        row, kinds = code_human_eval.from_source(FUNCTION), registry.load("human_eval").kinds
        body = 'import math\ndef add(x: int, y: int):\n    """Add.\n    >>> add(2, 3)\n    5\n    """'
        v1 = (
            "User:You are a top-level code master. Complete the following code without any additional text or "
            f"explanation:\n{body}\n\nAssistant:{body}"
        )
        assert kinds["code_human_eval"].prompt(0, row) == kinds["code_human_eval.rwkv-skills-v1"].prompt(0, row) == v1
        assert kinds["code_human_eval.rwkv-skills-v2"].prompt(0, row) == (
            "User: You are a top-level code master. Complete the following code without any additional text or "
            f"explanation:\n{body}\nFunction signature: def add(x: int, y: int):\nWrite the full function definition."
            "\n\nAssistant: <think></think>\n```python"
        )
        assert kinds["code_human_eval.lm-eval"].prompt(0, row) == FUNCTION["prompt"]

    def test_human_eval_fix(self) -> None:
        row = code_human_eval.fix_from_source(PACK)
        assert registry.load("human_eval_fix").default_kind.prompt(0, row) == (
            "User: You are a top-level code master. Complete the following code without any additional text or "
            'explanation:\nimport math\ndef add(x: int, y: int):\n    """Add.\n    >>> add(2, 3)\n    5\n    """\n'
            "# Buggy implementation:\n    return x - y\n# Fix the function `add` so it passes all tests."
            "\n\nAssistant: <think></think>\n```python"
        )

    def test_mbpp(self) -> None:
        row = registry.load("mbpp").convert({**MBPP, "text": "Add:\n\n    two"})
        kind = registry.load("mbpp").default_kind
        asked = (
            "User: You are a top-level code master. Complete the following code without any additional text or "
            "explanation:\nAdd:\n\ttwo\nFunction signature: def add(x, y):\nWrite the full function definition."
            "\n\nAssistant: <think></think>\n```python"
        )
        assert kind.prompt(0, row) == asked
        [one] = kind.with_settings({"shots": "1"}).asked([row], [row])
        assert kind.prompt(0, one) == f"{asked}\n{MBPP['code']}\n```\n\n{asked}"

    def test_mbpp_without_a_signature(self) -> None:
        assert code.with_signature("Do it.", "f = lambda: 1") == code.fenced("Do it.")

    def test_livecodebench(self) -> None:
        row, kinds = registry.load("livecodebench").convert(LCB), registry.load("livecodebench").kinds
        cot, final = kinds["code_livecodebench"].stages
        first = (
            "User: You are an expert Python programmer. You will be given a question (problem specification) and will "
            "generate a correct Python program that matches the specification and passes all tests.\n### Question:\n"
            "Add two numbers.\n\n### Format: Read the inputs from stdin solve the problem and write the answer to "
            "stdout (do not directly test on the sample inputs). Enclose your code within delimiters as follows. "
            "Ensure that when the python program runs, it reads the inputs, runs the algorithm and writes output to "
            "STDOUT.\n```python\n# YOUR CODE HERE\n```\n\n### Answer: (use the provided format with backticks)\n\n"
        )
        assert cot.prompt(row) == f"{first}Assistant: <think"
        assert final.prompt(row) == "\nTherefore, the correct code is ```python\n"
        assert kinds["code_livecodebench.rwkv-skills-v2"].prompt(1, row) == "\n</think>\n```python\n"
        assert kinds["code_livecodebench.livecodebench"].prompt(0, row) == f"{first}Assistant:"

    @pytest.mark.parametrize(
        ("starter", "function", "body"),
        [
            ("class Solution:\n    ", "f", "class Solution:\n    "),
            (" ", "f", "# The function is called f."),
        ],
    )
    def test_a_problem_that_wants_a_function(self, starter: str, function: str, body: str) -> None:
        asked = code.problem({"question": "Q", "starter_code": starter, "function": function})
        assert asked == (
            "### Question:\nQ\n\n### Format: You will use the following starter code to write the solution to the "
            f"problem and enclose your code within delimiters.\n```python\n{body}\n```\n\n"
            "### Answer: (use the provided format with backticks)\n\n"
        )

    def test_instructions(self) -> None:
        row, kinds = {"question": "Write.\n"}, registry.load("ifeval").kinds
        asked = {name.rpartition(".")[2]: kind.prompt(0, row) for name, kind in kinds.items()}
        assert asked == {
            "instruction_following": "User: Write.\n\n\nAssistant:",
            "rwkv-skills-v1": "User: Write.\n\n\nAssistant:",
            "rwkv-skills-v1-thinking": "User: Write.\n\n\nAssistant: <think",
            "lm-eval": "Write.\n",
            "chat": "User: Write.\n\n\nAssistant:",
        }

    def test_translation(self) -> None:
        row = registry.load("wmt24pp").convert(WMT)
        assert registry.load("wmt24pp").default_kind.prompt(0, row) == (
            "User: Translate the following text from English into Japanese. Give only the translation.\nA house.\n\n"
            "Assistant:"
        )


class TestSampling:
    """The tables of rwkv-skills, number for number, and where answers end."""

    def test_code(self) -> None:
        for name in ("human_eval", "human_eval_cn", "human_eval_fix", "human_eval_plus", "mbpp", "mbpp_plus"):
            for kind in registry.load(name).kinds.values():
                if "lm-eval" not in kind.name:
                    assert kind.stages[0].sampling == Sampling(
                        max_tokens=1024,
                        temperature=0.6,
                        top_k=50,
                        top_p=0.6,
                        presence=0.25,
                        frequency=0.25,
                        decay=0.996,
                        unpenalised=UNPENALISED,
                    )
                    assert (kind.repeats, kind.metrics[0]) == (1, "pass@1")
                if kind.profile == "rwkv-skills-v1":
                    assert kind.stages[0].stops == Stops(tokens=("\n\n", "```", " ```", "User"))
                    assert not kind.default

    def test_no_usual_kind_stops_at_a_blank_line(self) -> None:
        for name in ("human_eval", "human_eval_fix", "mbpp", "mbpp_plus", "ifeval", "ifbench", "arena_hard"):
            stops = registry.load(name).default_kind.stages[0].stops
            assert "\n\n" not in (*stops.tokens, *stops.suffixes)
            assert "\nUser:" in stops.suffixes

    def test_livecodebench(self) -> None:
        cot, final = registry.load("livecodebench").default_kind.stages
        assert cot.sampling == final.sampling
        assert (cot.sampling.max_tokens, cot.sampling.temperature, cot.sampling.decay) == (8192, 0.6, 0.996)
        assert cot.stops == Stops()
        assert final.stops == Stops(end_of_text=False, tokens=("```", " ```"))

    def test_instructions(self) -> None:
        kinds = registry.load("ifeval").kinds
        v1 = kinds["instruction_following.rwkv-skills-v1"]
        assert v1.stages[0].sampling == Sampling(
            max_tokens=4096,
            temperature=0.3,
            top_k=50,
            top_p=0.3,
            presence=0.5,
            frequency=0.5,
            decay=0.99,
            unpenalised=UNPENALISED,
            banned=(" <",),
        )
        assert v1.stages[0].stops == Stops(tokens=("\n\n", "User"))
        assert kinds["instruction_following.rwkv-skills-v1-thinking"].stages[0].sampling.banned == ()
        assert kinds["instruction_following.lm-eval"].stages[0].stops == Stops()

    @pytest.mark.parametrize(
        ("name", "kind", "repeats", "metrics"),
        [
            ("human_eval_plus", "code_human_eval", 1, ("pass@1", "base")),
            ("livecodebench", "code_livecodebench", 1, ("pass@1",)),
            ("livecodebench", "code_livecodebench.livecodebench", 10, ("pass@1", "pass@5")),
            ("ifeval", "instruction_following", 4, ("accuracy", "avg@4", "prompt_loose", "inst_strict", "inst_loose")),
            ("ifbench", "instruction_following", 1, ("prompt_loose", "accuracy", "inst_loose", "inst_strict")),
            ("arena_hard", "pairwise_judge", 1, ("accuracy", "agreed")),
            ("flores200", "translation", 1, ("chrf", "bleu")),
        ],
    )
    def test_how_often_and_what_is_reported(self, name: str, kind: str, repeats: int, metrics: tuple[str, ...]) -> None:
        found = registry.load(name).kinds[kind]
        assert (found.repeats, found.metrics) == (repeats, metrics)


class TestArena:
    """Prompts and answers of two files become rows of pairs."""

    def test_both_forms_are_joined_by_their_ids(self) -> None:
        answer = {"role": "assistant", "content": {"answer": "New."}}
        raws = [
            {"uid": "a", "category": "arena-hard-v0.1", "cluster": "K", "prompt": "New?"},
            {"question_id": "b", "cluster": "K", "turns": [{"content": "Old?"}]},
            {"uid": "a", "model": "gpt-4-0314", "messages": [{"role": "user", "content": "New?"}, answer]},
            {"question_id": "b", "choices": [{"index": 0, "turns": [{"content": "Old.", "token_len": 2}]}]},
        ]
        benchmark = registry.load("arena_hard")
        found = [benchmark.convert(raw) for raw in arena_rows.joined(raws)]
        assert [(row["question"], row["baseline"], row["id"]) for row in found] == [
            ("New?", "New.", "a"),
            ("Old?", "Old.", "b"),
        ]

    def test_a_prompt_without_an_answer_to_compare_with_is_refused(self) -> None:
        [raw] = arena_rows.joined([{"uid": "a", "prompt": "New?"}])
        with pytest.raises(RowError, match="no answer of gpt-4-0314"):
            registry.load("arena_hard").convert(raw)

    def test_only_an_empty_answer_has_a_verdict_before_the_judge_speaks(self) -> None:
        kind = registry.load("arena_hard").default_kind
        row = {"question": "Q", "baseline": "B", "answer": arena_rows.BASELINE}
        waiting, lost = kind.grade(row, Answer(" Said.", ("stop_token",))), kind.grade(row, Answer("", ("length",)))
        assert (waiting.value, waiting.reason, waiting.extracted) == (None, "unjudged", "Said.")
        assert (lost.value, lost.reason, dict(lost.parts)) == (0.0, "no_answer", chat._LOST)
        assert kind.grader.judge is not None
        assert kind.grader.judge.name == "arena-pairwise-v1"


class TestTranslation:
    """Rows of the translation benchmarks WMT24++ and FLORES-200."""

    def test_bad_sources_and_other_pairs_are_left_out(self) -> None:
        wmt24pp = registry.load("wmt24pp")
        assert wmt24pp.convert({**WMT, "is_bad_source": True}) is None
        assert wmt24pp.convert({**WMT, "lp": "en-zu_ZA"}) is None

    def test_sentences_become_translations_into_every_other_language(self) -> None:
        raws = [
            {"id": number, "iso_639_3": code[:3], "iso_15924": code[4:], "text": f"{code} {number}"}
            for code in (*translation_rows.FLORES, "zul_Latn")
            for number in range(2)
            if (code, number) != ("jpn_Jpan", 1)
        ]
        flores = registry.load("flores200")
        found = [flores.convert(raw) for raw in translation_rows.flores_pairs(raws)]
        assert len(found) == 30 * 2 - 10
        assert {row["pair"] for row in found} == {
            f"{a}-{b}" for a in translation_rows.FLORES for b in translation_rows.FLORES if a != b
        }
        assert found[0]["question"] == "eng_Latn 0"
        assert (found[0]["answer"], found[0]["target_language"]) == ("deu_Latn 0", "German")

    @pytest.mark.parametrize("note", ["_config", "_file"])
    def test_a_language_is_told_by_its_file_if_not_by_its_columns(self, note: str) -> None:
        assert translation_rows.flores_language({"id": 1, "text": "x", note: "ita_Latn"}) == "ita_Latn"
