"""Sentences and tokens, without NLTK and without its data."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.instructions import punkt, sentences
from rwkv_data.instructions.emoji import EMOJI
from rwkv_data.instructions.words import runs, sentence_tokens

TEXT = st.text(alphabet="aB1.,!?;:'\"*()[]<>`-–’” \n\té", max_size=60)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" \n", []),
        ("One", ["One"]),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Brown met Mr. Bean. He left.", ["Dr. Brown met Mr. Bean.", "He left."]),
        ("At 3 p.m. it rains. Pi is 3.14 or so.", ["At 3 p.m. it rains.", "Pi is 3.14 or so."]),
        ("See e.g. red.", ["See e.g.", "red."]),
        ("J. R. Tolkien wrote it.", ["J. R. Tolkien wrote it."]),
        ("In 1999. it was", ["In 1999. it was"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("What?! No...  Well (yes.) Fine", ["What?!", "No...  Well (yes.)", "Fine"]),
        ("He works at Acme Inc. The pay is low.", ["He works at Acme Inc.", "The pay is low."]),
        ("He works at Acme Inc. with pay.", ["He works at Acme Inc. with pay."]),
        ("a.\nb.\n\nc.", ["a.\nb.\n\nc."]),
        ("one.\ntwo.", ["one.", "two."]),
    ],
)
def test_sentences_of_the_bundled_model(text: str, parts: list[str]) -> None:
    assert punkt.split(text, sentences.BUNDLED) == parts


@given(TEXT)
def test_no_sentence_loses_a_character(text: str) -> None:
    parts = punkt.split(text, sentences.BUNDLED)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_model_is_read_from_the_files_of_punkt_tab(tmp_path: Path) -> None:
    (tmp_path / "abbrev_types.txt").write_text("xyz\nfoo")
    (tmp_path / "sent_starters.txt").write_text("then")
    (tmp_path / "collocations.tab").write_text("##number##\tstreet\nfoo\tbar")
    (tmp_path / "ortho_context.tab").write_text("yes\t46\nno\t32")
    model = sentences.load(tmp_path)
    assert (model.name, model.seen["yes"]) == ("punkt_tab", 46)
    assert punkt.split("Say xyz. Then go.", model) == ["Say xyz.", "Then go."]
    assert punkt.split("Say xyz. Maybe go.", model) == ["Say xyz. Maybe go."]
    assert punkt.split("Say xyz. No go.", model) == ["Say xyz.", "No go."]
    assert punkt.split("On 42. Street we met.", model) == ["On 42. Street we met."]
    (tmp_path / "collocations.tab").unlink()
    with pytest.raises(OSError, match="collocations"):
        sentences.load(tmp_path)


def test_the_process_says_which_model_it_uses() -> None:
    assert sentences.splitter() in {"bundled", "punkt_tab"}
    assert sentences.split("One. Two.") == ("One.", "Two.")


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Don't stop, it's 3.50.", ["Do", "n't", "stop", ",", "it", "'s", "3.50", "."]),
        ('"Go," he said...', ["``", "Go", ",", "''", "he", "said", "..."]),
        ("(See [1]; 10:30, a--b!)", ["(", "See", "[", "1", "]", ";", "10:30", ",", "a", "--", "b", "!", ")"]),
        ("I cannot and I'm gonna", ["I", "can", "not", "and", "I", "'m", "gon", "na"]),
        ("U.S. dollars: $5*", ["U.S.", "dollars", ":", "$", "5", "*"]),
        ("the dogs' 'quoted' ```", ["the", "dogs", "'", "'", "quoted", "'", "``", "`"]),
    ],
)
def test_tokens(sentence: str, tokens: list[str]) -> None:
    assert sentence_tokens(sentence) == tokens


def test_words_are_runs() -> None:
    assert runs("it's well-known_as 3.5 é") == ["it", "s", "well", "known_as", "3", "5", "é"]


def test_emoji_are_single_characters() -> None:
    assert {"😀", "❤", "☀", "🏳"} <= EMOJI
    assert EMOJI.isdisjoint("0123456789#*aé東\ufe0f\u200d")
