"""What an OpenAI request asks of the engine: samples, sampling, stops and format in the engine's own terms."""

import secrets
import struct
from dataclasses import dataclass
from hashlib import blake2b

from rwkv_engine.openai.formats import AnswerFormat
from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.request_types import SamplingRequest
from rwkvctl.protocol.engine import Sampling, Stops

NUDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """With `max_tokens` 0 only the prompt is scored. `prompt_top`: -1, or how many of the likeliest tokens go with the
    log-probability of each of the prompt's tokens. `echo`: answers begin with their prompt. `streamed`: the client
    reads along. `format`: the format of the answers."""

    n: int
    sampling: Sampling
    stops: Stops
    seed: int | None
    prompt_top: int = -1
    echo: bool = False
    streamed: bool = False
    format: AnswerFormat | None = None

    def keys(self, prompt: int) -> tuple[int, ...]:
        """Return a random key for each sample of a prompt: the same seed gives the same keys, and no two are alike."""
        if self.seed is None:
            return tuple(secrets.randbits(64) for _ in range(self.n))
        return tuple(key_of(self.seed, prompt, number) for number in range(self.n))


def key_of(seed: int, prompt: int, number: int) -> int:
    """Return the 64-bit random key of a sample: a BLAKE2b hash of seed, prompt index and sample number."""
    return int.from_bytes(blake2b(struct.pack("<qII", seed, prompt, number), digest_size=8).digest(), "little")


def sampling_of(request: SamplingRequest, max_tokens: int, logprobs: int) -> Sampling:
    """Return the sampling parameters of a request. Raises Refusal if it sets two penalty rules at once."""
    presence, frequency, decay = penalties(request)
    return Sampling(
        max_tokens=max_tokens,
        temperature=request.temperature,
        top_k=max(0, request.top_k),
        top_p=request.top_p,
        presence=presence,
        frequency=frequency,
        decay=decay,
        logit_bias=tuple(request.logit_bias.items()),
        logprobs=logprobs,
    )


def penalties(request: SamplingRequest) -> tuple[float, float, float]:
    """Return (presence, frequency, decay) for the rule of the engine: the first occurrence of a token adds `presence`
    to its penalty, each later one adds `frequency`. OpenAI's rule, count * frequency + (count > 0) * presence, is the
    same with presence + frequency for the first occurrence. The engine takes a token whose penalty is 0 for one that
    has not occurred; penalties of unlike signs could add up to 0 and are moved a little from there."""
    presence, frequency = request.presence_penalty, request.frequency_penalty
    if not (presence or frequency):
        return request.alpha_presence, request.alpha_frequency, request.alpha_decay
    if request.alpha_presence or request.alpha_frequency:
        raise bad("alpha_presence", "the penalties are either OpenAI's or RWKV's, not both")
    return presence + frequency + (NUDGE if presence * frequency < 0 else 0.0), frequency, 1.0


def stops_of(request: SamplingRequest, more: tuple[str, ...] = ()) -> Stops:
    """Return the stops of a request and those of a template."""
    return Stops(end_of_text=not request.ignore_eos, suffixes=(*request.stops, *more))


def check_stream(request: SamplingRequest) -> None:
    """Check that `stream_options` is given for streams only. Raises Refusal."""
    if request.stream_options is not None and not request.stream:
        raise bad("stream_options", "it is for streams only; set stream to true")
