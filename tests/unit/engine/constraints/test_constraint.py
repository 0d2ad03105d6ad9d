"""Grammars without a model: any choice among the tokens that a guide allows ends in a text of the grammar."""

import asyncio
import json
import random
import re
import sys
import threading
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from vocabularies import vocabulary
from waiting import LIMIT_S

from rwkv_engine.constraints import compiled
from rwkv_engine.constraints.compiled import Grammars
from rwkv_engine.constraints.guide import Guide, sentence
from rwkv_engine.errors import ConstraintError
from rwkv_engine.tokenizer import WORLD_TOKENS
from rwkv_kernels.draw import Mask
from rwkvctl.protocol.engine import Constraint

BYTES, WORLD = 257, 65536


@cache
def grammars(size: int) -> Grammars:
    return Grammars(vocabulary(size))


def array_in(mask: Mask) -> NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def ids_in(mask: Mask) -> list[int]:
    return array_in(mask).tolist()


def walk(size: int, constraint: Constraint, seed: int, most: int = 400) -> tuple[str, bool]:
    """Return the text of a random walk through a grammar, and whether it reached the end."""
    guide, rng, ids = grammars(size).compiled(constraint).begin(), random.Random(seed), list[int]()
    tokenizer = vocabulary(size)
    while len(ids) < most:
        able = array_in(guide.allowed(ids))
        assert len(able), guide.fault
        assert able[-1] <= (WORLD_TOKENS if size == WORLD else size - 1)
        token = int(able[rng.randrange(len(able))])
        if token == 0:
            return tokenizer.decode_bytes(ids).decode(), True
        assert tokenizer.token_bytes(token)
        ids.append(token)
    return tokenizer.decode(ids), False


characters = st.characters(codec="utf-8") | st.sampled_from("\\\"'/\n\t\0 .*+?()[]{}|^$#&-~")
choice_sets = st.lists(st.text(characters, min_size=1, max_size=6), min_size=1, max_size=6).map(tuple)


@pytest.mark.parametrize("size", [BYTES, WORLD])
@settings(max_examples=40, deadline=None)
@given(choices=choice_sets, lead=st.sampled_from(["", "", " ", ">\n", '"é/']), seed=st.integers(0, 1000))
def test_it_is_always_one_of_the_choices(size: int, choices: tuple[str, ...], lead: str, seed: int) -> None:
    for number in range(6):
        text, ended = walk(size, Constraint(choices=choices, lead=lead), 1000 * seed + number)
        assert ended
        assert text.startswith(lead)
        assert text.removeprefix(lead) in choices


@pytest.mark.parametrize("size", [BYTES, WORLD])
def test_every_choice_can_be_reached_and_one_may_begin_with_another(size: int) -> None:
    choices = ("a", "ab", "abc", "日本", "日本語", "%json {}", "(?i)q")
    assert {walk(size, Constraint(choices=choices), seed)[0] for seed in range(300)} == set(choices)


EXPRESSIONS = [
    r"[ab]{3,5}(é|ü)+", r"[0-9]{1,3}(\.[0-9]+)?", r"(yes|no), because [^\n]{0,40}\.", r"", r"a*", r"(?i)hello",
    r"[A-ZÄ][a-zß日]{2,6}", r"x/y\\z", r"[^\x00-\x7f]{3,9}", r"(?s).{2}", r"^ab$", r"(a|aa)*c", r"[ab]*a[ab]{12}c",
]  # fmt: skip


@pytest.mark.parametrize("size", [BYTES, WORLD])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_always_matches_the_expression(size: int, expression: str) -> None:
    ended = 0
    for seed in range(12):
        text, whole = walk(size, Constraint(regex=expression), seed, most=80)
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
    """Whether a value satisfies SCHEMA, checked without a schema library."""
    return (
        set(value) - {"more"} == set(SCHEMA["required"])
        and isinstance(value["name"], str) and 1 <= len(value["name"]) <= 6
        and type(value["age"]) is int and 0 <= value["age"] <= 130
        and value["kind"] in ["x", "ÿ", 3, None]
        and 1 <= len(value["tags"]) <= 3 and all(isinstance(tag, bool) for tag in value["tags"])
        and set(value["at"]) == {"zip"} and re.fullmatch("[0-9]{5}", value["at"]["zip"]) is not None
        and ("more" not in value or value["more"] is None or value["more"] in [[True, "é"], [False, "é"]])
    )  # fmt: skip


@pytest.mark.parametrize("size", [BYTES, WORLD])
@pytest.mark.parametrize("lead", ["", " "])
def test_it_always_fulfils_the_schema(size: int, lead: str) -> None:
    for seed in range(25):
        text, ended = walk(size, Constraint(json_schema=SCHEMA, lead=lead), seed, most=2000)
        assert ended
        assert text.startswith(lead)
        assert is_person(json.loads(text)), text
        assert not re.search(r"[ \n]{34}", text)


@pytest.mark.parametrize("size", [BYTES, WORLD])
def test_it_is_any_object(size: int) -> None:
    found = [walk(size, Constraint(json=True), seed, most=60) for seed in range(20)]
    whole = [json.loads(text) for text, ended in found if ended]
    assert whole
    assert all(isinstance(value, dict) for value in whole)


def test_a_guide_is_a_function_of_the_ids() -> None:
    """A guide does not depend on other samples of its grammar, nor on how the ids were split into calls."""
    grammar = grammars(WORLD).compiled(Constraint(json_schema=SCHEMA))
    ids = vocabulary(WORLD).encode('{"name": "日本", "age": 12, "kind": "ÿ"')
    step_by_step, masks = grammar.begin(), []
    for count in range(len(ids) + 1):
        masks.append(ids_in(step_by_step.allowed(ids[:count])))
        assert masks[-1] == ids_in(step_by_step.allowed(ids[:count]))
    fresh = Grammars(vocabulary(WORLD)).compiled(Constraint(json_schema=SCHEMA))
    for guide_of in (grammar, fresh):
        for count in (len(ids), 3, 0):
            assert ids_in(guide_of.begin().allowed(ids[:count])) == masks[count]
    assert 0 not in masks[-1]


def test_forced_text_is_spelt_as_prompts_are() -> None:
    tokenizer, text = vocabulary(WORLD), "The answer is: 日本 " + "and so on, " * 300
    guide, ids = grammars(WORLD).compiled(Constraint(choices=(text,))).begin(), list[int]()
    while (able := ids_in(guide.allowed(ids))) != [0]:
        assert len(able) == 1 or len(tokenizer.decode(ids)) > len(text) - 200
        ids.append(max(able, key=lambda token: len(tokenizer.token_bytes(token))))
    assert ids == tokenizer.encode(text)


def test_without_the_library_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(ConstraintError, match=r"needs the package llguidance.*rwkvctl\[engine\]"):
        grammars(BYTES).compiled(Constraint(choices=("a",)))


def test_a_grammar_is_compiled_once_and_the_last_used_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_KEPT", 2)
    made = Grammars(vocabulary(BYTES))
    a, b, c = (Constraint(choices=(text,)) for text in "abc")
    first, second = made.compiled(a), made.compiled(b)
    assert made.compiled(Constraint(choices=("a",))) is first
    made.compiled(c)
    assert made.compiled(a) is first
    assert made.compiled(b) is not second


def test_a_grammar_whose_automaton_outgrows_its_bound_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_STATES", 300)
    made = Grammars(vocabulary(BYTES))
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


class BlockedCompiler:
    """A trial compiler that works until it is released, and refuses every grammar."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def fault(self, _grammar: str) -> str:
        self.begun.set()
        assert self.let_go.wait(LIMIT_S)
        return "it takes more than anybody has"


async def test_compiling_holds_up_neither_the_loop_nor_who_asks_for_a_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = BlockedCompiler()
    monkeypatch.setattr(compiled, "_trial_compiler", lambda: held)
    made = Grammars(vocabulary(BYTES))
    known, hostile = Constraint(choices=("a",)), Constraint(regex="(a{1000}){1000}")
    made.compiled(known)
    preparing = asyncio.ensure_future(made.prepare([known, None, hostile, Constraint()]))
    assert await asyncio.to_thread(held.begun.wait, LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.to_thread(made.compiled, known)
    assert not preparing.done()
    held.let_go.set()
    await preparing
    with pytest.raises(ConstraintError, match="takes more than"):
        made.compiled(hostile)


def test_one_of_many_threads_compiles() -> None:
    made, found = Grammars(vocabulary(BYTES)), list[object]()
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
