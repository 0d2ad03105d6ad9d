"""Grammars without a model: whatever a guide allows, and however it is chosen from, the end is what was asked for."""

import asyncio
import json
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rwkv_engine import grammars as module
from rwkv_engine.errors import ConstraintError
from rwkv_engine.grammars import Grammars
from rwkv_engine.guide import Guide, sentence
from rwkv_engine.rehearsal import Rehearsal
from rwkv_engine.tokenizer import WORLD_TOKENS, for_vocabulary
from rwkv_kernels.draw import Mask
from rwkvctl.protocol.engine import Constraint

BYTES, WORLD = 257, 65536


@cache
def grammars(vocabulary: int) -> Grammars:
    return Grammars(for_vocabulary(vocabulary))


def array_in(mask: Mask) -> NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def ids_in(mask: Mask) -> list[int]:
    return array_in(mask).tolist()


def walk(vocabulary: int, constraint: Constraint, seed: int, most: int = 400) -> tuple[str, bool]:
    """A random way through a grammar: its text, and whether it came to the end."""
    guide, rng, ids = grammars(vocabulary).compiled(constraint).begin(), random.Random(seed), list[int]()
    tokenizer = for_vocabulary_once(vocabulary)
    while len(ids) < most:
        able = array_in(guide.allowed(ids))
        assert len(able), guide.fault
        assert able[-1] <= (WORLD_TOKENS if vocabulary == WORLD else vocabulary - 1)
        token = int(able[rng.randrange(len(able))])
        if token == 0:
            return tokenizer.decode_bytes(ids).decode(), True
        assert tokenizer.token_bytes(token)
        ids.append(token)
    return tokenizer.decode(ids), False


for_vocabulary_once = cache(for_vocabulary)

characters = st.characters(codec="utf-8") | st.sampled_from("\\\"'/\n\t\0 .*+?()[]{}|^$#&-~")
choice_sets = st.lists(st.text(characters, min_size=1, max_size=6), min_size=1, max_size=6).map(tuple)


@pytest.mark.parametrize("vocabulary", [BYTES, WORLD])
@settings(max_examples=40, deadline=None)
@given(choices=choice_sets, lead=st.sampled_from(["", "", " ", ">\n", '"é/']), seed=st.integers(0, 1000))
def test_it_is_always_one_of_the_choices(vocabulary: int, choices: tuple[str, ...], lead: str, seed: int) -> None:
    for number in range(6):
        text, ended = walk(vocabulary, Constraint(choices=choices, lead=lead), 1000 * seed + number)
        assert ended
        assert text.startswith(lead)
        assert text.removeprefix(lead) in choices


@pytest.mark.parametrize("vocabulary", [BYTES, WORLD])
def test_every_choice_can_be_reached_and_one_may_begin_with_another(vocabulary: int) -> None:
    choices = ("a", "ab", "abc", "日本", "日本語", "%json {}", "(?i)q")
    assert {walk(vocabulary, Constraint(choices=choices), seed)[0] for seed in range(300)} == set(choices)


EXPRESSIONS = [
    r"[ab]{3,5}(é|ü)+", r"[0-9]{1,3}(\.[0-9]+)?", r"(yes|no), because [^\n]{0,40}\.", r"", r"a*", r"(?i)hello",
    r"[A-ZÄ][a-zß日]{2,6}", r"x/y\\z", r"[^\x00-\x7f]{3,9}", r"(?s).{2}", r"^ab$", r"(a|aa)*c", r"[ab]*a[ab]{12}c",
]  # fmt: skip


@pytest.mark.parametrize("vocabulary", [BYTES, WORLD])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_always_matches_the_expression(vocabulary: int, expression: str) -> None:
    ended = 0
    for seed in range(12):
        text, whole = walk(vocabulary, Constraint(regex=expression), seed, most=80)
        ended += whole
        if whole:
            assert re.fullmatch(expression, text), text
    assert ended


ADDRESS = {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["zip"],
           "additionalProperties": False}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["x", "ÿ", 3, None]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        "at": ADDRESS,
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}]},
    },
    "required": ["name", "age", "kind", "tags", "at"],
    "additionalProperties": False,
    "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": "é"}], "items": False,
                       "minItems": 2}},
}  # fmt: skip


def is_person(value: Any) -> bool:
    """SCHEMA by hand."""
    return (
        set(value) - {"more"} == set(SCHEMA["required"])
        and isinstance(value["name"], str) and 1 <= len(value["name"]) <= 6
        and type(value["age"]) is int and 0 <= value["age"] <= 130
        and value["kind"] in ["x", "ÿ", 3, None]
        and 1 <= len(value["tags"]) <= 3 and all(isinstance(tag, bool) for tag in value["tags"])
        and set(value["at"]) == {"zip"} and re.fullmatch("[0-9]{5}", value["at"]["zip"]) is not None
        and ("more" not in value or value["more"] is None or value["more"] in [[True, "é"], [False, "é"]])
    )  # fmt: skip


@pytest.mark.parametrize("vocabulary", [BYTES, WORLD])
@pytest.mark.parametrize("lead", ["", " "])
def test_it_always_fulfils_the_schema(vocabulary: int, lead: str) -> None:
    for seed in range(25):
        text, ended = walk(vocabulary, Constraint(json_schema=SCHEMA, lead=lead), seed, most=2000)
        assert ended
        assert text.startswith(lead)
        assert is_person(json.loads(text)), text
        assert not re.search(r"[ \n]{34}", text)


@pytest.mark.parametrize("vocabulary", [BYTES, WORLD])
def test_it_is_any_object(vocabulary: int) -> None:
    found = [walk(vocabulary, Constraint(json=True), seed, most=60) for seed in range(20)]
    whole = [json.loads(text) for text, ended in found if ended]
    assert whole
    assert all(isinstance(value, dict) for value in whole)


def test_a_guide_is_a_function_of_the_ids() -> None:
    """Whatever other samples have explored in the grammar they share, and however the ids came."""
    grammar = grammars(WORLD).compiled(Constraint(json_schema=SCHEMA))
    ids = for_vocabulary_once(WORLD).encode('{"name": "日本", "age": 12, "kind": "ÿ"')
    step_by_step, masks = grammar.begin(), []
    for count in range(len(ids) + 1):
        masks.append(ids_in(step_by_step.allowed(ids[:count])))
        assert masks[-1] == ids_in(step_by_step.allowed(ids[:count]))
    fresh = Grammars(for_vocabulary_once(WORLD)).compiled(Constraint(json_schema=SCHEMA))
    for guide_of in (grammar, fresh):
        for count in (len(ids), 3, 0):
            assert ids_in(guide_of.begin().allowed(ids[:count])) == masks[count]
    assert 0 not in masks[-1]


def test_forced_text_is_spelt_as_prompts_are() -> None:
    tokenizer, text = for_vocabulary_once(WORLD), "The answer is: 日本 " + "and so on, " * 300
    guide, ids = grammars(WORLD).compiled(Constraint(choices=(text,))).begin(), list[int]()
    while (able := ids_in(guide.allowed(ids))) != [0]:
        assert len(able) == 1 or len(tokenizer.decode(ids)) > len(text) - 200
        ids.append(max(able, key=lambda token: len(tokenizer.token_bytes(token))))
    assert ids == tokenizer.encode(text)


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A child that gives up soon."""
    rehearsal = Rehearsal(0.3)
    monkeypatch.setattr(module, "_rehearsal", lambda: rehearsal)
    yield
    rehearsal.close()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_soon(name: str, impatient: None) -> None:
    constraint, words = REFUSED[name]
    began_s = time.process_time()
    for _ in range(2):
        with pytest.raises(ConstraintError, match=words) as refusal:
            grammars(BYTES).compiled(constraint)
        assert str(refusal.value).startswith("constraint: ")
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 400
    assert time.process_time() - began_s < 2


def test_a_child_that_died_is_replaced(impatient: None) -> None:
    made = Grammars(for_vocabulary_once(BYTES))
    for _ in range(2):
        with pytest.raises(ConstraintError, match="takes more than"):
            made.compiled(REFUSED["a great modulus"][0])
        assert made.compiled(Constraint(regex="[ab]")).begin().allowed(())[3]


def test_a_child_that_does_not_start_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "failed" in Rehearsal().fault("{}")


def test_without_the_library_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(ConstraintError, match=r"needs the package llguidance.*rwkvctl\[engine\]"):
        grammars(BYTES).compiled(Constraint(choices=("a",)))


def test_a_grammar_is_compiled_once_and_the_last_used_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    made = Grammars(for_vocabulary_once(BYTES))
    a, b, c = (Constraint(choices=(text,)) for text in "abc")
    first, second = made.compiled(a), made.compiled(b)
    assert made.compiled(Constraint(choices=("a",))) is first
    made.compiled(c)
    assert made.compiled(a) is first
    assert made.compiled(b) is not second


def test_a_grammar_whose_automaton_outgrows_its_bound_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STATES", 300)
    made = Grammars(for_vocabulary_once(BYTES))
    wide = Constraint(regex="(.{0,60}x){0,60}")
    grammar = made.compiled(wide)
    guide = outgrown(grammar.begin())
    assert "too many states" in guide.fault
    assert not guide.allowed([1]).any()
    assert made.compiled(wide) is not grammar
    assert made.compiled(wide).begin().allowed([98]).any()


def outgrown(guide: Guide) -> Guide:
    rng, ids = random.Random(1), list[int]()
    while able := ids_in(guide.allowed(ids)):
        ids.append(rng.choice(able[1:]))
    return guide


async def test_compiling_holds_up_neither_the_loop_nor_who_asks_for_a_known_one(impatient: None) -> None:
    made = Grammars(for_vocabulary_once(BYTES))
    known, hostile = Constraint(choices=("a",)), REFUSED["patterns in pairs"][0]
    made.compiled(known)
    preparing = asyncio.ensure_future(made.prepare([known, None, hostile, Constraint()]))
    ticks = 0
    while not preparing.done():
        began_s = time.monotonic()
        await asyncio.sleep(0.001)
        made.compiled(known)
        ticks += time.monotonic() - began_s < 0.1
    assert ticks > 20
    with pytest.raises(ConstraintError, match="takes more than"):
        made.compiled(hostile)


def test_one_of_many_threads_compiles() -> None:
    made, found = Grammars(for_vocabulary_once(BYTES)), list[object]()
    threads = [
        threading.Thread(target=lambda: found.append(made.compiled(Constraint(regex="[ab]{3}")))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ("NoExtensionBias\n<non-verbose/>", "nothing fulfils it"),
        ("at 1(8): invalid\n  regex\n   1 | start: /x/\n", "invalid regex"),
        ("x" * 400, "x" * 300 + " ..."),
    ],
)
def test_the_librarys_report_becomes_a_sentence(report: str, told: str) -> None:
    assert sentence(report) == told
