"""Nothing that a terminal obeys or hides survives `safe_text`; what is readable does."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.safe import cell_width, fit, safe_json, safe_line, safe_text, take

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


@given(st.text())
def test_json_says_the_same_without_controls(text: str) -> None:
    document = json.dumps({"x": text}, ensure_ascii=False)
    shown = safe_json(document)
    assert json.loads(shown) == {"x": text}
    assert not [char for char in shown if 0x7F <= ord(char) < 0xA0 or char in "\u202e\u200b"]


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
