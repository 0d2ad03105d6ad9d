"""What a word is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.cleaning.words import grams_of, signs_of, squeezed, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is  2+2?", "what is 2 2"),
        (r"$\frac{1}{2}$ of $x_1$", "frac 1 2 of x 1"),
        ("Ｗｈａｔ ｉｓ ①？", "what is 1"),  # NFKC
        ("ﬁne, x² ½", "fine x2 1 2"),
        ("naïve e\u0301tude", "naïve étude"),
        ("two\u00adpart sp\u200blit \ufeffx\ufe0f", "twopart split x"),  # what is not seen parts no word
        ("e\u200d\u0301tude Na\u3164ta\u115flia \u17b4x", "étude natalia x"),
        ("na" + "\u200b" * 99 + "ta" + "!" * 99 + "lia", "nata lia"),
        ("a\u00a0b\u3000c\td\n\ne", "a b c d e"),
        ("一本书有99页。", "一 本 书 有 99 页"),
        ("カタカナとひらがな", "カ タ カ ナ と ひ ら が な"),
        ("ภาษาไทย", " ".join("ภาษาไทย")),
        ("한국어 문장", "한국어 문장"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),  # marks belong to their word
        ("a\ud800b", "a b"),  # JSON may hold lone surrogates
        ("!?… 😀 ∫", ""),
        ("", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    assert words_of(text) == words


@given(st.text())
def test_words_have_one_blank_between_them_and_can_be_written(text: str) -> None:
    words = words_of(text)
    assert words == " ".join(words.split())
    words.encode()
    assert not any(unicodedata.category(char)[0] in "PSC" for char in words)


@given(st.text("ab1 é中+-$.,;"))
def test_case_blanks_and_punctuation_do_not_count(text: str) -> None:
    words = words_of(text)
    assert words_of(text.upper()) == words
    assert words_of(f"\u3000{text.replace(' ', chr(0x2009) + chr(10))}?!") == words
    assert words_of(unicodedata.normalize("NFD", text)) == words
    assert words_of(words) == words


def test_marks_in_the_tens_of_thousands_are_no_trap() -> None:
    """NFKC of this many marks in the wrong order would take hours: a hostile row fits a megabyte of them."""
    marks = "\u0301\u0327" * (1 << 19)
    assert words_of(f"a{marks} b").endswith(" b")
    assert words_of("か" + "ﾞ\u0301" * (1 << 19) + " b").endswith(" b")
    assert signs_of(f"1{marks}+2") == "+"


def test_blanks_do_not_count_for_equality_but_between_numbers() -> None:
    assert squeezed("2 x 3 14 中 文") == "2x3 14中文"
    assert squeezed("3 14") != squeezed("31 4")


@pytest.mark.parametrize(
    ("text", "signs"),
    [("17+25=", "+="), ("17-25", "-"), ("17−25", "-"), ("x-y", "-"), ("a two-digit number", ""), ("5! - 1", "!-"),
     ("What?!", ""), ("$a < b$", "<")],
)  # fmt: skip
def test_signs(text: str, signs: str) -> None:
    assert signs_of(text) == signs


def test_grams() -> None:
    assert grams_of("a b c b", 2) == {"a b", "b c", "c b"}
    assert grams_of("a b", 3) == set()
