"""A line that people copy is done as it is seen, whatever its words hold."""

import shlex

import hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.safe import safe_line
from rwkvctl.typed import as_typed


@pytest.mark.parametrize("text", hostile.hostile_texts())
def test_a_hostile_word_is_one_line_of_what_is_seen(text: str) -> None:
    line = as_typed(["rwkvctl", "scores", "--model", text])
    assert safe_line(line) == line
    assert "\n" not in line


@given(st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))))
def test_ordinary_words_are_quoted_as_ever(words: list[str]) -> None:
    assert as_typed(words) == shlex.join(words)


def test_what_is_hidden_stands_as_its_bytes() -> None:
    assert as_typed(["a\x1b[2Jb'\\\n", "caf\u00e9"]) == "$'a\\033[2Jb\\'\\\\\\012' 'caf\u00e9'"
    assert as_typed(["\u00ad", "\udc9b"]) == "$'\\302\\255' $'\\233'"
