"""What a device could do at most: the formulas of the roofline, from a model's shape and two measured constants.

W = 2 (params - V D) bytes are read a step, the embedding being gathered, and as many FLOP are computed a token; a state
number is read and written; shifts and fp16 logits are moved. A decode step of B rows takes at least

    max(W / bandwidth, B FLOP / rate) + B (2 S + 8 L D + 4 V) / bandwidth

and a prompt's token, the head left out, FLOP / rate.
"""

from dataclasses import dataclass

from rwkv_weights.formats import synthetic
from rwkv_weights.formats.schema import HEAD_SIZE, Dims

SHAPES = {"0.1B": (12, 768), "0.4B": (24, 1024), "1.5B": (24, 2048), "2.9B": (32, 2560), "7.2B": (32, 4096)}


def dims_of(size: str) -> Dims:
    """The published shape of that size."""
    return synthetic.dims_of(*SHAPES[size])


def parameters(dims: Dims) -> int:
    """Return the number of parameters as it is published: without the value residual, which the first block does not
    use."""
    v, d, (w, a, x, g) = dims.vocabulary, dims.width, dims.ranks
    layer = 19 * d + 12 * d * d + 2 * d * (w + a + x + g)
    return 2 * v * d + 4 * d + dims.layers * layer - (d + 2 * d * x)


@dataclass(frozen=True, slots=True)
class Roof:
    """A device's two constants: bytes a second of a copy, read and written; 16-bit FLOP a second of a product."""

    name: str
    bytes_s: float
    flop_s: float

    def decode_s(self, dims: Dims, batch: int, state_item: int) -> float:
        """The least seconds of a step of one token each, states of so many bytes a number."""
        weights = 2 * (parameters(dims) - dims.vocabulary * dims.width)
        state = HEAD_SIZE * dims.layers * dims.width * state_item
        each = 2 * state + 8 * dims.layers * dims.width + 4 * dims.vocabulary
        return max(weights / self.bytes_s, batch * weights / self.flop_s) + batch * each / self.bytes_s

    def prefill_s(self, dims: Dims, tokens: int) -> float:
        """The least seconds of so many tokens of prompts."""
        return tokens * 2 * (parameters(dims) - 2 * dims.vocabulary * dims.width) / self.flop_s
