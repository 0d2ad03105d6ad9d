"""Sends one question with one key, and learns which request style an endpoint accepts."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rwkv_daemon.judge.chat_completion import BadReplyError, ChatReply, reply_of
from rwkv_daemon.judge.failures import ExchangeFailure, failure_of
from rwkv_daemon.judge.http_client import ChatResponse, ExchangeError, Transport
from rwkv_daemon.judge.key_file import Scrubber
from rwkv_daemon.judge.key_pool import JudgeEndpoint, JudgeKey
from rwkv_daemon.judge.request import JudgeQuestion
from rwkv_daemon.judge.request_style import RequestStyle


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends questions. `model` is the judge's name, which endpoints without a model name of their own are asked for."""

    model: str
    transport: Transport
    scrubber: Scrubber
    now: Callable[[], float]

    async def ask(self, key: JudgeKey, question: JudgeQuestion, learnt: Callable[[JudgeEndpoint], None]) -> ChatReply:
        """Return the reply. Raises ExchangeError. `learnt` is called when the endpoint turns out to need another style,
        which is kept only after it has worked: the row may as well be to blame for a refusal."""
        endpoint, started = key.endpoint, self.now()
        style = replace(endpoint.style, structured=endpoint.style.structured and bool(question.schema))
        while (response := await self._post(key, question, style)).status != 200:
            failure = failure_of(response.status, response.headers, response.body)
            other = style.instead(failure.text) if failure.meaning == "refused" or failure.status == 404 else None
            if other is None:
                raise ExchangeError(failure)
            style = other
            key.requests.add(self.now(), 1)
        reply = self._reply(endpoint, question, response, self.now() - started)
        known = endpoint.style if question.schema else replace(endpoint.style, structured=False)
        if style != known:
            endpoint.style = style if question.schema else replace(style, structured=endpoint.style.structured)
            learnt(endpoint)
        return reply

    async def _post(self, key: JudgeKey, question: JudgeQuestion, style: RequestStyle) -> ChatResponse:
        body = self.body(key.endpoint, question, style)
        return await self.transport.post(key.endpoint.config, key.secret, body)

    def body(self, endpoint: JudgeEndpoint, question: JudgeQuestion, style: RequestStyle) -> bytes:
        """Return the JSON body of a chat completion request, with only those optional fields that `style` says the
        endpoint accepts."""
        document: dict[str, Any] = {
            "model": endpoint.config.model or self.model,
            "messages": question.messages,
            style.length_field: self.room(endpoint, question),
        }
        if style.temperature:
            document["temperature"] = question.temperature
        if style.structured:
            name = question.rule.replace("/", "-").replace(".", "-")
            schema = {"name": name, "strict": True, "schema": json.loads(question.schema)}
            document["response_format"] = {"type": "json_schema", "json_schema": schema}
        return json.dumps(document).encode()

    def room(self, endpoint: JudgeEndpoint, question: JudgeQuestion) -> int:
        """Return the token limit of the reply: the larger of the rule's and the endpoint's."""
        return max(question.max_tokens, endpoint.config.max_tokens)

    def _reply(
        self, endpoint: JudgeEndpoint, question: JudgeQuestion, response: ChatResponse, latency_s: float
    ) -> ChatReply:
        try:
            reply = reply_of(response.body, question.chars)
        except BadReplyError as error:
            raise ExchangeError(ExchangeFailure("again", str(error), 200)) from None
        usage = reply.usage
        cost = endpoint.cost(usage.prompt_tokens, usage.completion_tokens)
        return replace(
            reply, text=self.scrubber.clean(reply.text), usage=replace(usage, cost=cost), latency_s=latency_s
        )
