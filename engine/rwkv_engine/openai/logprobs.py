"""Log-probabilities in the three shapes that clients know. All numbers are the engine's floats, unrounded.

The texts of tokens are keys in the first shape: `Tokens.name` is different for each token, so that no token hides
another, and the likeliest one is always the one with the greatest number.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from rwkv_engine.openai.tokens import Tokens
from rwkv_engine.scheduling.token_scores import Score

Entry = tuple[int, Score | None]


def of_completion(tokens: Tokens, entries: Sequence[Entry], top: int, offsets: Iterable[int]) -> dict[str, Any]:
    """Return the shape of `/v1/completions`: lists over positions."""
    return {
        "tokens": [tokens.name(token) for token, _ in entries],
        "token_logprobs": [score.logprob if score is not None else None for _, score in entries],
        "top_logprobs": [named(tokens, token, score, top) for token, score in entries],
        "text_offset": list(offsets),
    }


def named(tokens: Tokens, token: int, score: Score | None, top: int) -> dict[str, float] | None:
    """Return the likeliest tokens at a position by name, and the token that is there."""
    if score is None:
        return None
    return {tokens.name(one): logprob for one, logprob in score.top[:top]} | {tokens.name(token): score.logprob}


def of_chat(tokens: Tokens, entries: Sequence[Entry], top: int) -> dict[str, Any]:
    """Return the shape of `/v1/chat/completions`: for each scored token its log-probability and the `top` likeliest
    there."""
    content = [
        chat_token(tokens, token, score.logprob)
        | {"top_logprobs": [chat_token(tokens, one, logprob) for one, logprob in score.top[:top]]}
        for token, score in entries
        if score is not None
    ]
    return {"content": content, "refusal": None}


def chat_token(tokens: Tokens, token: int, logprob: float) -> dict[str, Any]:
    return {"token": tokens.name(token), "logprob": logprob, "bytes": list(tokens.bytes_of(token))}


def of_prompt(tokens: Tokens, entries: Sequence[Entry], top: int) -> list[dict[str, Any] | None]:
    """Return the shape of vLLM's `prompt_logprobs`: by token id, the prompt's own token first."""
    return [by_id(tokens, token, score, top) for token, score in entries]


def by_id(tokens: Tokens, token: int, score: Score | None, top: int) -> dict[str, Any] | None:
    """Return the scores at a position by token id. The rank of a token that is not among the likeliest is unknown."""
    if score is None:
        return None
    ranks = {one: rank for rank, (one, _) in enumerate(score.top, 1)}
    shown = {token: score.logprob} | dict(score.top[:top])
    return {
        str(one): {"logprob": logprob, "rank": ranks.get(one), "decoded_token": tokens.name(one)}
        for one, logprob in shown.items()
    }
