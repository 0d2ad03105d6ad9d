"""One sample of an item as a request to a server: its fields, its place in the cache, and what cannot be sent.

The seed is the low 31 bits of the sample's 64-bit key: some servers keep 32 signed bits, and some read numbers as
doubles. n is always 1, so that each sample has a seed, a reply and a place in the cache of its own.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from rwkv_daemon.remote.request_style import RequestStyle, response_format
from rwkv_daemon.remote.sample_reply import read_sample
from rwkv_daemon.remote.server_reply import CHAT, COMPLETIONS, ServerReply, estimated_tokens
from rwkvctl.protocol.endpoints import Api
from rwkvctl.protocol.engine import GenerateItem, Sampling, Stops, Turn

SEED_BITS: Final = 31
SCHEMA_NAME: Final = "reply"


class UnsendableError(ValueError):
    """An item cannot be sent to this server. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A request for one sample. `prompt` is a text as it is, or the messages of a chat; `identity` is the model's.
    `schema`: the JSON Schema that the reply is to follow, as JSON, if the server takes one."""

    identity: str
    prompt: str | tuple[Turn, ...]
    sampling: Sampling
    stops: tuple[str, ...]
    seed: int
    label: str = ""
    schema: str = ""

    @property
    def route(self) -> str:
        return COMPLETIONS if isinstance(self.prompt, str) else CHAT

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(self.fields())

    def droppable(self, style: RequestStyle) -> frozenset[str]:
        """Return the fields that the server does not know. One that it has accepted before is refused for its value,
        and a sample without it would be another one; but stop strings are looked for here as well."""
        return self.optional - style.taken | ({"stop"} & self.optional)

    @property
    def chars(self) -> int:
        if isinstance(self.prompt, str):
            return len(self.prompt)
        return sum(len(turn.content) for turn in self.prompt)

    @property
    def prompt_tokens(self) -> int:
        """Estimated number of prompt tokens, for rate limits and the budget."""
        return estimated_tokens(self.chars + len(self.schema))

    @property
    def max_tokens(self) -> int:
        return self.sampling.max_tokens

    def fields(self) -> dict[str, Any]:
        """Return the fields that a server may refuse; those that would change nothing are left out."""
        sampling = self.sampling
        wanted: dict[str, tuple[Any, Any]] = {
            "temperature": (sampling.temperature, None),
            "top_p": (sampling.top_p, 1.0),
            "top_k": (sampling.top_k, 0),
            "presence_penalty": (sampling.presence, 0.0),
            "frequency_penalty": (sampling.frequency, 0.0),
            "stop": (list(self.stops), []),
            "seed": (self.seed, None),
        }
        return {name: value for name, (value, idle) in wanted.items() if value != idle}

    def key(self, _model: str) -> str:
        """Return the key of the reply in the cache: a hash over the model's identity, the route, and what is sent."""
        plain = [self.identity, self.route, self._prompt(), self.max_tokens, self.fields()]
        plain += [self.schema] if self.schema else []  # keys of questions without one are older than schemas
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def body(self, model: str, style: RequestStyle, room: int) -> dict[str, Any]:
        """Return the JSON body of the request."""
        prompt = {"prompt" if isinstance(self.prompt, str) else "messages": self._prompt()}
        kept = {name: value for name, value in self.fields().items() if style.takes(name)}
        if style.most_stops and "stop" in kept:
            kept["stop"] = kept["stop"][: style.most_stops]
        if self.schema and style.structured:
            kept |= response_format(SCHEMA_NAME, self.schema)
        return {"model": model, **prompt, style.length_field: room, **kept}

    def read(self, body: bytes) -> ServerReply:
        """Return a response's body as a reply. Raises BadReplyError."""
        return read_sample(body, chat=self.route == CHAT, prompt_chars=self.chars)

    def _prompt(self) -> str | list[dict[str, str]]:
        if isinstance(self.prompt, str):
            return self.prompt
        return [{"role": turn.role, "content": turn.content} for turn in self.prompt]


def question_of(identity: str, api: Api, item: GenerateItem, index: int) -> SampleQuestion:
    """Return the question for one sample of an item. Raises UnsendableError."""
    if item.ids is not None or item.continue_from is not None or item.tail:
        raise UnsendableError("a model behind an endpoint cannot go on from token ids; send text or messages")
    if item.constraint is not None:
        raise UnsendableError("a model behind an endpoint takes no constraint; leave it out")
    prompt = _prompt_of(api, item)
    key = item.keys[index] if index < len(item.keys) else index
    return SampleQuestion(
        identity=identity,
        prompt=prompt,
        sampling=item.sampling,
        stops=stop_strings(item.stops),
        seed=key & (2**SEED_BITS - 1),
        schema=item.schema,
        label=f"{item.id}/{index}" if item.n > 1 else item.id,
    )


def _prompt_of(api: Api, item: GenerateItem) -> str | tuple[Turn, ...]:
    if api == "chat":
        if item.messages and item.text is None:
            return item.messages
        raise UnsendableError('a chat server takes messages; set api = "completions" to send a prompt as it is')
    if item.text is not None and not item.messages:
        return item.text
    raise UnsendableError('a server with api = "completions" takes a text; set api = "chat" to send messages')


def stop_strings(stops: Stops) -> tuple[str, ...]:
    """Return the texts at which a sample ends, each once; to a server stop tokens are texts as well."""
    return tuple(dict.fromkeys(text for text in (*stops.tokens, *stops.suffixes) if text))


def never_sent(sampling: Sampling, stops: Stops) -> dict[str, Any]:
    """Return what an item asks for that OpenAI's API has no field for, by name; only what would change something."""
    penalised = bool(sampling.presence or sampling.frequency)
    asked: dict[str, tuple[Any, Any]] = {
        "decay": (sampling.decay, 1.0 if penalised else sampling.decay),
        "unpenalised": (list(sampling.unpenalised), [] if penalised else list(sampling.unpenalised)),
        "banned": (list(sampling.banned), []),
        "logit_bias": (list(map(list, sampling.logit_bias)), []),
        "logprobs": (sampling.logprobs, -1),
        "end_of_text": (stops.end_of_text, True),
    }
    return {name: value for name, (value, idle) in asked.items() if value != idle}
