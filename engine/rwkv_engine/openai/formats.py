"""The format of an answer: OpenAI's `response_format`, and the same in vLLM's fields."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.request_types import SamplingRequest
from rwkvctl.protocol.engine import Constraint


class AnswerFormat(NamedTuple):
    """A constraint, and the field that asks for it."""

    constraint: Constraint
    param: str


def format_of(asked: SamplingRequest, lead: str = "") -> AnswerFormat | None:
    """Return the format that is asked for; `lead` is what the model writes before its answer. Raises Refusal for
    two."""
    found = [*_of_response_format(asked), *_of_structured_outputs(asked), *_of_guides(asked)]
    if not found:
        return None
    first, *more = found
    if more:
        raise bad(more[0].param, f"the answer's format is already set by {first.param}; send one of the two")
    return first._replace(constraint=msgspec.structs.replace(first.constraint, lead=lead))


def _of_response_format(asked: SamplingRequest) -> Iterator[AnswerFormat]:
    param, given = "response_format", asked.response_format
    if given.type == "json_object":
        yield AnswerFormat(Constraint(json=True), param)
    elif given.type == "json_schema":
        if given.json_schema is None or given.json_schema.schema is None:
            raise bad(param, "the type json_schema needs json_schema.schema")
        yield AnswerFormat(Constraint(json_schema=given.json_schema.schema), param)


def _of_structured_outputs(asked: SamplingRequest) -> Iterator[AnswerFormat]:
    param, given = "structured_outputs", asked.structured_outputs
    if given.choice is not None:
        yield AnswerFormat(Constraint(choices=tuple(given.choice)), param)
    if given.json is not None:
        yield AnswerFormat(Constraint(json_schema=schema_of(given.json, param)), param)
    if given.json_object:
        yield AnswerFormat(Constraint(json=True), param)
    if given.regex is not None:
        yield AnswerFormat(Constraint(regex=given.regex), param)


def _of_guides(asked: SamplingRequest) -> Iterator[AnswerFormat]:
    if asked.guided_choice is not None:
        yield AnswerFormat(Constraint(choices=tuple(asked.guided_choice)), "guided_choice")
    if asked.guided_json is not None:
        yield AnswerFormat(Constraint(json_schema=schema_of(asked.guided_json, "guided_json")), "guided_json")
    if asked.guided_regex is not None:
        yield AnswerFormat(Constraint(regex=asked.guided_regex), "guided_regex")


def schema_of(given: dict[str, Any] | str, param: str) -> dict[str, Any]:
    """Return a schema that may have been sent as text. Raises Refusal if the text is not a JSON object."""
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise bad(param, f"it is not a JSON object: {error}") from error
