"""Sends one question with one key, and learns which request style a server accepts."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from rwkv_daemon.remote.failures import ExchangeFailure, Meaning, failure_of
from rwkv_daemon.remote.http_client import ExchangeError, HttpResponse, Transport
from rwkv_daemon.remote.key_file import Scrubber
from rwkv_daemon.remote.key_pool import ApiKey, EndpointState
from rwkv_daemon.remote.request import Question
from rwkv_daemon.remote.request_style import RequestStyle
from rwkv_daemon.remote.server_reply import BadReplyError, ServerReply, UnfitReplyError, usage_in


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends questions. `model` is the name that endpoints without a model name of their own are asked for."""

    model: str
    transport: Transport
    scrubber: Scrubber
    now: Callable[[], float]

    async def ask(self, key: ApiKey, question: Question, learnt: Callable[[EndpointState], None]) -> ServerReply:
        """Return the reply. Raises ExchangeError. `learnt` is called when the endpoint turns out to need another style,
        which is kept only after it has worked: the question may as well be to blame for a refusal."""
        endpoint, started = key.endpoint, self.now()
        style = first = replace(endpoint.style, structured=endpoint.style.structured and bool(question.schema))
        while (response := await self._post(key, question, style)).status != 200:
            failure = failure_of(response.status, response.headers, response.body)
            refused = failure.meaning == "refused" or failure.status == 404
            other = style.instead(failure.text, question.droppable(endpoint.style)) if refused else None
            if other is None:
                raise ExchangeError(failure)
            style = other
            key.requests.add(self.now(), 1)
        reply = self._reply(endpoint, question, response, self.now() - started)
        endpoint.style = endpoint.style.learning(style, question.optional, structured=bool(question.schema))
        if style != first:
            learnt(endpoint)
        return reply

    async def _post(self, key: ApiKey, question: Question, style: RequestStyle) -> HttpResponse:
        body = self.body(key.endpoint, question, style)
        return await self.transport.post(key.endpoint.config, question.route, key.secret, body)

    def body(self, endpoint: EndpointState, question: Question, style: RequestStyle) -> bytes:
        """Return the body of a request as JSON."""
        document = question.body(endpoint.config.model or self.model, style, self.room(endpoint, question))
        return json.dumps(document).encode()

    def room(self, endpoint: EndpointState, question: Question) -> int:
        """Return the token limit of the reply: the larger of the question's and the endpoint's."""
        return max(question.max_tokens, endpoint.config.max_tokens)

    def _reply(
        self, endpoint: EndpointState, question: Question, response: HttpResponse, latency_s: float
    ) -> ServerReply:
        try:
            reply = question.read(response.body)
        except BadReplyError as error:
            meaning: Meaning = "refused" if isinstance(error, UnfitReplyError) else "again"
            usage = endpoint.priced(usage_in(response.body))
            raise ExchangeError(ExchangeFailure(meaning, str(error), 200, usage=usage)) from None
        clean, usage = self.scrubber.clean, endpoint.priced(reply.usage)
        return replace(reply, text=clean(reply.text), model=clean(reply.model), usage=usage, latency_s=latency_s)
