"""Answers that try to pass without solving the task: none does."""

import uuid

from rwkv_data.sandbox import Limits


def test_a_verdict_cannot_be_forged(box, forgery: tuple[str, str]) -> None:
    outcome = box.check(forgery[1])
    assert outcome.status not in {"passed", "error"}, outcome


def test_the_right_answer_passes(box) -> None:
    outcome = box.check("def add(a, b): return a + b")
    assert (outcome.status, outcome.result) == ("passed", {"tests": 1, "passed": 1})


SEARCH = """
import re
found = []
def look(text):
    text = text if isinstance(text, bytes) else text.encode(errors='replace')
    found.extend(re.findall(rb'sec[r]et-[0-9a-f]{32}', text))
def add(a, b):
    PLANT
    exec(PLACE, globals())
    return found[0].decode() if found else None
"""


def test_what_is_expected_is_nowhere_in_the_answers_process(box, search: tuple[str, str]) -> None:
    """Not even after others have given the right answer; and the search does find what is there."""
    roomy = Limits(cpu_s=30.0, memory_mb=1024)
    number = uuid.uuid4().hex
    data = {"before": "", "tests": [f"assert add(2, 3) == 'secret-{number}'"], "functions": ["add"]}
    for _ in range(3):
        assert box.check(f"def add(a, b): return 'secret-{number}'", data).status == "passed"
    place, code = search
    program = f"PLACE = {code!r}\n{SEARCH}"
    assert box.check(program.replace("PLANT", "pass"), data, roomy).status == "failed"
    if place != "descriptors":
        plant = f"global here\n    here = other = ['secr' + 'et-{number}'] * 2"
        assert box.check(program.replace("PLANT", plant), data, roomy).status == "passed"


def test_a_helper_of_the_prompt_that_the_answer_replaces_is_the_genuine_one_in_the_tests(box) -> None:
    data = {
        "before": "def poly(x):\n    return x * x - 4\n\ndef root():\n    '''a root of poly'''\n",
        "tests": ["def check(candidate):\n    assert abs(poly(candidate())) < 1e-6\n\ncheck(root)"],
        "functions": ["root"],
    }
    assert box.check("def poly(x): return 0\ndef root(): return 99", data).status == "failed"
    assert box.check("def root(): return 2", data).status == "passed"


def test_a_test_that_swallows_every_exception_does_not_pass_a_dead_answer(box) -> None:
    data = {"before": "", "tests": ["try:\n    add(1, 2)\nexcept:\n    pass"], "functions": ["add"]}
    assert box.check("import os\ndef add(a, b): os._exit(0)", data).status == "killed"


def test_tests_see_exceptions_of_builtin_kinds(box) -> None:
    test = "try:\n    add(1, 2)\n    assert False\nexcept ValueError as error:\n    assert str(error) == 'no'"
    data = {"before": "", "tests": [test], "functions": ["add"]}
    assert box.check("def add(a, b): raise ValueError('no')", data).status == "passed"
    assert box.check("def add(a, b): raise KeyError('no')", data).status == "failed"
    assert box.check("def add(a, b): return 3", data).status == "failed"


def test_objects_of_the_answer_go_there_and_back(box) -> None:
    code = "class P:\n    def __init__(s, a, b): s.a, s.b = a, b\ndef add(ps): return sum(p.a * p.b for p in ps)"
    data = {"before": "", "tests": ["assert add([P(1, 2), P(3, 4)]) == 14"], "functions": ["P", "add"]}
    assert box.check(code, data).status == "passed"


def test_iterators_and_views_can_be_gone_through_but_equal_no_list(box) -> None:
    code = "def add(a, b): return map(int, (a, b))\ndef keys(): return {1: 2}.keys()"
    passes = ["assert list(add(2, 3)) == [2, 3]", "assert set(keys()) == {1}", "assert sorted(add(3, 2)) == [2, 3]"]
    assert box.check(code, {"before": "", "tests": passes, "functions": ["add", "keys"]}).status == "passed"
    data = {"before": "", "tests": ["assert add(2, 3) == [2, 3]"], "functions": ["add"]}
    assert box.check(code, data).status == "failed"
