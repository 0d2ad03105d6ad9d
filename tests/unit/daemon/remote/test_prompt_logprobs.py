"""Scores from echoed prompts: which tokens count, whatever the server's tokens are."""

import json
import math
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.remote.prompt_logprobs import ScoreQuestion, border, continuation_score, score_in
from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import BadReplyError, UnfitReplyError
from rwkvctl.protocol.engine import ContinuationScore, ScoreItem


def echoed(tokens: list[str], values: list[float | None], /, *, generated: str = " x", **more: Any) -> dict[str, Any]:
    """A choice of /completions with these tokens of the prompt, and one that was generated."""
    every = [*tokens, generated]
    given = {
        "tokens": every,
        "token_logprobs": [*values, -9.0],
        "text_offset": [0, *accumulate(map(len, every[:-1]))],
        "top_logprobs": [None, *({"top": -0.5} for _ in tokens)],
    }
    return {"text": "".join(every), "logprobs": given | more}


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, str, list[str], list[float]]:
    """A context, a continuation, both cut together into tokens anywhere, and each token's log-probability."""
    context, continuation = draw(st.text(min_size=1, max_size=12)), draw(st.text(min_size=1, max_size=12))
    text = context + continuation
    cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1))))
    tokens = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    values = draw(st.lists(st.floats(-50, 0), min_size=len(tokens), max_size=len(tokens)))
    return context, continuation, tokens, values


@given(cut_texts(), st.booleans())
def test_the_score_is_the_sum_over_the_tokens_that_reach_beyond_the_context(
    given_text: tuple[str, str, list[str], list[float]], told: bool
) -> None:
    """By hand: walk through the text character by character, and note which token holds each one."""
    context, continuation, tokens, values = given_text
    holder = [number for number, token in enumerate(tokens) for _ in token]
    expected = sorted(set(holder[len(context) :]))
    choice = echoed(tokens, [None, *values[1:]], **({} if told else {"text_offset": None}))
    if 0 in expected:
        with pytest.raises(UnfitReplyError, match="must not be empty"):
            continuation_score(choice, context + continuation, len(context))
        return
    found = continuation_score(choice, context + continuation, len(context))
    assert found.tokens == len(expected)
    assert found.logprob == pytest.approx(math.fsum(values[at] for at in expected))
    assert found.greedy == all(values[at] >= -0.5 for at in expected)


def test_a_token_across_the_border_is_the_continuations() -> None:
    choice = echoed(["The", " sky i", "s blue"], [None, -1.0, -2.0])
    assert continuation_score(choice, "The sky is blue", 8) == score(-3.0, 2)
    assert continuation_score(choice, "The sky is blue", 9) == score(-2.0, 1)
    assert continuation_score(choice, "The sky is blue", 14) == score(-2.0, 1)
    assert continuation_score(choice, "The sky is blue", 15) == score(0.0, 0, greedy=True)


def score(logprob: float, tokens: int, *, greedy: bool = False) -> ContinuationScore:
    return ContinuationScore(logprob=logprob, tokens=tokens, greedy=greedy)


def test_bytes_of_one_character_count_where_it_stands() -> None:
    """A tokenizer may cut a character; the parts have no text of their own."""
    choice = echoed(["a", "", "é"], [None, -1.0, -2.0], text_offset=[0, 1, 1, 2])
    assert continuation_score(choice, "aé", 1) == score(-3.0, 2)
    told_by_bytes = echoed(["bytes:\\xc3", "bytes:\\xa9", "a"], [None, -1.0, -2.0], text_offset=[0, 0, 1, 2])
    told_by_bytes["text"] = "éa x"
    assert continuation_score(told_by_bytes, "éa", 1) == score(-2.0, 1)


@pytest.mark.parametrize("special", ["<s>", "<|begin_of_text|>", "[CLS]", ""])
def test_a_token_before_the_text_is_no_part_of_it(special: str) -> None:
    choice = echoed([special, "The", " sky"], [None, -1.0, -2.0])
    choice["text"] = "The sky x"
    assert continuation_score(choice, "The sky", 3) == score(-2.0, 1)
    assert continuation_score(choice, "The sky", 0) == score(-3.0, 2)
    choice["logprobs"]["text_offset"] = [-1] * 4
    assert continuation_score(choice, "The sky", 3) == score(-2.0, 1)


def test_a_prompt_may_begin_as_a_special_token_does() -> None:
    choice = echoed(["<s>", "The"], [None, -1.0])
    assert continuation_score(choice, "<s>The", 3) == score(-1.0, 1)


def test_the_likeliest_token_is_greedy() -> None:
    for value, greedy in ((-0.5, True), (-0.25, True), (-0.75, False)):
        choice = echoed(["a", "b"], [None, value])
        assert continuation_score(choice, "ab", 1).greedy is greedy
    silent = echoed(["a", "b"], [None, -0.1], top_logprobs=None)
    assert not continuation_score(silent, "ab", 1).greedy


@pytest.mark.parametrize(
    "more",
    [
        {"tokens": None},
        {"tokens": ["a", "b"]},
        {"tokens": ["a", 7, " x"]},
        {"token_logprobs": [None]},
        {"token_logprobs": [None, None, -1.0]},
        {"token_logprobs": [None, "low", -1.0]},
        {"token_logprobs": [None, True, -1.0]},
        {"token_logprobs": [None, 3.0, -1.0]},
        {"token_logprobs": [None, math.nan, -1.0]},
        {"token_logprobs": [None, -math.inf, -1.0]},
        {"text_offset": [0, 1], "tokens": ["?", "?", "?"]},
        {"text_offset": [1, 0, 2], "tokens": ["?", "?", "?"]},
    ],
)
def test_what_is_no_score_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnfitReplyError, match="no log-probabilities"):
        continuation_score(echoed(["a", "b"], [None, -1.0], **more), "ab", 1)


@pytest.mark.parametrize("choice", [{}, {"text": "b"}, {"text": "ab x"}, {"text": "ab x", "logprobs": [1]}])
def test_a_server_that_does_not_echo_is_told(choice: dict[str, Any]) -> None:
    with pytest.raises(UnfitReplyError, match="no log-probabilities"):
        continuation_score(choice, "ab", 1)


words = st.text(max_size=5) | st.none() | st.integers() | st.floats() | st.lists(st.text(max_size=3))


@given(st.dictionaries(st.sampled_from(["tokens", "token_logprobs", "text_offset", "top_logprobs"]), st.lists(words)))
def test_any_log_probabilities_are_a_score_or_refused(given: dict[str, Any]) -> None:
    body = json.dumps({"choices": [{"text": "ab x", "logprobs": given}]}).encode()
    try:
        found = score_in(ScoreQuestion("abc", "ab", 1).read(body))
    except BadReplyError:
        return
    assert math.isfinite(found.logprob)


def test_a_score_goes_through_the_cache_bit_by_bit() -> None:
    choice = echoed(["a", "b", "c"], [None, -0.1, -1 / 3])
    question = ScoreQuestion("abc", "abc", 1)
    reply = question.read(json.dumps({"choices": [choice], "usage": {"prompt_tokens": 3}}).encode())
    assert score_in(reply) == continuation_score(choice, "abc", 1)
    assert reply.usage.prompt_tokens == 3


def test_the_request() -> None:
    body = ScoreQuestion("abc", "ab", 1).body("m", RequestStyle(), 1)
    expected = {"model": "m", "prompt": "ab", "max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
    assert body == expected
    keys = {ScoreQuestion(*what).key("m") for what in (("a", "ab", 1), ("b", "ab", 1), ("a", "ac", 1), ("a", "ab", 0))}
    assert len(keys) == 4


def test_blanks_move_to_the_continuation_by_the_rule_of_lm_eval() -> None:
    item = ScoreItem(id="a", context="Answer: \n", continuations=("A",))
    assert border(item) == 9
    assert border(ScoreItem(id="a", context="Answer: \n", continuations=("A",), split="lm-eval")) == 7
