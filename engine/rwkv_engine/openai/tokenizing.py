"""`/tokenize`, `/detokenize`, `/tokenizer_info` in vLLM's shapes: a harness uses the vocabulary without having it."""

from collections.abc import Sequence

import msgspec

from rwkv_engine.errors import ItemError
from rwkv_engine.openai.api_context import ApiContext
from rwkv_engine.openai.prompts import of_ids
from rwkv_engine.openai.refusals import bad, of_item
from rwkv_engine.openai.request_types import DetokenizeRequest, Message, TokenizeRequest
from rwkv_engine.openai.templates import DEFAULT, render, template_named
from rwkv_engine.openai.tokens import END
from rwkv_engine.scheduling.tasks import MAX_PROMPT_TOKENS
from rwkvctl.http.server import Request, Response


async def tokenize(context: ApiContext, request: Request) -> Response:
    """Answer `POST /tokenize`: the token ids of a text or of rendered messages. Raises Refusal if the request is
    invalid."""
    asked = context.reader.read(request.body, TokenizeRequest)
    try:
        ids = context.tokens.encode(text_of(context, asked))
    except ItemError as error:
        raise of_item(error, "prompt") from error
    names = [context.tokens.name(token) for token in ids] if asked.return_token_strs else None
    body = {"count": len(ids), "max_model_len": MAX_PROMPT_TOKENS, "tokens": ids, "token_strs": names}
    return Response(body=msgspec.json.encode(body))


def text_of(context: ApiContext, asked: TokenizeRequest) -> str:
    """Return the text, or the messages rendered as a prompt. Raises Refusal if the request has neither."""
    suffix = context.template_asked(asked.model)
    if isinstance(asked.prompt, str):
        return asked.prompt
    messages: Sequence[Message] | None = asked.prompt if asked.prompt is not None else asked.messages
    if not messages:
        raise bad("prompt", "the request must have a prompt or messages")
    name = asked.chat_template_kwargs.template or asked.chat_template or suffix or DEFAULT
    return render(messages, template_named(name)).text


async def detokenize(context: ApiContext, request: Request) -> Response:
    """Answer `POST /detokenize`: the text of token ids, invalid UTF-8 as U+FFFD. Raises Refusal if the request is
    invalid or an id is not in the vocabulary."""
    asked = context.reader.read(request.body, DetokenizeRequest)
    context.template_asked(asked.model)
    data = of_ids(asked.tokens, context.tokens, "tokens").data
    return Response(body=msgspec.json.encode({"prompt": data.decode(errors="replace")}))


async def tokenizer_info(context: ApiContext, _: Request) -> Response:
    """Answer `GET /tokenizer_info` for lm-eval's remote tokenizer; the end of text also begins an empty context."""
    info = {
        "tokenizer_class": "RWKVByteTokenizer" if context.tokens.tokenizer.is_bytes else "RWKVWorldTokenizer",
        "eos_token": END,
        "bos_token": None,
        "pad_token": None,
        "chat_template": None,
        "vocab_size": context.tokens.tokenizer.size,
        "model_max_length": MAX_PROMPT_TOKENS,
        "add_bos_token": False,
    }
    return Response(body=msgspec.json.encode(info))
