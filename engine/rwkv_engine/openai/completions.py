"""`POST /v1/completions`: one or several prompts, and their completions, whole or as a stream."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rwkv_engine.openai import logprobs
from rwkv_engine.openai.api_context import ApiContext, ReplyHeader
from rwkv_engine.openai.formats import format_of
from rwkv_engine.openai.generation import Choice, Generation
from rwkv_engine.openai.generation_request import GenerationRequest, check_stream, sampling_of, stops_of
from rwkv_engine.openai.prompts import prompts_of
from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.request_types import CompletionRequest
from rwkv_engine.openai.server_sent_events import streamed
from rwkv_engine.openai.text_stream import TextPiece
from rwkv_engine.openai.tokens import Offsets
from rwkvctl.http.server import Request, Response

OFF = -1


async def complete(context: ApiContext, request: Request) -> Response:
    """Answer `POST /v1/completions`, whole or as a stream. Raises Refusal if the request is invalid, the queue is full
    or generation fails."""
    asked = context.reader.read(request.body, CompletionRequest)
    check(context, asked)
    header = context.header("text_completion", "cmpl")
    prompts = prompts_of(asked.prompt, context.tokens)
    generation = await context.launcher.launch(request.gone, header.id, prompts, request_of(asked))
    answer = Completion(context, header, asked, generation)
    if asked.stream:
        return streamed(answer.chunks())
    await generation.finish()
    return Response(body=msgspec.json.encode(answer.whole()))


def check(context: ApiContext, asked: CompletionRequest) -> None:
    """Check which parameters go together. Raises Refusal."""
    if context.template_asked(asked.model):
        raise bad("model", "a template belongs to chats; completions take the prompt as it is")
    check_stream(asked)
    if asked.suffix:
        raise bad("suffix", "inserting before a suffix is not supported")
    if asked.best_of is not None and asked.best_of != asked.n:
        raise bad("best_of", f"it is {asked.best_of}, but n is {asked.n}; choosing among samples is not supported")
    if asked.max_tokens == 0 and not asked.echo and asked.prompt_logprobs is None:
        raise bad("max_tokens", "0 needs echo or prompt_logprobs, else there is nothing to answer")
    if asked.prompt_logprobs is not None and asked.stream:
        raise bad("prompt_logprobs", "it is not supported in streams; set stream to false")


def request_of(asked: CompletionRequest) -> GenerationRequest:
    """Return the generation request for a completion request. Raises Refusal if its penalties conflict or its format
    cannot be used."""
    top = OFF if asked.logprobs is None else asked.logprobs
    prompt_top = max(top if asked.echo else OFF, OFF if asked.prompt_logprobs is None else asked.prompt_logprobs)
    return GenerationRequest(
        n=asked.n,
        sampling=sampling_of(asked, asked.max_tokens, top),
        stops=stops_of(asked),
        seed=asked.seed,
        prompt_top=prompt_top,
        echo=asked.echo,
        streamed=asked.stream,
        format=format_of(asked),
    )


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one completion request: a whole object or a stream of events."""

    context: ApiContext
    header: ReplyHeader
    asked: CompletionRequest
    generation: Generation
    offsets: dict[int, Offsets] = field(default_factory=dict)

    def whole(self) -> Mapping[str, Any]:
        """Return the whole answer as one object."""
        choices = [self._choice(choice) for choice in self.generation.choices]
        return self.header.reply(choices=choices, usage=self.generation.usage.as_json())

    async def chunks(self) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the answer as events, the last one with the usage if asked for. Raises Refusal if generation fails."""
        usage: dict[str, Any] = {"usage": None} if self.asked.with_usage else {}
        seen: dict[int, int] = {}
        async for choice, piece in self.generation.pieces():
            yield self.header.reply(choices=[self._chunk(choice, piece, seen)], **usage)
        if self.asked.with_usage:
            yield self.header.reply(choices=[], usage=self.generation.usage.as_json())

    def _choice(self, choice: Choice) -> dict[str, Any]:
        text = ((choice.prompt.data if self.asked.echo else b"") + choice.data).decode(errors="replace")
        shown = self._shown(choice, text, self._echoed(choice), choice.entries(), choice.finish_reason)
        if self.asked.prompt_logprobs is not None:
            own = choice.prompt_entries
            shown["prompt_logprobs"] = logprobs.of_prompt(self.context.tokens, own, self.asked.prompt_logprobs)
        return shown

    def _chunk(self, choice: Choice, piece: TextPiece, seen: dict[int, int]) -> dict[str, Any]:
        """Return a piece with the tokens that are new in it; the first one also has the prompt, if it is echoed."""
        echoed = self._echoed(choice) if choice.index not in seen else ()
        entries = choice.entries(seen.get(choice.index, 0), piece.tokens)
        seen[choice.index] = piece.tokens
        return self._shown(choice, piece.text, echoed, entries, choice.finish_reason if piece.last else None)

    def _echoed(self, choice: Choice) -> Sequence[logprobs.Entry]:
        return choice.prompt_entries if self.asked.echo and self.asked.logprobs is not None else ()

    def _shown(
        self,
        choice: Choice,
        text: str,
        echoed: Sequence[logprobs.Entry],
        entries: Sequence[logprobs.Entry],
        finish_reason: str | None,
    ) -> dict[str, Any]:
        scores: dict[str, Any] | None = None
        if self.asked.logprobs is not None:
            tokens = self.context.tokens
            pieces = [*(tokens.bytes_of(i) for i, _ in echoed), *(tokens.tokenizer.token_bytes(i) for i, _ in entries)]
            places = self.offsets.setdefault(choice.index, Offsets()).of(pieces, text)
            scores = logprobs.of_completion(tokens, [*echoed, *entries], self.asked.logprobs, places)
        return {"index": choice.index, "text": text, "logprobs": scores, "finish_reason": finish_reason}
