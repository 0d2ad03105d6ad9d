"""The World vocabulary and its byte part: both encoders agree, decoding is ours, partial UTF-8 is held back."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabulary

from rwkv_engine import tokenizer
from rwkv_engine.errors import ItemError, VocabularyError
from rwkv_engine.tokenizer import BYTE_SIZE, WORLD_SIZE, IncrementalText, Tokenizer, for_vocabulary

WORLD = vocabulary(WORLD_SIZE)
BYTES = for_vocabulary(BYTE_SIZE)
CORPORA = {
    "english": "The quick brown fox, said Alice's sister, didn't jump over 12,345.678 dogs...\n\nUser: why?\n\nAI:",
    "chinese": "中文测试:敏捷的棕色狐狸跳过了懒狗。你好,世界!\n\n一二三四五六七八九十",
    "code": "def f(x: int) -> int:\n    return x ** 2  # square\n\n\n__global__ void k(half2 *a) { a[i] = b; }\t\t\r\n",
    "emoji": "👩‍👩‍👧‍👦🇩🇪é\u0301a\u0308\x00\x07\x1b[31m\u200d\ufeff🏳️‍🌈",
    "blanks": " \n\n\n \n\n  \t   \r\n" * 7 + "a" * 40 + "=" * 33,
    "accents": "Über façade naïve Ñandú ЖЖЁ кириллица ελληνικά עברית العربية ไทย 한국어 日本語テスト",
}
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(scope="module")
def installed() -> Tokenizer:
    """Return the tokenizer with the encoder of pyrwkv-tokenizer, if that is installed."""
    return for_vocabulary(WORLD_SIZE)


def test_the_table_is_the_published_one(installed: Tokenizer) -> None:
    assert len(WORLD.table) == 65530
    assert (installed.table, installed.size) == (WORLD.table, WORLD.size)
    assert hashlib.sha256(b"".join(WORLD.table)).hexdigest() == hashlib.sha256(b"".join(_published())).hexdigest()
    assert WORLD.single("\n\n") == 261
    assert WORLD.single("User") == 24281
    assert WORLD.single("```") == 6884
    assert WORLD.single("no such token") is None


def _published() -> list[bytes]:
    """Return the table of pyrwkv-tokenizer, read with literal_eval."""
    import ast
    from pathlib import Path

    package = pytest.importorskip("pyrwkv_tokenizer")
    lines = (Path(package.__file__).parent / "rwkv_vocab_v20230424.txt").read_text("utf-8").splitlines()
    tokens = [ast.literal_eval(line[line.index(" ") : line.rindex(" ")].strip()) for line in lines]
    return [token.encode() if isinstance(token, str) else token for token in tokens]


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_both_encoders_agree_and_decode_gives_the_text_back(corpus: str, installed: Tokenizer) -> None:
    ids = installed.encode(corpus)
    assert ids == WORLD.encode(corpus)
    assert WORLD.decode(ids) == corpus
    assert BYTES.decode(BYTES.encode(corpus)) == corpus


@given(text)
def test_both_encoders_agree_on_any_text(installed: Tokenizer, sample: str) -> None:
    ids = installed.encode(sample)
    assert ids == WORLD.encode(sample)
    assert WORLD.decode(ids) == sample


@given(st.binary(max_size=60))
def test_any_bytes_survive_the_trie(data: bytes) -> None:
    assert WORLD.decode_bytes(WORLD.encode_bytes(data)) == data
    assert BYTES.decode_bytes(BYTES.encode_bytes(data)) == data


@given(st.lists(st.integers(0, 65535), max_size=20))
def test_incremental_text_is_the_text_of_the_whole(ids: list[int]) -> None:
    parts = IncrementalText(WORLD)
    assert "".join([*(parts.feed(token) for token in ids), parts.end()]) == WORLD.decode(ids)


def test_a_character_comes_out_when_its_last_byte_is_there() -> None:
    parts = IncrementalText(BYTES)
    assert [parts.feed(token) for token in BYTES.encode("é€")] == ["", "é", "", "", "€"]
    parts.feed(0xE2 + 1)
    assert parts.end() == "\ufffd"


def test_ids_without_bytes_decode_to_nothing() -> None:
    assert WORLD.decode([0, 65530, 65535]) == ""


def test_a_lone_surrogate_is_refused(installed: Tokenizer) -> None:
    for each in (installed, WORLD, BYTES):
        with pytest.raises(ItemError, match="surrogate"):
            each.encode("a\ud800")


def test_other_vocabularies_are_refused_by_size() -> None:
    with pytest.raises(VocabularyError, match="50304"):
        for_vocabulary(50304)


def test_without_the_package_the_trie_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyrwkv_tokenizer", None)
    assert tokenizer.world_encoder() is None


def test_both_encoders_agree_on_random_unicode(installed: Tokenizer) -> None:
    rng = random.Random(0)
    for _ in range(200):
        sample = "".join(chr(c) for _ in range(500) if not 0xD800 <= (c := rng.randrange(0x110000)) < 0xE000)
        assert installed.encode(sample) == WORLD.encode(sample)
