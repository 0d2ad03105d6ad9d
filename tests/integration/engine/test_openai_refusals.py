"""Invalid bodies: each is refused with the name of its fault, and the engine goes on."""

from typing import Any

import httpx
import pytest

from rwkv_engine.openai.request_types import ChatRequest, CompletionRequest

PARAMETERS = {
    "model": [5, []],
    "n": [0, -1, "2", 1.5, True, 10**9],
    "temperature": [-0.1, "hot", [], 1000],
    "top_p": [-0.1, 1.1, "x"],
    "top_k": [-2, 1.5, "x"],
    "stop": [[""], "", 5, ["a"] * 17, [5], "x" * 1001],
    "seed": ["x", 1.5, 2**64, -(2**64)],
    "logit_bias": [{"x": 1}, {"1": 101}, {"1": -101}, {"70000": 1}, {"-1": 1}, [1], {"1": "x"}],
    "presence_penalty": [2.1, -2.1, "x"],
    "frequency_penalty": [2.1, -2.1, "x"],
    "alpha_presence": ["x", 1000],
    "alpha_frequency": ["x", 1000],
    "alpha_decay": [-1, 1.5, "x"],
    "ignore_eos": [1, "yes"],
    "stream": [1, "yes"],
    "stream_options": [5, {"include_usage": 5}, {"include_usage": True}],
    "max_tokens": [-1, "x", 1.5, 2**21],
    "response_format": [
        5,
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "json_schema", "json_schema": {"schema": {"type": "strin"}}},
    ],
    "structured_outputs": [
        5,
        {"choice": []},
        {"regex": "(?=a)a"},
        {"regex": "a", "choice": ["b"]},
        {"json": "{"},
        {"grammar": "start: /x/"},
    ],
    "guided_choice": [5, [], ["a", ""], ["a", 5]],
    "guided_json": [5, "x", "[1]", {"$ref": "http://127.0.0.1/x.json"}],
    "guided_regex": [5, "(a"],
    "guided_grammar": [5, "start: /x/"],
}
ONLY_COMPLETION = {
    "prompt": [5, [], [5, "a"], [True], [[1, "a"]], [-1], [257], [[300]], {"a": 1}, [["a"]]],
    "echo": [1, "x"],
    "logprobs": [-1, 21, "x", True, 1.5],
    "prompt_logprobs": [-1, 21, "x"],
    "best_of": [2, 0, "x"],
    "suffix": ["x", 5],
    "max_tokens": [0],
}
ONLY_CHAT = {
    "messages": [
        [],
        5,
        "hello",
        [5],
        [{"content": "a"}],
        [{"role": "tool", "content": "a"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    ],
    "max_tokens": [0],
    "max_completion_tokens": [0, "x"],
    "logprobs": [1, "x"],
    "top_logprobs": [21, -1, 5],
    "chat_template": ["{{ messages }}", 5],
    "chat_template_kwargs": [5, {"template": 5}],
    "tools": [[{"type": "function"}], 5],
    "functions": [[{}]],
}
CASES = [
    *(("/v1/completions", name, value) for name, values in PARAMETERS.items() for value in values),
    *(("/v1/completions", name, value) for name, values in ONLY_COMPLETION.items() for value in values),
    *(("/v1/chat/completions", name, value) for name, values in PARAMETERS.items() for value in values),
    *(("/v1/chat/completions", name, value) for name, values in ONLY_CHAT.items() for value in values),
]
NEUTRAL = {"/v1/completions": {"prompt": "a"}, "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]}}


def test_every_bad_value_is_refused_by_its_name_and_the_engine_goes_on(served: Any) -> None:
    before = served.settle()["finished"]
    for path, name, value in CASES:
        answer = served.post(path, **NEUTRAL[path] | {name: value})
        error = answer.json().get("error", {})
        assert answer.status_code == 400, (path, name, value, answer.text)
        assert error["param"] == name, (path, name, value, error)
        assert error["message"].startswith(f"{name}: ") or error["code"], error
        assert error["type"] == "invalid_request_error"
        assert set(error) == {"message", "type", "param", "code"}
    assert served.settle()["finished"] == before
    assert served.complete(prompt="12+34=", max_tokens=2, temperature=0)["choices"][0]["text"] == "46"


def test_the_table_names_every_parameter() -> None:
    free = {"user"}
    assert set(CompletionRequest.__struct_fields__) == PARAMETERS.keys() | ONLY_COMPLETION.keys() | free
    assert set(ChatRequest.__struct_fields__) == PARAMETERS.keys() | ONLY_CHAT.keys() | free


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "object"),
        (b'{"prompt": "\\ud800"}', "not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', "not JSON"),
        (b'{"prompt": "a", "temperature": 1e999}', "temperature"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "prompt"),
        (b'{"prompt": null}', "prompt"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_body_that_is_none_is_400(served: Any, body: bytes, words: str) -> None:
    answer = served.client.post("/v1/completions", content=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_a_prompt_beyond_the_limit(served: Any) -> None:
    answer = served.post("/v1/completions", prompt="a" * (2**20 + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    answer = served.post("/v1/completions", prompt=[[1] * 2**20] * 2, echo=True, logprobs=1)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt")


def test_other_refusals_have_the_same_shape(served: Any) -> None:
    answer = served.client.get("/v1/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert served.client.get("/v1/embeddings").json()["error"]["code"] == "not_found"
    with httpx.Client(base_url=served.root, timeout=served.client.timeout) as client:
        head = {"content-length": str(65 * 1024 * 1024)}
        unknown = client.post("/v1/completions", content=b" " * (65 * 1024 * 1024), headers=head)
        assert unknown.status_code == 401, "it is refused before its body is read"
        head["authorization"] = served.client.headers["authorization"]
        try:
            answer = client.post("/v1/completions", content=b" " * (65 * 1024 * 1024), headers=head)
        except httpx.TransportError:
            return  # cut off while it was still sending
        assert answer.status_code == 413
        assert "bytes" in answer.json()["error"]["message"]
