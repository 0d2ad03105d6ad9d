"""The routes of OpenAI's API, and those of vLLM that harnesses use: their handlers, access and errors."""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import unquote

import msgspec

from rwkv_engine.openai.api_context import ApiContext
from rwkv_engine.openai.chat import chat
from rwkv_engine.openai.completions import complete
from rwkv_engine.openai.refusals import Refusal, no_route, unknown_model, wrong_key, wrong_method
from rwkv_engine.openai.request_launcher import Launcher
from rwkv_engine.openai.templates import TEMPLATES
from rwkv_engine.openai.tokenizing import detokenize, tokenize, tokenizer_info
from rwkv_engine.openai.tokens import Tokens
from rwkv_engine.scheduling.tasks import MAX_PROMPT_TOKENS
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.in_flight import RequestsInFlight
from rwkvctl.http import browser_origin
from rwkvctl.http.server import Request, Response, bearer_is
from rwkvctl.protocol.engine import EngineHealth

Route = Callable[[ApiContext, Request], Awaitable[Response]]
MODELS: Final = "/v1/models"


async def models(context: ApiContext, _: Request) -> Response:
    """Answer `GET /v1/models`: a list of the one model that is served."""
    return Response(body=msgspec.json.encode({"object": "list", "data": [model_card(context)]}))


async def model(context: ApiContext, request: Request) -> Response:
    """Answer `GET /v1/models/NAME`: the model, under any of its names. Raises Refusal (404) for another name."""
    asked = unquote(request.path.removeprefix(f"{MODELS}/"))
    if asked not in context.names:
        raise unknown_model(asked, context.name)
    return Response(body=msgspec.json.encode(model_card(context)))


def model_card(context: ApiContext) -> dict[str, object]:
    """Return the description of the model. `NAME:TEMPLATE` selects one of `templates`."""
    return {
        "id": context.name,
        "object": "model",
        "created": context.since,
        "owned_by": "rwkvctl",
        "max_model_len": MAX_PROMPT_TOKENS,
        "templates": list(TEMPLATES),
    }


async def health(_: ApiContext, __: Request) -> Response:
    """Answer `GET /health`: always ok; that an answer comes is what it tells."""
    return Response(body=b'{"status":"ok"}')


async def version(context: ApiContext, _: Request) -> Response:
    """Answer `GET /version`: the version of the engine."""
    return Response(body=msgspec.json.encode({"version": context.version}))


ROUTES: Final[dict[str, tuple[str, Route]]] = {
    "/v1/completions": ("POST", complete),
    "/v1/chat/completions": ("POST", chat),
    MODELS: ("GET", models),
    "/health": ("GET", health),
    "/version": ("GET", version),
    "/tokenize": ("POST", tokenize),
    "/detokenize": ("POST", detokenize),
    "/tokenizer_info": ("GET", tokenizer_info),
    "/v1/tokenize": ("POST", tokenize),
    "/v1/detokenize": ("POST", detokenize),
    "/v1/tokenizer_info": ("GET", tokenizer_info),
}


class OpenAI:
    """The OpenAI routes of one engine: checks access, answers requests, turns refusals into responses."""

    def __init__(self, requests: RequestsInFlight, compiler: Compiler, health: EngineHealth, api_key: str) -> None:
        fingerprint = f"{health.numerics}-{health.device}-{health.engine_version}"
        launcher = Launcher(requests, compiler)
        self.context = ApiContext(
            health.model, launcher, Tokens(compiler.tokenizer), fingerprint, health.engine_version
        )
        self.api_key = api_key

    def refused(self, request: Request) -> Response | None:
        """Return the refusal of a request over TCP without the key or, where there is no key, of one that a page in a
        browser may have sent; else None. The Unix socket needs no key, as only its owner can open it."""
        if request.peer is not None:
            return None
        if not self.api_key:
            found = browser_origin.trouble(request.method, request.headers)
            return Refusal(*found, code="not_from_a_page").response() if found else None
        if request.path == "/health":
            return None
        return None if bearer_is(request, self.api_key) else wrong_key().response()

    async def handle(self, request: Request) -> Response | None:
        """Return the response, or None for a path that is not an OpenAI route."""
        method, route = ROUTES.get(request.path, ("GET", model if request.path.startswith(f"{MODELS}/") else None))
        if route is None:
            return None
        try:
            if request.method != method:
                raise wrong_method(request.method, request.path, method)
            return await route(self.context, request)
        except Refusal as refusal:
            return refusal.response()

    def not_found(self, sentence: str) -> Response:
        """Return the response, status 404, for a path that does not exist."""
        return no_route(sentence).response()

    def notes(self) -> tuple[str, ...]:
        """Return the notes for `/v1/stats`: which request fields were ignored, and how often."""
        return self.context.reader.notes()
