"""Text to token ids and back: the RWKV World vocabulary, or its byte part for byte-level models.

Greedy longest match on UTF-8 bytes, no normalisation. `pyrwkv-tokenizer` encodes where it is installed; the byte trie
gives the same ids without it. Decoding is always by the own table: that package panics on bytes that are not UTF-8.
"""

import codecs
import lzma
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from rwkv_engine.errors import ItemError, VocabularyError

WORLD_FILE = Path(__file__).parent / "vocabulary" / "world_v20230424.bin.xz"
WORLD_TOKENS = 65529
WORLD_SIZE, BYTE_SIZE = 65536, 257
END_OF_TEXT = 0

Node = dict[int, Any]
Encoder = Callable[[str], list[int]]
_ID = -1  # the key of a node's token id; children have the byte as key


class Tokenizer:
    """A table of tokens by id; ids without bytes (0, and those beyond the table) decode to nothing."""

    def __init__(self, table: list[bytes], size: int, encoder: Encoder | None = None) -> None:
        self.table, self.size = table, size
        self._encoder = encoder

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The id of each token by its bytes."""
        return {token: i for i, token in enumerate(self.table) if token}

    @cached_property
    def trie(self) -> Node:
        """The fallback's byte trie, built when first needed."""
        return build_trie(self.table)

    @property
    def is_bytes(self) -> bool:
        """Whether every token is a single byte."""
        return self.size == BYTE_SIZE

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text. Raises ItemError for lone surrogates, which UTF-8 cannot encode."""
        data = utf8(text)
        return self.encode_bytes(data) if self._encoder is None else self._encoder(text)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Return the ids of any bytes, UTF-8 or not."""
        return [byte + 1 for byte in data] if self.is_bytes else walk(self.trie, data)

    def single(self, text: str) -> int | None:
        """Return the id of the token that is exactly this text, or None."""
        return self.ids.get(utf8(text))

    def token_bytes(self, token: int) -> bytes:
        return self.table[token] if token < len(self.table) else b""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes, ids))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")


def utf8(text: str) -> bytes:
    """Encode a text. Raises ItemError for lone surrogates, which JSON can hold and UTF-8 cannot."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ItemError("the text holds a lone surrogate, which UTF-8 cannot encode; remove it") from error


class IncrementalText:
    """Decodes tokens one by one: a character is returned once its last byte is there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token: int) -> str:
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def end(self) -> str:
        return self._decoder.decode(b"", final=True)


def for_vocabulary(size: int) -> Tokenizer:
    """Return the tokenizer of a checkpoint with that many embeddings. Raises VocabularyError if none is known."""
    if size == BYTE_SIZE:
        return Tokenizer(byte_table(), size)
    if size == WORLD_SIZE:
        return Tokenizer(world_table(), size, world_encoder())
    raise VocabularyError(
        f"no tokenizer is known for a vocabulary of {size}: {WORLD_SIZE} is World, {BYTE_SIZE} is its byte part"
    )


def byte_table() -> list[bytes]:
    """Return the tokens of ids 0..256: end of text, then byte b as id b + 1."""
    return [b"", *(bytes([b]) for b in range(256))]


def world_table() -> list[bytes]:
    """Return the tokens of ids 0..65529 of rwkv_vocab_v20230424. The file has the lengths, then the bytes (see
    vocabulary/NOTICE)."""
    data = lzma.decompress(WORLD_FILE.read_bytes())
    table, place = [b""], WORLD_TOKENS
    for length in data[:WORLD_TOKENS]:
        table.append(data[place : place + length])
        place += length
    return table


def world_encoder() -> Encoder | None:
    """Return pyrwkv-tokenizer's encoder if it is installed. It takes str only, and is not used to decode."""
    try:
        from pyrwkv_tokenizer import RWKVTokenizer
    except ImportError:
        return None
    encoder: Encoder = RWKVTokenizer().encode
    return encoder


def build_trie(table: list[bytes]) -> Node:
    """Return the trie as nested tables: byte -> node, and _ID -> token id where a token ends."""
    root: Node = {}
    for token, data in enumerate(table):
        node = root
        for byte in data:
            node = node.setdefault(byte, {})
        if data:
            node[_ID] = token
    return root


def walk(root: Node, data: bytes) -> list[int]:
    """Return the ids by greedy longest match. It never fails, as every single byte is a token."""
    ids: list[int] = []
    place, end = 0, len(data)
    while place < end:
        node, found, after = root, 0, place
        for ahead in range(place, end):
            child = node.get(data[ahead])
            if child is None:
                break
            node = child
            if _ID in node:
                found, after = node[_ID], ahead + 1
        ids.append(found)
        place = after
    return ids
