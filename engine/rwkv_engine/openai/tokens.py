"""How clients see tokens: token 0 by name, a name for each token, and bytes where a text is put together.

The engine puts token 0 before every prompt and hides it: clients see only the tokens that they sent. If their ids
begin with 0, or their text with `<|endoftext|>`, that token 0 is theirs and is shown; the engine adds no second one.
"""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field

from rwkv_engine.tokenizer import END_OF_TEXT, Tokenizer

END = "<|endoftext|>"


@dataclass(slots=True)
class Tokens:
    """A vocabulary as OpenAI clients see it, token 0 as `<|endoftext|>`."""

    tokenizer: Tokenizer
    _names: dict[int, str] = field(default_factory=dict)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text; `<|endoftext|>` at its beginning is token 0. Raises ItemError if it cannot be
        encoded."""
        begin = (END_OF_TEXT,) if text.startswith(END) else ()
        return (*begin, *self.tokenizer.encode(text.removeprefix(END)))

    def shown(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids, token 0 as `<|endoftext|>`."""
        return b"".join(map(self.bytes_of, ids))

    def bytes_of(self, token: int) -> bytes:
        return END.encode() if token == END_OF_TEXT else self.tokenizer.token_bytes(token)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; what is not UTF-8 becomes U+FFFD."""
        return self.shown(ids).decode(errors="replace")

    def name(self, token: int) -> str:
        """Return a text that no other token has: its own, or OpenAI's notation for bytes that are no text."""
        found = self._names.get(token)
        if found is None:
            found = self._names[token] = name_of(token, self.bytes_of(token))
        return found


def name_of(token: int, data: bytes) -> str:
    """Return the name of a token (see Tokens.name). A token of an id without bytes is called by its id."""
    if not data:
        return f"<|{token}|>"
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


@dataclass(slots=True)
class Offsets:
    """Offsets, in characters, at which tokens begin in the text of a choice.

    A token that begins inside a character has that character's offset; the tokens of a stop have the text's end.
    """

    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )
    _place: int = 0
    _given: int = 0

    def of(self, pieces: Iterable[bytes], text: str) -> list[int]:
        """Return the offsets of the tokens whose bytes go with the next piece of text."""
        self._given += len(text)
        places: list[int] = []
        for piece in pieces:
            places.append(min(self._place, self._given))
            self._place += len(self._decoder.decode(piece))
        return places
