"""The `openai` package, unmodified, against a real engine process."""

import json
from typing import Any, Literal

import httpx
import pytest
from waiting import LIMIT_S, wait_for

KEY = "k" * 32
ENDLESS = {"prompt": "12+34=", "max_tokens": 1_000_000, "ignore_eos": True}


@pytest.fixture
def openai() -> Any:
    """The package. It takes half a second to import, which only a process that runs these tests spends."""
    return pytest.importorskip("openai", reason="needs openai: not installed")


@pytest.fixture
def client(openai: Any, served: Any) -> Any:
    return openai.OpenAI(base_url=served.base, api_key=KEY, max_retries=0, timeout=LIMIT_S)


def test_the_models_are_listed(openai: Any, client: Any) -> None:
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_completion_is_greedy_at_temperature_0_and_counts_its_tokens(client: Any) -> None:
    answer = client.completions.create(model="tiny", prompt="12+34=", temperature=0, max_tokens=2)
    assert answer.choices[0].text == "46"
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].logprobs is None
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (6, 2, 8)


def test_a_stop_is_cut_and_counted(client: Any) -> None:
    answer = client.completions.create(model="tiny", prompt="12+34=", temperature=0, max_tokens=8, stop=["6\n", "zz"])
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("4", "stop")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3, "the tokens of the stop were generated"


@pytest.mark.parametrize(
    "prompt", ["12+34=", ["12+34=", "7+8="], [50, 51, 44, 52, 53, 62], [[50, 51, 44, 52, 53, 62], [56, 44, 57, 62]]]
)
def test_prompts_of_every_kind_are_the_same_prompts(client: Any, prompt: Any) -> None:
    answer = client.completions.create(model="tiny", prompt=prompt, temperature=0, max_tokens=2)
    assert [c.text for c in answer.choices] == ["46", "15"][: len(answer.choices)]
    assert [c.index for c in answer.choices] == list(range(len(answer.choices)))


def test_samples_of_one_seed_differ_and_come_again(client: Any) -> None:
    def draw(seed: int | None) -> list[str]:
        prompts = ["abc", "abc"]
        answer = client.completions.create(model="tiny", prompt=prompts, n=4, seed=seed, max_tokens=16, temperature=9)
        assert [c.index for c in answer.choices] == list(range(8))
        return [c.text for c in answer.choices]

    first = draw(7)
    assert len(set(first)) == 8
    assert draw(7) == first
    assert draw(8) != first
    assert draw(None) != draw(None)


def test_echo_and_logprobs_cover_prompt_and_answer(client: Any) -> None:
    answer = client.completions.create(
        model="tiny", prompt="12+34=", temperature=0, max_tokens=2, logprobs=3, echo=True
    )
    (choice,) = answer.choices
    scores = choice.logprobs
    assert scores is not None
    assert scores.tokens is not None
    assert scores.token_logprobs is not None
    assert scores.top_logprobs is not None
    assert choice.text == "12+34=46" == "".join(scores.tokens)
    assert scores.text_offset == list(range(8))
    assert scores.token_logprobs[0] is None
    assert scores.top_logprobs[0] is None
    for token, logprob, top in zip(scores.tokens[1:], scores.token_logprobs[1:], scores.top_logprobs[1:], strict=True):
        assert top[token] == logprob
        assert len(top) in {3, 4}
    for top in scores.top_logprobs[6:]:
        assert max(top.values()) in scores.token_logprobs[6:]


def test_a_choice_summed_as_lm_eval_sums_it_has_our_own_score(served: Any) -> None:
    """The harness's rule on what a completion echoes; test_openai_lm_eval.py asks the harness itself."""
    context, choices, theirs = "12+34=", ["46", "47", "x"], []
    for choice in choices:
        asked = {"prompt": context + choice, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        told = served.complete(**asked)["choices"][0]["logprobs"]
        scored = list(zip(told["token_logprobs"], told["top_logprobs"], strict=True))[len(context) : -1]
        theirs.append([sum(own for own, _ in scored), all(own == max(top.values()) for own, top in scored)])
    item = {"id": "0", "context": context, "continuations": choices, "split": "lm-eval"}
    (ours,) = map(json.loads, served.client.post("/v1/score", content=json.dumps(item)).text.splitlines())
    assert [[pytest.approx(one["logprob"], abs=1e-6), one["greedy"]] for one in ours["scores"]] == theirs
    assert [greedy for _, greedy in theirs] == [True, False, False]


def test_echo_without_generation(client: Any, served: Any) -> None:
    asked = {"model": "tiny", "prompt": "12+34=", "echo": True, "logprobs": 1}
    whole = client.completions.create(**asked, max_tokens=3)  # type: ignore[call-overload]
    only = client.completions.create(**asked, max_tokens=0)  # type: ignore[call-overload]
    assert only.choices[0].text == "12+34="
    assert only.choices[0].logprobs.token_logprobs == whole.choices[0].logprobs.token_logprobs[:6]
    assert only.usage.completion_tokens == 0
    pieces = served.post("/v1/completions", **asked, max_tokens=0, stream=True).text
    assert '"12+34="' in pieces


def test_the_end_of_text_ends_and_is_counted_but_not_shown(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "12+34=", "temperature": 0, "logit_bias": {"0": 100}, "max_tokens": 5}
    ended = client.completions.create(**asked, echo=True, logprobs=1)  # type: ignore[call-overload]
    (choice,) = ended.choices
    assert (choice.text, choice.finish_reason, ended.usage.completion_tokens) == ("12+34=", "stop", 1)
    assert choice.logprobs.tokens[-1] == "<|endoftext|>"
    assert len(choice.logprobs.token_logprobs) == ended.usage.prompt_tokens + 1, "what lm-eval counts on"
    going_on = client.completions.create(**asked, extra_body={"ignore_eos": True})  # type: ignore[call-overload]
    assert (going_on.choices[0].text, going_on.usage.completion_tokens) == ("", 5)
    assert going_on.choices[0].finish_reason == "length"
    messages: Any = [{"role": "user", "content": "a"}]
    silent = client.chat.completions.create(model="tiny", messages=messages, logit_bias={"0": 100}, logprobs=True, n=2)
    assert [(c.message.content, c.finish_reason) for c in silent.choices] == [("", "stop")] * 2
    assert [c.logprobs and c.logprobs.content for c in silent.choices] == [[], []]


def test_a_leading_0_is_the_beginning_but_shown(client: Any) -> None:
    asked = {"model": "tiny", "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0}
    hidden = client.completions.create(prompt=[50, 51], **asked)  # type: ignore[call-overload]
    shown = client.completions.create(prompt=[0, 50, 51], **asked)  # type: ignore[call-overload]
    named = client.completions.create(prompt="<|endoftext|>12", **asked)  # type: ignore[call-overload]
    assert shown.choices == named.choices
    assert (hidden.usage.prompt_tokens, shown.usage.prompt_tokens) == (2, 3)
    ours, theirs = hidden.choices[0].logprobs, shown.choices[0].logprobs
    assert theirs.tokens == ["<|endoftext|>", *ours.tokens]
    assert theirs.token_logprobs[0] is None
    assert theirs.token_logprobs[1] is not None
    assert theirs.token_logprobs[2:] == ours.token_logprobs[1:]


def test_vllm_prompt_logprobs(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "12+34=", "max_tokens": 1, "temperature": 0}
    answer = client.completions.create(**asked, extra_body={"prompt_logprobs": 2})  # type: ignore[call-overload]
    first, *rest = answer.choices[0].model_extra["prompt_logprobs"]
    assert first is None
    echoed = client.completions.create(**asked, echo=True, logprobs=2)  # type: ignore[call-overload]
    assert [by_id[str(i)]["logprob"] for by_id, i in zip(rest, b"3,45>", strict=True)] == (
        echoed.choices[0].logprobs.token_logprobs[1:6]
    )
    for by_id in rest:
        best = next(one for one in by_id.values() if one["rank"] == 1)
        assert best["logprob"] == max(one["logprob"] for one in by_id.values())


def test_biases_change_what_is_drawn(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "12+34=", "max_tokens": 2, "temperature": 0, "logprobs": 1}
    plain = client.completions.create(**asked).choices[0]  # type: ignore[call-overload]
    biased = client.completions.create(**asked, logit_bias={"53": -100, "58": 100}).choices[0]  # type: ignore[call-overload]
    assert plain.text == "46"
    assert biased.text == "99"
    four = plain.logprobs.token_logprobs[0]
    assert biased.logprobs.top_logprobs[0]["4"] == four, "log-probabilities are the model's, before the bias"


def test_penalties_are_those_of_openai(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "a", "max_tokens": 30, "temperature": 0}
    bias = {"98": 100}
    held = client.completions.create(**asked, logit_bias=bias, frequency_penalty=2.0).choices[0].text  # type: ignore[call-overload]
    free = client.completions.create(**asked, logit_bias=bias).choices[0].text  # type: ignore[call-overload]
    assert free == "a" * 30
    assert 0 < held.count("a") <= 30


def test_a_stream_of_completions_is_the_completion(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "12+34=", "max_tokens": 20, "temperature": 1, "seed": 3, "n": 3, "logprobs": 1}
    whole = client.completions.create(**asked)  # type: ignore[call-overload]
    texts, tokens, ends = ["", "", ""], [[], [], []], {}
    usage = None
    for chunk in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):  # type: ignore[call-overload]
        usage = chunk.usage
        for choice in chunk.choices:
            assert choice.index not in ends, "nothing follows an end"
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert texts == [c.text for c in whole.choices]
    assert tokens == [c.logprobs.tokens for c in whole.choices]
    assert ends == {c.index: c.finish_reason for c in whole.choices}
    assert usage.total_tokens == whole.usage.total_tokens


def test_a_chat(client: Any) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "12+34="}]}]
    answer = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=4, temperature=0, logprobs=True, top_logprobs=2  # type: ignore[arg-type]
    )  # fmt: skip
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content is not None
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert len(choice.logprobs.content) == 4
    for one in choice.logprobs.content:
        assert bytes(one.bytes or []).decode() == one.token
        assert one.top_logprobs[0].logprob >= one.top_logprobs[1].logprob
        assert one.logprob == one.top_logprobs[0].logprob
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len("System: s\n\nUser: 12+34=\n\nAssistant:")


def test_a_chat_goes_on_from_the_assistants_words(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "add"}, {"role": "assistant", "content": "12+34="}]
    answer = client.chat.completions.create(model="tiny", messages=messages, max_tokens=2, temperature=0)
    prompt = "User: add\n\nAssistant: 12+34="
    same = client.completions.create(model="tiny", prompt=prompt, max_tokens=2, temperature=0)
    assert answer.choices[0].message.content == same.choices[0].text


@pytest.mark.parametrize("how", ["suffix", "kwargs", "field"])
def test_a_stream_of_thoughts_is_split_as_the_whole_is(client: Any, how: str) -> None:
    asked: Any = {
        "model": "tiny:think" if how == "suffix" else "tiny",
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 40,
        "seed": 1,
        "temperature": 1.5,
        "logit_bias": {str(ord(c) + 1): 5 for c in "</think>"},
        "n": 2,
        "logprobs": True,
    }
    if how != "suffix":
        extra = {"chat_template_kwargs": {"template": "think"}} if how == "kwargs" else {"chat_template": "think"}
        asked["extra_body"] = extra
    whole = client.chat.completions.create(**asked)
    thoughts, answers, tokens = ["", ""], ["", ""], [[], []]
    for chunk in client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            thoughts[choice.index] += getattr(choice.delta, "reasoning_content", None) or ""
            answers[choice.index] += choice.delta.content or ""
            tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
    assert thoughts == [c.message.reasoning_content for c in whole.choices]
    assert answers == [c.message.content for c in whole.choices]
    assert tokens == [c.logprobs.content for c in whole.choices]


def test_wrong_key_wrong_model_wrong_value(openai: Any, client: Any, served: Any) -> None:
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=served.base, api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="gpt", prompt="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model="tiny", prompt="a", temperature=-1)
    assert bad.value.param == "temperature"


def test_a_full_queue_is_a_rate_limit(openai: Any, client: Any, served: Any) -> None:
    streams = [client.completions.create(model="tiny", stream=True, prompt=["a"] * 40, extra_body={}, max_tokens=10**6)]
    wait_for(lambda: served.stats()["running"] == 8, "every slot is taken")
    with pytest.raises(openai.RateLimitError) as refused:
        client.completions.create(model="tiny", prompt=["a"] * 20)
    assert refused.value.response.headers["retry-after"] == "1"
    for stream in streams:
        stream.close()
    served.settle()


def test_a_reader_that_leaves_ends_its_samples(served: Any) -> None:
    before = served.settle()["finished"]
    with served.client.stream("POST", "/v1/completions", json=ENDLESS | {"n": 3, "stream": True}) as response:
        assert next(response.iter_lines()).startswith("data: ")
    assert served.settle()["finished"] == before


def test_a_slow_reader_misses_nothing(served: Any) -> None:
    """The client reads on only when everything has been generated."""
    asked = ENDLESS | {"max_tokens": 300, "seed": 1, "temperature": 1.0, "stream": True}
    with served.client.stream("POST", "/v1/completions", json=asked) as response:
        text = ""
        for number, line in enumerate(response.iter_lines()):
            if number == 2:
                served.settle()
            if line.startswith("data: {"):
                text += json.loads(line.removeprefix("data: "))["choices"][0]["text"]
    whole = served.complete(**asked | {"stream": False})
    assert text == whole["choices"][0]["text"]


def test_what_has_no_effect_is_counted(served: Any) -> None:
    served.complete(prompt="a", max_tokens=1, min_p=0.1, user="x")
    assert any("min_p (" in note and "user" not in note for note in served.stats()["notes"])


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
def test_tokenize_and_back(served: Any, path: str) -> None:
    told = served.post(path, prompt="12+é", add_special_tokens=False, return_token_strs=True).json()
    assert told["tokens"] == [50, 51, 44, 0xC3 + 1, 0xA9 + 1]
    assert told["count"] == 5
    assert told["max_model_len"] == 1 << 20
    assert told["token_strs"][-1] == "bytes:\\xa9"
    assert served.post("/detokenize", tokens=told["tokens"]).json() == {"prompt": "12+é"}
    info = served.client.get("/tokenizer_info").json()
    assert served.post(path, prompt=info["eos_token"]).json()["tokens"] == [0]
    messages = [{"role": "user", "content": "a\n\n\nb"}]
    expected = served.post(path, prompt="User: a\nb\n\nAssistant:").json()["tokens"]
    assert served.post(path, messages=messages).json()["tokens"] == expected
    assert served.post(path, prompt=messages).json()["tokens"] == expected


def test_health_needs_no_key_and_the_rest_does(served: Any) -> None:
    with httpx.Client(base_url=served.root) as stranger:
        assert stranger.get("/health").status_code == 200
        for method, path in [("GET", "/version"), ("GET", "/v1/health"), ("POST", "/v1/generate"), ("GET", "/nothing")]:
            answer = stranger.request(method, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
    assert served.client.get("/version").json().keys() == {"version"}


def test_an_answer_is_parsed_as_the_clients_own_class(openai: Any, client: Any) -> None:
    pydantic = pytest.importorskip("pydantic", reason="needs pydantic: not installed")
    fields = {"digit": (Literal["3", "é"], ...), "sure": (bool, ...)}
    answer_class = pydantic.create_model("Answer", __config__=pydantic.ConfigDict(extra="forbid"), **fields)
    said = client.chat.completions.parse(
        model="tiny",
        messages=[{"role": "user", "content": "3?"}],
        response_format=answer_class,
        temperature=1.5,
        n=3,
        max_tokens=200,
    )
    for choice in said.choices:
        assert choice.finish_reason == "stop"
        assert choice.message.parsed.digit in {"3", "é"}
    extra = {"guided_choice": ["yes", "no"]}
    chosen = client.completions.create(model="tiny", prompt="3?", max_tokens=9, extra_body=extra)
    assert chosen.choices[0].text in {"yes", "no"}
    with pytest.raises(openai.BadRequestError, match=r"guided_regex: .*unclosed"):
        client.completions.create(model="tiny", prompt="3?", extra_body={"guided_regex": "(a"})
