"""RWKV-7 on a GPU: the kernels of one step in their order, over a slot-indexed state pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.products import Products
from rwkv_engine.gpu.weights import Block, Weights, build
from rwkv_engine.gpu.workspace import Workspace
from rwkv_kernels.gpu import launch_config, low_rank
from rwkv_kernels.gpu.add_norm_mix import add_last, add_norm, add_norm_mix, embed_norm
from rwkv_kernels.gpu.row_layout import Rows
from rwkv_kernels.gpu.wkv7 import wkv7
from rwkv_kernels.gpu.wkv7_chunked import wkv7_chunked
from rwkv_kernels.norm import HEAD_EPS, LAYER_EPS
from rwkv_weights.formats.load import Checkpoint
from rwkv_weights.formats.schema import Dims
from rwkvctl.protocol.numerics import PROFILES, Numerics, Profile


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A model on one device in one numerics profile."""

    dims: Dims
    weights: Weights
    profile: Profile
    dtype: torch.dtype
    device: torch.device
    products: Products

    @classmethod
    @torch.inference_mode()
    def of(cls, checkpoint: Checkpoint, numerics: Numerics, device: torch.device) -> "GpuModel":
        """Copy a validated checkpoint to the device."""
        profile = PROFILES[numerics]
        dtype = torch.float16 if profile.half_weights else torch.float32
        weights = build(checkpoint, numerics, device)
        return cls(checkpoint.dims, weights, profile, dtype, device, Products(profile.exact))

    @property
    def state_dtype(self) -> torch.dtype:
        return torch.float16 if self.profile.half_state else torch.float32

    @property
    def may_chunk(self) -> bool:
        """Whether the recurrence may run in chunks, which give other bits."""
        return not (self.profile.exact or self.profile.half_state)

    def in_chunks(self, lengths: Sequence[int]) -> bool:
        """Whether the recurrence of sequences of these lengths is to run in chunks: they are allowed, and faster."""
        heads = self.dims.heads
        return self.may_chunk and launch_config.chunks_pay(sum(lengths), max(lengths), len(lengths), heads)

    def step(self, pool: GpuPool, space: Workspace, rows: Rows, ids: Tensor) -> Tensor:
        """Feed ids [R] and update the slots' states. Returns the residual of each row [R, D] in fp32, which is the
        beginning of `space.residual[0]`."""
        count = ids.shape[0]
        now, after = space.residual[0, :count], space.residual[1, :count]
        norm0 = self.weights.norm0
        embed_norm(ids, self.weights.embedding, norm0.weight, norm0.bias, LAYER_EPS, now)
        delta: Tensor | None = None
        for layer, block in enumerate(self.weights.blocks):
            delta = self._time_mix(block, layer, pool, space, rows, now, delta, after)
            delta = self._channel_mix(block, layer, pool, space, rows, after, delta, now)
        assert delta is not None
        add_last(now, delta, rows, pool.hidden)
        return now

    def _time_mix(
        self, block: Block, layer: int, pool: GpuPool, space: Workspace, rows: Rows, x: Tensor, delta: Tensor | None,
        x_out: Tensor,
    ) -> Tensor:  # fmt: skip
        """Write x plus the previous increment to `x_out`; return the increment of this layer's time mix, [S, R, D]."""
        count, width = x.shape
        mixed = space.mixed[: 6 * count * width].view(6, count, width)
        add_norm_mix(
            x, delta, block.norm1.weight, block.norm1.bias, LAYER_EPS, block.shares, pool.shift[:, layer, 0], rows,
            x_out, mixed,
        )  # fmt: skip
        planes = space.rkv[: 4 * count * width].view(4, count, width)
        rkv = planes[:3] if layer else planes[1:]  # so that the first layer's v stays in the last plane
        ranks = space.ranks[: count * block.down.ranks].view(count, -1)
        if count <= launch_config.JOINT_ROWS:
            low_rank.down(mixed, block.down, ranks, block.rkv, rkv)
        else:
            self.products.planes(mixed[:3], block.rkv, rkv)
            low_rank.down(mixed, block.down, ranks)
        decay, rate, gate, read = (t[:count] for t in (space.decay, space.rate, space.gate, space.read))
        low_rank.up(ranks, block.up, rkv[2], planes[3] if layer else None, decay, rate, gate)
        recurrence = wkv7_chunked if rows.in_chunks else wkv7
        recurrence(
            rkv[0], rkv[1], rkv[2], rate, gate, decay, block.k_k, block.k_a, block.r_k, block.head_norm.weight,
            block.head_norm.bias, HEAD_EPS, pool.wkv[:, layer], rows, read,
        )  # fmt: skip
        return self.products.parts(read, block.output, space.parts)

    def _channel_mix(
        self, block: Block, layer: int, pool: GpuPool, space: Workspace, rows: Rows, x: Tensor, delta: Tensor,
        x_out: Tensor,
    ) -> Tensor:  # fmt: skip
        """Write x plus `delta` to `x_out`; return the increment of this layer's channel mix, [S, R, D]."""
        count, width = x.shape
        mixed = space.mixed[: count * width].view(1, count, width)
        add_norm_mix(
            x, delta, block.norm2.weight, block.norm2.bias, LAYER_EPS, block.share, pool.shift[:, layer, 1], rows,
            x_out, mixed,
        )  # fmt: skip
        hidden = space.hidden[:count]
        self.products.relu_squared(mixed[0], block.key, hidden)
        return self.products.parts(hidden, block.value.t(), space.parts, sparse=True)

    def normed(self, hidden: Tensor) -> Tensor:
        """Return the normalised residuals, the input of the head: [Q, D] -> [Q, D] in the profile's type."""
        norm = self.weights.norm_out
        out = torch.empty(hidden.shape, dtype=self.dtype, device=self.device)
        add_norm(hidden, None, norm.weight, norm.bias, LAYER_EPS, None, out)
        return out

    def logits(self, hidden: Tensor, out: Tensor) -> Tensor:
        """Write the logits of residuals [Q, D] to `out` [Q, V] in fp32, and return it."""
        self.products.planes(self.normed(hidden)[None], self.weights.head[None], out[None])
        return out
