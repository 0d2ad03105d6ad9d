"""Unusable constraints are found in a child process with limited time and memory."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from functools import cache

import pytest
from effort import bounded
from vocabularies import vocabulary

from rwkv_engine.constraints import compiled
from rwkv_engine.constraints.compile_in_child import TrialCompiler
from rwkv_engine.constraints.compiled import Grammars
from rwkv_engine.constraints.grammar_of import grammar_of
from rwkv_engine.errors import ConstraintError
from rwkvctl.protocol.engine import Constraint

BYTES = 257


@cache
def grammars() -> Grammars:
    return Grammars(vocabulary(BYTES))


NESTED = json.loads("[" * 900 + "]" * 900)
REFUSED: dict[str, tuple[Constraint, str]] = {
    "nothing is set": (Constraint(), "exactly one"),
    "two are set": (Constraint(json=True, regex="a"), "exactly one"),
    "no choices": (Constraint(choices=()), "choices"),
    "an empty choice": (Constraint(choices=("a", "")), "empty"),
    "many choices": (Constraint(choices=tuple(map(str, range(4097)))), "4096"),
    "long choices": (Constraint(choices=("ab" * 40_000,)), "65536"),
    "a lone surrogate": (Constraint(choices=("a\ud800",)), "surrogate"),
    "a lone surrogate to match": (Constraint(regex="a\ud800"), "surrogate"),
    "a lone surrogate before": (Constraint(json=True, lead="\udfff"), "surrogate"),
    "a long expression": (Constraint(regex="a" * 70_000), "65536"),
    "a long schema": (Constraint(json_schema={"enum": list(range(20_000))}), "65536"),
    "deep nesting": (Constraint(json_schema={"enum": NESTED}), "recursion"),
    "look-ahead": (Constraint(regex="(?=a)a"), "look-around"),
    "back reference": (Constraint(regex=r"(a)\1"), "backreferences"),
    "word boundary": (Constraint(regex=r"\bab\b"), "lookarounds"),
    "open group": (Constraint(regex="(a"), "unclosed"),
    "deep groups": (Constraint(regex="(" * 5000 + "a" + ")" * 5000), "invalid regex"),
    "matches nothing": (Constraint(regex=r"[^\s\S]"), "nothing fulfils it"),
    "no such type": (Constraint(json_schema={"type": "strin"}), "strin"),
    "no value": (Constraint(json_schema={"type": "string", "minLength": 5, "maxLength": 3}), "minLength"),
    "an endless reference": (Constraint(json_schema={"$ref": "#"}), "nothing fulfils it"),
    "a reference elsewhere": (Constraint(json_schema={"$ref": "http://127.0.0.1/x.json"}), "not present"),
    "not": (Constraint(json_schema={"not": {"type": "string"}}), "not"),
    "nested repetition": (Constraint(regex="(a{1000}){1000}"), "takes more than|too many"),
    "long repetition": (Constraint(regex="a{1000000}"), "takes more than|too many"),
    "a product of alternatives": (
        Constraint(json_schema={"allOf": [{"anyOf": [{"type": "object", "properties": {f"k{i}{j}": {}}}
                                                     for j in range(4)]} for i in range(12)]}),
        "too large",
    ),
    "patterns in pairs": (
        Constraint(json_schema={"type": "object", "patternProperties": {f"^(a|b){{{i}}}c*$": {} for i in range(900)}}),
        "takes more than",
    ),
    "a great modulus": (Constraint(json_schema={"type": "integer", "multipleOf": 999_983}), "takes more than"),
}  # fmt: skip


@pytest.fixture(scope="module")
def trial_compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialCompiler]:
    """A child with a short limit, shared by these tests; it and its successors are recognised by a folder."""
    made = TrialCompiler(0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIAL_FOLDER", str(tmp_path_factory.mktemp("trial")))
        yield made
    made.close()


@pytest.fixture
def impatient(trial_compiler: TrialCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_trial_compiler", lambda: trial_compiler)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_soon(name: str, impatient: None) -> None:
    constraint, words = REFUSED[name]
    for _ in range(2):
        with bounded(), pytest.raises(ConstraintError, match=words) as refusal:
            grammars().compiled(constraint)
        assert str(refusal.value).startswith("constraint: ")
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 400


def test_what_is_harmless_passes(trial_compiler: TrialCompiler) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}}, "required": ["name"]}
    wanted = [
        Constraint(regex=expression) for expression in (r"", r"(?i)hello", r"[ab]*a[ab]{12}c", r"[^\x00-\x7f]{3,9}")
    ]
    for constraint in (*wanted, Constraint(json_schema=schema), Constraint(json=True, lead=" ")):
        assert trial_compiler.fault(grammar_of(constraint)) == ""


def test_a_child_that_died_is_replaced(impatient: None) -> None:
    made = Grammars(vocabulary(BYTES))
    for _ in range(2):
        with pytest.raises(ConstraintError, match="takes more than"):
            made.compiled(REFUSED["a great modulus"][0])
        assert made.compiled(Constraint(regex="[ab]")).begin().allowed(())[3]


def test_a_child_killed_from_outside_says_nothing_of_a_grammar() -> None:
    made = TrialCompiler()
    fine = grammar_of(Constraint(regex="a+"))
    assert made.fault(fine) == ""
    assert made._child is not None
    made._child.send_signal(signal.SIGSTOP)
    threading.Timer(0.3, made._child.kill).start()
    assert made.fault(fine) == ""
    made.close()


def test_a_child_that_does_not_start_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "failed" in TrialCompiler().fault("{}")
