"""Constraints as the grammars that llguidance understands. Unusable constraints are refused here, by field."""

import json
from typing import Any

from rwkv_engine.errors import ConstraintError, ItemError
from rwkv_engine.tokenizer import utf8
from rwkvctl.protocol.engine import Constraint

LARGEST = 1 << 16  # characters of a constraint: forced text of that length costs a step a fraction of a second
MOST_CHOICES = 4096
ANY_OBJECT = {"type": "object"}
BLANKS = r"[ ]|\n[ ]{0,32}"  # at most once at a place: without a bound a weak model writes blanks without end
LARK_START = "start: "
ESCAPES = str.maketrans({character: f"\\{character}" for character in r"\.+*?()|[]{}^$#&-~"})


def grammar_of(constraint: Constraint) -> str:
    """Return the source of a constraint's grammar. Raises ConstraintError if the constraint cannot be used."""
    given = [constraint.choices is not None, constraint.json_schema is not None, constraint.json,
             constraint.regex is not None]  # fmt: skip
    if sum(given) != 1:
        raise ConstraintError("set exactly one of choices, json_schema, json, regex")
    if constraint.regex is not None:
        _check_size(constraint.regex, constraint.lead)
        return _of_regex(constraint.regex, constraint.lead)
    if constraint.choices is not None:
        _check_size(*constraint.choices, constraint.lead)
        return _of_regex(_alternatives(constraint.choices), constraint.lead)
    return _of_schema(constraint.json_schema if constraint.json_schema is not None else ANY_OBJECT, constraint.lead)


def is_cheap(constraint: Constraint) -> bool:
    """Whether compiling a constraint takes time in proportion to its length: literal texts, and `ANY_OBJECT`."""
    return constraint.choices is not None or constraint.json


def _alternatives(choices: tuple[str, ...]) -> str:
    """Return a regex for one of these texts: a single lexeme, which llguidance follows faster than alternatives."""
    if not choices or "" in choices:
        raise ConstraintError("choices must not be empty, and no choice may be an empty text")
    if len(choices) > MOST_CHOICES:
        raise ConstraintError(f"there are {len(choices)} choices; the engine takes {MOST_CHOICES} at most")
    return "|".join(choice.translate(ESCAPES) for choice in choices)


def _of_regex(regex: str, lead: str) -> str:
    from llguidance import LLMatcher

    grammar = json.loads(LLMatcher.grammar_from_regex(regex))
    if lead:
        part = grammar["grammars"][0]
        part["lark_grammar"] = _led(part["lark_grammar"].removeprefix(LARK_START), lead)
    return json.dumps(grammar)


def _of_schema(schema: dict[str, Any], lead: str) -> str:
    try:
        text = json.dumps(schema, ensure_ascii=False)
        _check_size(text, lead)
        own = schema.get("x-guidance")
        asked = own if isinstance(own, dict) else {}
        spaced = {**schema, "x-guidance": {"whitespace_pattern": BLANKS, **asked}}
        body = json.dumps(spaced, ensure_ascii=False)
    except RecursionError:
        raise ConstraintError("the schema is nested too deeply") from None
    if lead:
        return json.dumps({"grammars": [{"lark_grammar": _led(f"%json {body}", lead)}]})
    return f'{{"grammars": [{{"json_schema": {body}}}]}}'


def _led(body: str, lead: str) -> str:
    """Return a Lark grammar for a fixed text followed by the body."""
    return f"{LARK_START}{json.dumps(lead)} body\nbody: {body}"


def _check_size(*texts: str) -> None:
    try:
        length = sum(len(utf8(text)) for text in texts)
    except ItemError as error:
        raise ConstraintError(str(error)) from error
    if length > LARGEST:
        raise ConstraintError(f"it has {length} bytes; the engine takes {LARGEST} at most")
