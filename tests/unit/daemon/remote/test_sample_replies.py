"""A server's completion as a finished sample: thoughts, stops, and replies that are none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.remote.sample_reply import finished, read_sample, until_stop
from rwkv_daemon.remote.server_reply import BadReplyError, ServerReply, TokenUsage, UnfitReplyError
from rwkvctl.protocol.engine import Usage


def chat(message: Any, finish: Any = "stop", **more: Any) -> ServerReply:
    body = {"choices": [{"message": message, "finish_reason": finish}], **more}
    return read_sample(json.dumps(body).encode(), chat=True, prompt_chars=30)


def completion(text: Any, finish: Any = "stop", **more: Any) -> ServerReply:
    body = {"choices": [{"text": text, "finish_reason": finish}], **more}
    return read_sample(json.dumps(body).encode(), chat=False, prompt_chars=30)


@pytest.mark.parametrize(
    ("message", "finish", "text"),
    [
        ({"content": "7"}, "stop", "7"),
        ({"content": [{"type": "text", "text": "7"}, {"type": "text", "text": "8"}]}, "stop", "78"),
        ({"content": "7", "reasoning_content": "3 + 4"}, "stop", "<think>3 + 4</think>7"),
        ({"content": "\n\n7", "reasoning": "3 + 4\n"}, "stop", "<think>3 + 4\n</think>\n\n7"),
        ({"content": "7", "reasoning_content": "a", "reasoning": "b"}, "stop", "<think>a</think>7"),
        ({"content": "7", "reasoning_content": None, "reasoning": ""}, "stop", "7"),
        ({"content": None, "reasoning_content": "3 +"}, "length", "<think>3 +"),
        ({"content": "7 is", "reasoning_content": "3 + 4"}, "length", "<think>3 + 4</think>7 is"),
        ({"content": None}, "stop", ""),
    ],
)
def test_a_thought_stands_before_the_answer(message: dict[str, Any], finish: str, text: str) -> None:
    found = chat(message, finish)
    assert (found.text, found.cut) == (text, finish == "length")


def test_a_text_is_kept_as_it_is() -> None:
    text = "a\r\n\x1b[31m\x00 \u2028" + "x" * 300_000
    assert completion(text).text == text
    assert chat({"content": text}).text == text
    assert completion("a\ud800b").text == "a\ufffdb"


def test_usage_is_the_servers_or_estimated() -> None:
    assert completion("abc", usage={"prompt_tokens": 3, "completion_tokens": 2}).usage == TokenUsage(3, 2)
    for absurd in (None, [], {"prompt_tokens": -1, "completion_tokens": 10**30}):
        assert completion("abc", usage=absurd).usage == TokenUsage(18, 9)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_reply_that_was_broken_off_is_asked_for_again(reason: str) -> None:
    with pytest.raises(BadReplyError, match="broke off"):
        completion("abc", reason)


def test_a_reply_that_a_filter_cut_is_none() -> None:
    with pytest.raises(UnfitReplyError, match="filter"):
        chat({"content": "I will"}, "content_filter")


@pytest.mark.parametrize("choice", [None, 7, {}, {"text": None}, {"text": 7}, {"text": ["a"]}, {"message": {}}])
def test_another_shape_is_no_completion(choice: Any) -> None:
    with pytest.raises(BadReplyError):
        read_sample(json.dumps({"choices": [choice]}).encode(), chat=False, prompt_chars=3)


@pytest.mark.parametrize(
    ("text", "cut", "stops", "expected"),
    [
        ("It is 7.", False, ("\nUser:",), ("It is 7.", "stop_token")),
        ("It is 7.", True, (), ("It is 7.", "length")),
        ("It is 7.\nUser: And", False, ("\nUser:", "And"), ("It is 7.", "stop_suffix")),
        ("It is 7.\nUser: And", True, ("And", "\nUser:"), ("It is 7.", "stop_suffix")),
        ("", False, ("x",), ("", "stop_token")),
        ("x", False, ("x",), ("", "stop_suffix")),
    ],
)
def test_the_first_stop_string_ends_a_sample(
    text: str, cut: bool, stops: tuple[str, ...], expected: tuple[str, str]
) -> None:
    found = finished("a", 2, ServerReply(text, cut=cut, usage=TokenUsage(5, 6)), stops)
    assert (found.text, found.stop, found.id, found.index, found.error) == (*expected, "a", 2, "")
    assert found.usage == Usage(prompt=5, generated=6)


@given(st.text("ab\n"), st.lists(st.text("ab\n", min_size=1)))
def test_nothing_before_the_end_is_a_stop(text: str, stops: list[str]) -> None:
    kept = until_stop(text, stops)
    assert text.startswith(kept)
    assert not any(stop in kept for stop in stops)
    assert kept == text or any(text[len(kept) :].startswith(stop) for stop in stops)
    assert until_stop(kept, stops) == kept
