"""Every text of every request has an end."""

from typing import get_args

import msgspec
import pytest
from msgspec import inspect

from rwkv_daemon.api import text_limits
from rwkvctl.protocol.requests import PlanRequest, Selection
from rwkvctl.protocol.routes import AnyRequest, StreamRequest

TOO_LONG = "x" * 50_000


def value_of(kind, text):
    """Something of this type that holds the text wherever it can hold one."""
    match kind:
        case inspect.StructType():
            return {field.encode_name: value_of(field.type, text) for field in kind.fields}
        case inspect.UnionType():
            return value_of(next(part for part in kind.types if not isinstance(part, inspect.NoneType)), text)
        case inspect.VarTupleType():
            return [value_of(kind.item_type, text)]
        case inspect.DictType():
            return {"key": value_of(kind.value_type, text)}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.5
    return text


def places(kind):
    """The fields of a request that hold text, each with a request in which it alone is too long."""
    whole = value_of(inspect.type_info(kind), "x")
    for field in inspect.type_info(kind).fields:
        long = value_of(field.type, TOO_LONG)
        if "xxx" in str(long):
            yield field.name, msgspec.convert(whole | {field.encode_name: long}, kind)


@pytest.mark.parametrize("kind", [*get_args(AnyRequest), *get_args(StreamRequest)], ids=lambda kind: kind.__name__)
def test_no_text_of_a_request_is_without_an_end(kind):
    for name, request in places(kind):
        assert "characters; there are 50,000" in text_limits.too_long(request), name
    assert not text_limits.too_long(msgspec.convert(value_of(inspect.type_info(kind), "x"), kind))


def test_names_in_tables_have_an_end_too():
    said = text_limits.too_long(PlanRequest(selection=Selection(settings={TOO_LONG: "1"})))
    assert said == "`name` may have 255 characters; there are 50,000."
    assert not text_limits.too_long(PlanRequest(selection=Selection(settings={"prompt": "x" * 20_000})))
