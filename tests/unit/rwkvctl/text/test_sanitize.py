"""Nothing that a terminal obeys or hides survives `safe_text`; what is readable does."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable

import hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.commands.samples import fold
from rwkvctl.text import sanitize
from rwkvctl.text.sanitize import LINE_END, Styled, cell_width, fit, safe_json, safe_line, safe_text, styled, take
from rwkvctl.tui.widgets.strips import wrapped

EVIL = ["\x1b]52;c;RVZJTA==\x07", "\x1b[2J", "\x9b31m", "\x1b]0;EVIL\x07", "\r", "\x08", "\x7f", "\u202e", "\u2066",
        "\u200b", "\ufeff", "\u2028", "\x85", "\ud800", "\U000e0041", "\x00", "\x0b", "\x0c", "\u061c"]  # fmt: skip


def dangerous(text: str) -> list[str]:
    """Characters that may not reach a terminal."""
    return [
        char
        for char in text
        if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or char in "\u202e\u2066\u200b\u061c"
    ]


@pytest.mark.parametrize("evil", EVIL)
def test_evil_becomes_visible(evil: str) -> None:
    shown = safe_line(f"a{evil}b")
    assert not dangerous(shown)
    assert shown.startswith("a")
    assert shown.endswith("b")
    assert len(shown) > 2


@given(st.text())
def test_any_text_is_safe(text: str) -> None:
    assert not dangerous(safe_line(text))
    assert not dangerous(safe_text(text).replace("\n", "").replace("\t", ""))


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_untouched(text: str) -> None:
    assert safe_text(text) == text


ODD = 'a\u0301\u0302\u00ad\u202e\ud83d\udc9b\ue000\U000e0041\n"\\'
KNOWN = [text for _, text in hostile.HOSTILE_TEXTS if len(text) < 2000]
ANY_TEXT = st.one_of(st.text(), st.text(st.sampled_from(ODD)), st.sampled_from(KNOWN))


@given(ANY_TEXT, ANY_TEXT, st.sampled_from([None, 1]))
def test_json_says_the_same_and_shows_all_that_a_line_would(name: str, text: str, indent: int | None) -> None:
    raw = json.dumps({name: [text, {"x": text}]}, ensure_ascii=False, indent=indent)
    document = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", raw)  # as UTF-8 can hold it
    shown = safe_json(document)
    assert json.loads(shown) == json.loads(document)
    assert safe_text(shown) == shown


def test_json_spells_what_is_hidden_as_escapes() -> None:
    assert safe_json('["pass\u00adword", "\u6570\u00e9"]') == '["pass\\u00adword", "\u6570\u00e9"]'
    assert safe_json('["\U000e0041"]') == '["\\udb40\\udc41"]'
    assert safe_json("[1,\r2]") == "[1,\n2]"


@given(ANY_TEXT)
def test_what_is_joined_to_our_own_is_made_safe(text: str) -> None:
    ours = Styled("\x1b[1m")
    assert styled(ours, text, LINE_END) == f"{ours}{safe_line(text)}\n"
    assert not isinstance(ours + text, Styled)
    assert styled(styled(text)) == styled(text)
    assert safe_line(safe_line(text)) == safe_line(text)


@given(st.text(), st.integers(0, 40), st.sampled_from(["end", "middle"]))
def test_fit_never_exceeds(text: str, width: int, cut: str) -> None:
    line = safe_line(text)
    assert cell_width(fit(line, width, cut)) <= width
    if cell_width(line) <= width:
        assert fit(line, width, cut) == line


def test_fit_cuts_where_it_was_told() -> None:
    assert fit("rwkv7-g1-2.9b", 9) == "rwkv7-g1…"
    assert fit("rwkv7-g1-2.9b", 9, "middle") == "rwkv…2.9b"
    assert cell_width("数学") == 4
    assert take("数学", 3) == "数"


@given(st.text(), st.integers(0, 40))
def test_what_is_taken_fits_and_no_character_more_would(text: str, width: int) -> None:
    line = safe_line(text)
    taken = take(line, width)
    assert line.startswith(taken)
    assert cell_width(taken) <= width
    assert taken == line or cell_width(line[: len(taken) + 1]) > width


@given(st.text(), st.integers(-6, 40))
def test_a_fold_loses_nothing(text: str, width: int) -> None:
    line = safe_line(text)
    pieces = fold(line, width)
    assert "".join(pieces) == line
    assert all(cell_width(piece) <= width or len(piece) == 1 for piece in pieces)


@pytest.mark.parametrize("cut", [fold, lambda line, width: wrapped([(line, "")], width)], ids=["fold", "wrapped"])
@pytest.mark.parametrize("text", ["a", "数", "a数", "é"])
def test_a_long_line_is_looked_through_a_few_times_and_not_for_every_piece(
    text: str, cut: Callable[[str, int], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    class Counting(frozenset[str]):
        def issuperset(self, other: Iterable[object]) -> bool:
            looked.append(len(list(other)))
            return super().issuperset(other)

    monkeypatch.setattr(sanitize, "PLAIN", Counting(sanitize.PLAIN))
    line = text * 20_000 + "\u25cc"
    assert len(cut(line, 80)) >= 250
    assert sum(looked) <= 10 * len(line)
