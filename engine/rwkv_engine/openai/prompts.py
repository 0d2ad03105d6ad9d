"""The prompts of a completion: a text, ids, or a list of either, as ids and as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rwkv_engine.errors import ItemError
from rwkv_engine.openai.refusals import bad, of_item
from rwkv_engine.openai.tokens import Tokens
from rwkv_engine.tokenizer import END_OF_TEXT

WRONG = "a prompt is a string, a list of strings, a list of token ids, or a list of lists of token ids"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt as its client sees it: the hidden token 0 is not among its ids."""

    ids: tuple[int, ...]
    data: bytes

    @property
    def hidden(self) -> int:
        """The number of tokens that the engine puts before the prompt: 1, or 0 where token 0 is the client's own."""
        return 0 if self.ids[:1] == (END_OF_TEXT,) else 1


def prompts_of(value: Any, tokens: Tokens) -> list[Prompt]:
    """Return the prompts, at least one, of a text, ids, or a list of either. Raises Refusal for anything else."""
    if isinstance(value, str):
        return [of_text(value, tokens)]
    if not isinstance(value, list) or not value:
        raise bad("prompt", WRONG if value != [] else "the list is empty")
    if all(type(one) is int for one in value):
        return [of_ids(value, tokens)]
    return [of_text(one, tokens) if isinstance(one, str) else of_ids(one, tokens) for one in value]


def of_text(text: str, tokens: Tokens) -> Prompt:
    """Return the prompt of a text. Raises Refusal if the text cannot be encoded."""
    try:
        return Prompt(tokens.encode(text), text.encode())
    except ItemError as error:
        raise of_item(error, "prompt") from error


def of_ids(ids: Sequence[int], tokens: Tokens, param: str = "prompt") -> Prompt:
    """Return the prompt of a list of ids. Raises Refusal for anything else and for ids outside the vocabulary."""
    if not isinstance(ids, list) or not all(type(one) is int for one in ids):
        raise bad(param, WRONG)
    known = range(tokens.tokenizer.size)
    if (wrong := next((one for one in ids if one not in known), None)) is not None:
        raise bad(param, f"the id {wrong} is not in a vocabulary of {len(known)}")
    return Prompt(tuple(ids), tokens.shown(ids))
