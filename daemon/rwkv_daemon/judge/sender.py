"""One question on one key: what is sent, what an endpoint turns out not to take, and what came back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rwkv_daemon.judge.chat_completion import BadReplyError, Reply, reply_of
from rwkv_daemon.judge.failures import Failure, failure_of
from rwkv_daemon.judge.http_client import ExchangeError, Response, Transport
from rwkv_daemon.judge.key_file import Scrubber
from rwkv_daemon.judge.key_pool import Endpoint, Key
from rwkv_daemon.judge.request import Question
from rwkv_daemon.judge.request_style import Manner


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends questions. `model` is the judge's name, by which an endpoint goes unless it has its own; `now` seconds."""

    model: str
    transport: Transport
    scrubber: Scrubber
    now: Callable[[], float]

    async def ask(self, key: Key, question: Question, learnt: Callable[[Endpoint], None]) -> Reply:
        """The reply. Raises ExchangeError. `learnt` is told when the endpoint turns out to want another manner, which
        it is remembered by only after it has worked: a refusal may as well be the row's fault."""
        endpoint, started = key.endpoint, self.now()
        manner = replace(endpoint.manner, structured=endpoint.manner.structured and bool(question.schema))
        while (response := await self._post(key, question, manner)).status != 200:
            failure = failure_of(response.status, response.headers, response.body)
            other = manner.instead(failure.text) if failure.meaning == "refused" or failure.status == 404 else None
            if other is None:
                raise ExchangeError(failure)
            manner = other
            key.requests.add(self.now(), 1)
        reply = self._reply(endpoint, question, response, self.now() - started)
        known = endpoint.manner if question.schema else replace(endpoint.manner, structured=False)
        if manner != known:
            endpoint.manner = manner if question.schema else replace(manner, structured=endpoint.manner.structured)
            learnt(endpoint)
        return reply

    async def _post(self, key: Key, question: Question, manner: Manner) -> Response:
        body = self.body(key.endpoint, question, manner)
        return await self.transport.post(key.endpoint.config, key.secret, body)

    def body(self, endpoint: Endpoint, question: Question, manner: Manner) -> bytes:
        """Return the JSON body of a chat completion request, with only those optional fields that `manner` says the
        endpoint accepts."""
        document: dict[str, Any] = {
            "model": endpoint.config.model or self.model,
            "messages": question.messages,
            manner.length_field: self.room(endpoint, question),
        }
        if manner.temperature:
            document["temperature"] = question.temperature
        if manner.structured:
            name = question.rule.replace("/", "-").replace(".", "-")
            schema = {"name": name, "strict": True, "schema": json.loads(question.schema)}
            document["response_format"] = {"type": "json_schema", "json_schema": schema}
        return json.dumps(document).encode()

    def room(self, endpoint: Endpoint, question: Question) -> int:
        """Return the token limit of the reply: the larger of the rule's and the endpoint's."""
        return max(question.max_tokens, endpoint.config.max_tokens)

    def _reply(self, endpoint: Endpoint, question: Question, response: Response, latency_s: float) -> Reply:
        try:
            reply = reply_of(response.body, question.chars)
        except BadReplyError as error:
            raise ExchangeError(Failure("again", str(error), 200)) from None
        usage = reply.usage
        cost = endpoint.cost(usage.prompt_tokens, usage.completion_tokens)
        return replace(
            reply, text=self.scrubber.clean(reply.text), usage=replace(usage, cost=cost), latency_s=latency_s
        )
