"""The bits of texts: what they say is absent is absent."""

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.ngram_filter import LEAST_BITS, bits_of, may_have, pieces_of

TEXTS = st.lists(st.text(max_size=40), max_size=5)


@given(TEXTS, st.data())
def test_a_part_of_a_text_may_always_be_there(texts: list[str], data: st.DataObject) -> None:
    bits = bits_of(texts)
    for text in texts:
        start = data.draw(st.integers(0, len(text)))
        part = text[start : data.draw(st.integers(start, len(text)))]
        assert may_have(bits, pieces_of(part))
        assert may_have(bits, pieces_of(part.encode().upper().decode()))


def test_what_is_not_there_is_mostly_known_not_to_be() -> None:
    prose = [f"The answer to question {number} is {number * 7}, because it was said so." for number in range(300)]
    bits = bits_of(prose)
    assert len(bits) < sum(map(len, prose)), "they are less than the text"
    absent = [f"Kowalski {number} went home" for number in range(200)]
    assert sum(may_have(bits, pieces_of(text)) for text in absent) < 3
    assert not may_have(bits_of([]), pieces_of("abc"))
    assert len(bits_of([])) == LEAST_BITS // 8


def test_of_short_texts_and_of_nul_nothing_is_known() -> None:
    for text in ("", "a", "ab", "é", "a\0bcdefgh", "\U0010fffe0"):
        assert not pieces_of(text)
    assert pieces_of("abc")
    assert may_have(bits_of(["Ünïcödé und mehr"]), pieces_of("ïcöd"))
