"""A line that people copy is done as it is seen, whatever its words hold."""

import ast
import shlex
from pathlib import Path

import hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rwkvctl
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.shell_words import as_typed, as_words


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


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_a_line_is_parted_into_the_words_it_was_made_of(words: list[str]) -> None:
    assert as_words(as_typed(words)) == words
    assert as_words(shlex.join(words)) == words


@given(st.text("a '\"\\"))
def test_quotes_are_read_as_a_shell_reads_them(line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError:
        with pytest.raises(ValueError, match="No "):
            as_words(line)
    else:
        assert as_words(line) == words


def test_bytes_that_are_no_text_come_back_as_a_shell_passes_them() -> None:
    assert as_words("$'caf\\351' \"$'x'\" a$'\\047'b") == ["caf\udce9", "$'x'", "a'b"]


@pytest.mark.parametrize("line", ["$'it\\'s x", "$'a\\nb'", "$'\\x41'", "$'\\1'", "$'\\777'", "$'a\\000b'", "a\0b"])
def test_what_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"quotation|octal|NUL"):
        as_words(line)


def test_no_line_that_people_see_is_joined_in_another_way() -> None:
    root = Path(rwkvctl.__file__).parent
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Attribute) and node.attr == "join" and ast.unparse(node.value) == "shlex"
    }
    assert found == {"tui/terminal/browser_server.py"}, (
        "which starts a program by the system's plain shell, and shows nobody the line"
    )
