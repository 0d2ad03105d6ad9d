"""`POST /v1/chat/completions`: chat messages rendered to a prompt, and the answer, whole or as a stream."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rwkv_engine.openai import logprobs
from rwkv_engine.openai.api_context import ApiContext, ReplyHeader
from rwkv_engine.openai.formats import AnswerFormat, format_of
from rwkv_engine.openai.generation import Choice, Generation
from rwkv_engine.openai.generation_request import GenerationRequest, check_stream, sampling_of, stops_of
from rwkv_engine.openai.prompts import of_text
from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.request_types import DEFAULT_CHAT_TOKENS, ChatRequest
from rwkv_engine.openai.server_sent_events import streamed
from rwkv_engine.openai.templates import DEFAULT, RenderedPrompt, render, template_named
from rwkv_engine.openai.text_stream import TextPiece
from rwkv_engine.openai.thinking import SplitText, ThoughtSplitter
from rwkvctl.http.server import Request, Response

EVENT = "chat.completion.chunk"


async def chat(context: ApiContext, request: Request) -> Response:
    """Answer `POST /v1/chat/completions`, whole or as a stream. Raises Refusal if the request is invalid, the queue is
    full or generation fails."""
    asked = context.reader.read(request.body, ChatRequest)
    suffix = context.template_asked(asked.model)
    name = asked.chat_template_kwargs.template or asked.chat_template or suffix or DEFAULT
    check_stream(asked)
    if asked.top_logprobs is not None and not asked.logprobs:
        raise bad("top_logprobs", "it needs logprobs to be true")
    rendered = render(asked.messages, template_named(name))
    header = context.header("chat.completion", "chatcmpl")
    prompt = of_text(rendered.text, context.tokens)
    generation = await context.launcher.launch(request.gone, header.id, [prompt], request_of(asked, rendered))
    answer = Chat(context, header, asked, rendered, generation)
    if asked.stream:
        return streamed(answer.chunks())
    await generation.finish()
    return Response(body=msgspec.json.encode(answer.whole()))


def request_of(asked: ChatRequest, rendered: RenderedPrompt) -> GenerationRequest:
    """Return the generation request for a chat request. Raises Refusal if its penalties conflict or its format cannot
    be used."""
    max_tokens = asked.max_completion_tokens or asked.max_tokens or DEFAULT_CHAT_TOKENS
    top = (asked.top_logprobs or 0) if asked.logprobs else -1
    sampling = sampling_of(asked, max_tokens, top)
    return GenerationRequest(
        n=asked.n,
        sampling=sampling,
        stops=stops_of(asked, rendered.stops),
        seed=asked.seed,
        streamed=asked.stream,
        format=checked(format_of(asked, rendered.lead), rendered),
    )


def checked(asked_format: AnswerFormat | None, rendered: RenderedPrompt) -> AnswerFormat | None:
    """Return the format, which holds for all that is generated. Raises Refusal if that begins with a thought."""
    if asked_format is not None and rendered.phase == "thinking":
        raise bad(
            asked_format.param, "it is for an answer, and this template begins with a thought; use chat or fake-think"
        )
    return asked_format


@dataclass(slots=True)
class ChoiceStream:
    """The state of one streamed choice: the splitter of its text, and how many of its tokens were sent."""

    splitter: ThoughtSplitter
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Chat:
    """The answer to one chat request: a whole object or a stream of events."""

    context: ApiContext
    header: ReplyHeader
    asked: ChatRequest
    rendered: RenderedPrompt
    generation: Generation
    streams: dict[int, ChoiceStream] = field(default_factory=dict)

    def whole(self) -> Mapping[str, Any]:
        """Return the whole answer as one object."""
        choices = [self._choice(choice) for choice in self.generation.choices]
        return self.header.reply(choices=choices, usage=self.generation.usage.as_json())

    async def chunks(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the answer as events: the roles, the text, the finish reasons and, if asked for, the usage. Raises
        Refusal if generation fails."""
        usage: dict[str, Any] = {"usage": None} if self.asked.with_usage else {}
        for choice in self.generation.choices:
            role = {"role": "assistant", "content": ""}
            yield self.header.reply(EVENT, choices=[event_choice(choice.index, role)], **usage)
        async for choice, piece in self.generation.pieces():
            for shown in self._events(choice, piece):
                yield self.header.reply(EVENT, choices=[shown], **usage)
        if self.asked.with_usage:
            yield self.header.reply(EVENT, choices=[], usage=self.generation.usage.as_json())

    def _choice(self, choice: Choice) -> dict[str, Any]:
        split = ThoughtSplitter.after(self.rendered).feed(choice.data.decode(errors="replace"), end=True)
        message: dict[str, Any] = {"role": "assistant", "content": split.answer, "refusal": None}
        if self.rendered.phase == "thinking":
            message["reasoning_content"] = split.thought
        return {
            "index": choice.index,
            "message": message,
            "logprobs": self._logprobs(choice, 0, len(choice.entries())),
            "finish_reason": choice.finish_reason,
        }

    def _events(self, choice: Choice, piece: TextPiece) -> list[dict[str, Any]]:
        """Return a piece of text as events. The finish reason has an event of its own."""
        stream = self.streams.setdefault(choice.index, ChoiceStream(ThoughtSplitter.after(self.rendered)))
        delta = delta_of(stream.splitter.feed(piece.text, end=piece.last))
        scores = self._logprobs(choice, stream.tokens, piece.tokens)
        stream.tokens = piece.tokens
        events = [event_choice(choice.index, delta, scores)] if delta or (scores and scores["content"]) else []
        return [*events, event_choice(choice.index, {}, None, choice.finish_reason)] if piece.last else events

    def _logprobs(self, choice: Choice, start: int, end: int) -> dict[str, Any] | None:
        """Return the log-probabilities of the answer's tokens from `start` on; a stop is not part of a message."""
        if not self.asked.logprobs:
            return None
        sample = choice.sample
        kept = len(sample.answer) if sample is not None and sample.stop is not None else end
        return logprobs.of_chat(
            self.context.tokens, choice.entries(start, min(end, kept)), self.asked.top_logprobs or 0
        )


def delta_of(split: SplitText) -> dict[str, str]:
    """Return the `delta` of an event: thought and answer, each only if it is not empty."""
    both = {"reasoning_content": split.thought, "content": split.answer}
    return {name: text for name, text in both.items() if text}


def event_choice(
    index: int, delta: dict[str, str], scores: dict[str, Any] | None = None, finish_reason: str | None = None
) -> dict[str, Any]:
    """Return one element of the `choices` of an event."""
    return {"index": index, "delta": delta, "logprobs": scores, "finish_reason": finish_reason}
