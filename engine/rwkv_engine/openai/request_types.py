"""The bodies of OpenAI requests as far as they are understood. Defaults are neutral: what is not asked for is off.

Ranges are part of the types, so a bad value is refused by name while the body is read. A field that is not here has no
effect; the engine counts it (`rwkv_engine.openai.request_body`).
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from rwkv_engine.scheduling.tasks import MAX_PROMPT_TOKENS
from rwkv_engine.serving.compile_requests import MAX_BIAS, MAX_SAMPLES, MAX_TOP

DEFAULT_CHAT_TOKENS = 8192
LONGEST_STOP = 1000

Count = Annotated[int, Meta(ge=0, le=MAX_PROMPT_TOKENS)]
Positive = Annotated[int, Meta(ge=1, le=MAX_PROMPT_TOKENS)]
Samples = Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]
Top = Annotated[int, Meta(ge=0, le=MAX_TOP)]
Bias = Annotated[float, Meta(ge=-MAX_BIAS, le=MAX_BIAS)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
Alpha = Annotated[float, Meta(ge=-100.0, le=100.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Seed = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Stop = Annotated[str, Meta(min_length=1, max_length=LONGEST_STOP)]
Id = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]


class StreamOptions(Struct, frozen=True, kw_only=True):
    """`include_usage`: send a last event with the usage of the whole request."""

    include_usage: bool = False


class JsonSchema(Struct, frozen=True, kw_only=True):
    """The JSON schema of an answer. Its name and description are ignored, and it is always followed strictly."""

    schema: dict[str, Any] | None = None


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """The format of an answer, as OpenAI's API states it."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class StructuredOutputs(Struct, frozen=True, kw_only=True):
    """The format of an answer, as vLLM's API states it; fields that accept only null are not supported."""

    choice: list[str] | None = None
    json: dict[str, Any] | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    grammar: None = None
    structural_tag: None = None
    whitespace_pattern: None = None


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """The fields that completions and chats share.

    `presence_penalty` and `frequency_penalty` are OpenAI's rule on generated tokens; `alpha_*` is RWKV's own, in their
    place. `top_k` 0 or -1 is off. `ignore_eos`: token 0 does not end a sample. `user` is ignored. `response_format`,
    `structured_outputs` and `guided_*` ask for a format of the answer (`rwkv_engine.openai.formats`).
    """

    model: str = ""
    n: Samples = 1
    temperature: Annotated[float, Meta(ge=0.0, le=100.0)] = 1.0
    top_p: Share = 1.0
    top_k: Annotated[int, Meta(ge=-1, le=1 << 20)] = 0
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] = []
    seed: Seed | None = None
    logit_bias: dict[Id, Bias] = {}
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    alpha_presence: Alpha = 0.0
    alpha_frequency: Alpha = 0.0
    alpha_decay: Share = 1.0
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat = ResponseFormat()
    structured_outputs: StructuredOutputs = StructuredOutputs()
    guided_choice: list[str] | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_grammar: None = None
    user: Any = None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionRequest(SamplingRequest, frozen=True, kw_only=True):
    """Body of `POST /v1/completions`. `prompt`: text, ids, or a list of either; `prompt_logprobs` is vLLM's
    extension."""

    prompt: Any
    max_tokens: Count = 16
    echo: bool = False
    logprobs: Top | None = None
    prompt_logprobs: Top | None = None
    best_of: Samples | None = None
    suffix: str = ""


class Part(Struct, frozen=True, kw_only=True):
    """A content part of a message; only the type `text` is accepted."""

    type: str
    text: str = ""


class Message(Struct, frozen=True, kw_only=True):
    """A message of a chat; `content` is a text or a list of parts."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None


class TemplateChoice(Struct, frozen=True, kw_only=True):
    """`chat_template_kwargs`: the name of the template."""

    template: str = ""


class ChatRequest(SamplingRequest, frozen=True, kw_only=True):
    """Body of `POST /v1/chat/completions`. `max_completion_tokens` takes precedence over `max_tokens`."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    logprobs: bool = False
    top_logprobs: Top | None = None
    chat_template: str = ""
    chat_template_kwargs: TemplateChoice = TemplateChoice()
    tools: Annotated[list[Any], Meta(max_length=0)] = []
    functions: Annotated[list[Any], Meta(max_length=0)] = []


class TokenizeRequest(Struct, frozen=True, kw_only=True):
    """Body of `POST /tokenize`: a text, or messages in either field. There is no special token to add."""

    prompt: str | list[Message] | None = None
    messages: list[Message] | None = None
    model: str = ""
    add_special_tokens: bool = True
    return_token_strs: bool = False
    chat_template: str = ""
    chat_template_kwargs: TemplateChoice = TemplateChoice()


class DetokenizeRequest(Struct, frozen=True, kw_only=True):
    """Body of `POST /detokenize`: the token ids to decode."""

    tokens: list[Id]
    model: str = ""
