"""The prefill part of a step: feed prompts, as a graph of the next larger shape where there is one.

Launched kernel by kernel, a step costs the host hundreds of launches: 12 ms at 1.5B on an H200, in which the GPU reads
1,000 tokens. Up to that size (half of it at 7.2B, whose kernels last longer) a padded graph is faster, and costs the
host half a millisecond.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rwkv_engine.gpu.graphs import Graphs
from rwkv_engine.gpu.model import GpuModel
from rwkv_engine.gpu.pool import GpuPool
from rwkv_engine.gpu.prefill_shapes import PrefillShape, captured_shapes, shape_of
from rwkv_engine.gpu.sequence_rows import SlotTokens, numbers_of, of_sequences, pack, unpack
from rwkv_engine.gpu.workspace import Workspace


@dataclass(slots=True)
class Prefill:
    """`shapes` have graphs, which read their sequences from `numbers`, int32, packed.

    Rows beyond the sequences use the scratch slot and belong to none; sequences beyond them have no rows.
    """

    model: GpuModel
    pool: GpuPool
    space: Workspace
    graphs: Graphs[PrefillShape] = field(init=False)
    shapes: frozenset[PrefillShape] = frozenset()
    numbers: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.graphs = Graphs(self._body, self.model.device)
        self.numbers = torch.empty(0, dtype=torch.int32, device=self.model.device)

    @torch.inference_mode()
    def capture(self, most_rows: int) -> None:
        """Record a step of every shape of up to `most_rows` rows."""
        may_chunk = self.model.may_chunk
        shapes = list(captured_shapes(most_rows, self.model.dims.heads, may_chunk=may_chunk))
        most = max((numbers_of(shape.rows, shape.sequences) for shape in shapes), default=0)
        self.numbers = torch.empty(most, dtype=torch.int32, device=self.model.device)
        self.graphs.capture(self._with_contents(shapes))
        self.shapes = frozenset(shapes)

    def feed(self, sequences: Sequence[SlotTokens]) -> Tensor:
        """Feed tokens to the slots' states. Returns the residual of each row [R, D] in fp32, sequence after sequence:
        part of the workspace, which the next step overwrites."""
        lengths = [len(tokens) for _, tokens in sequences]
        in_chunks = self.model.in_chunks(lengths)
        shape = shape_of(lengths, in_chunks=in_chunks)
        if shape is None or shape not in self.shapes:
            rows, ids = of_sequences(sequences, self.model.device, in_chunks=in_chunks)
            return self.model.step(self.pool, self.space, rows, ids)
        self._show(sequences, shape)
        self.graphs.run(shape)
        return self.space.residual[0, : sum(lengths)]

    def _with_contents(self, shapes: Sequence[PrefillShape]) -> Iterator[PrefillShape]:
        """Yield the shapes, each with numbers in its place that its step can run on."""
        for shape in shapes:
            self._show([(self.pool.scratch, [0])], shape)
            yield shape

    def _show(self, sequences: Sequence[SlotTokens], shape: PrefillShape) -> None:
        """Copy the sequences to where the graph reads them."""
        packed = pack(sequences, shape.rows, shape.sequences, self.pool.scratch)
        host = packed.pin_memory() if self.numbers.is_cuda else packed
        self.numbers[: len(packed)].copy_(host, non_blocking=True)

    def _body(self, shape: PrefillShape) -> None:
        rows, ids = unpack(self.numbers, shape.rows, shape.sequences)
        self.model.step(self.pool, self.space, replace(rows, in_chunks=shape.in_chunks), ids)
