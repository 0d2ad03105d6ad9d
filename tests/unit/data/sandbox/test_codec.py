"""The codec between processes: values arrive unchanged, and as plain data only."""

import itertools
import json
import math
from collections import Counter, OrderedDict, deque, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.sandbox import codec
from rwkv_data.sandbox.codec import Opaque, Reference, UnreadableError, decode, encode, encode_or_digest

keys = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False), st.binary(max_size=5))
values = st.recursive(
    st.one_of(keys, st.complex_numbers(allow_nan=False), st.binary().map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
    ),
    max_leaves=20,
)


def same(one: object, other: object) -> bool:
    """Whether values are equal and of the same types at every depth; 0.0 is not -0.0."""
    return type(one) is type(other) and (repr(one) == repr(other) or one == other)


@given(values)
def test_what_arrives_is_what_was_sent(value: object) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize("number", [53, 4000, 20_000])
def test_integers_of_any_length(number: int) -> None:
    for value in (2**number, -(2**number), 2**number - 1):
        assert decode(encode(value)) == value


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, "\ud800", "\0", {}, set()])
def test_values_that_json_has_no_word_for(value: object) -> None:
    found = decode(encode(value))
    assert type(found) is type(value)
    assert found == value
    assert not isinstance(value, float) or math.copysign(1, found) == math.copysign(1, value)


def test_not_a_number_stays_none() -> None:
    assert math.isnan(decode(encode(math.nan)))


def test_subclasses_arrive_as_the_plain_type() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    pair = namedtuple("pair", "a b")  # noqa: PYI024
    for value, plain in [
        (Liar(3), 3), (pair(1, 2), (1, 2)), (OrderedDict(a=1), {"a": 1}), (Counter("aab"), {"a": 2, "b": 1}),
        (True, True), (type("S", (str,), {})("x"), "x"), (type("L", (list,), {})([1]), [1]),
    ]:  # fmt: skip
        assert same(decode(encode(value)), plain)


def test_what_cannot_travel_is_equal_to_nothing_and_keeps_its_truth() -> None:
    class Empty:
        def __bool__(self) -> bool:
            return False

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    found = decode(encode(Empty()))
    assert isinstance(found, Opaque)
    assert (bool(found), repr(found)) == (False, "<Empty>")
    assert found != Empty.__name__
    assert decode(encode(object()))
    with pytest.raises(TypeError, match="not iterable"):
        list(found)


@pytest.mark.parametrize("value", [range(3), deque([0, 1, 2]), {0: 1, 1: 1, 2: 1}.keys(), iter([0, 1, 2])])
def test_things_to_go_through_arrive_with_their_items(value: object) -> None:
    found = decode(encode(value))
    assert list(found) == [0, 1, 2]
    assert (len(found), found[1], 2 in found) == (3, 1, True)
    assert found != [0, 1, 2]


def test_what_comes_back_is_what_was_sent_away() -> None:
    mine = object()
    away = decode(encode(mine))
    assert decode(encode([away])) == [mine]


def test_endless_and_circular_values_end() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert isinstance(decode(encode(circle)), Opaque)
    deep: list[object] = []
    for _ in range(10**5):
        deep = [deep]
    assert isinstance(decode(encode(deep)), Opaque)
    with pytest.raises(TypeError):
        len(decode(encode(itertools.count())))


def test_names_and_types() -> None:
    assert decode(encode(Reference("root")), {"root": 7}) == 7
    assert decode(encode([int, str])) == [int, str]
    with pytest.raises(UnreadableError):
        decode(encode(Reference("root")))
    with pytest.raises(UnreadableError):
        decode(encode(memoryview))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"q": 1}', '{"t": 5}', '{"s": [[]]}', '{"i": "x"}', '{"i": 5}', '{"r": "eval"}', '{"r": []}', "{}",
        '{"t": [], "s": []}', '{"h": -1}', '{"h": 99999999}', '{"h": "a"}', '{"h": true}',
        '{"o": []}', '{"o": [1, 2, 3, 4]}',
        '{"d": [1]}', '{"b": "\\u0100"}', '{"c": [1]}', '{"f": "x"}', "[" * 100_000, '{"t":' * 5000, "\xff",
    ],
)  # fmt: skip
def test_text_of_no_value_is_refused(text: str) -> None:
    encode([object(), object()])
    with pytest.raises(UnreadableError):
        decode(text)


def test_a_long_integer_is_refused_before_it_is_read() -> None:
    with pytest.raises(UnreadableError, match="16 million bits"):
        decode(json.dumps({"i": "0x" + "f" * (1 << 23)}))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        decode(text)
    except UnreadableError:
        return


def test_a_huge_value_is_equal_to_the_same_one_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_MOST_ITEMS", 5000)
    huge = [tuple("abcde")] * 1200
    found, again = decode(encode_or_digest(huge)), decode(encode_or_digest(list(huge)))
    assert (found, len(encode_or_digest(huge)) < 100) == (again, True)
    assert found != decode(encode_or_digest([*huge[1:], tuple("abcdf")]))
    assert found != huge
    assert decode(encode_or_digest(huge[:10])) == huge[:10]
    assert len(decode(encode_or_digest([object()] + [1] * 5000))) == 5001
