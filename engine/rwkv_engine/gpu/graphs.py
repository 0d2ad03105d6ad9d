"""Steps recorded once for each shape and replayed: a replay costs the host one call instead of hundreds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

from rwkv_engine.errors import OutOfMemory

Shape = TypeVar("Shape")

WARM_UPS = 2  # kernels are compiled, and the library's handles made, before a capture


@dataclass(slots=True)
class Graphs(Generic[Shape]):
    """`body(shape)` is one step over buffers with fixed addresses. Without CUDA it is called directly."""

    body: Callable[[Shape], None]
    device: torch.device
    _captured: dict[Shape, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def capture(self, shapes: Iterable[Shape]) -> None:
        """Record the step of every shape. The largest must come first, so that the others fit its memory.

        Raises OutOfMemory."""
        if self.device.type != "cuda":
            return
        pool = torch.cuda.graph_pool_handle()
        for shape in shapes:
            for _ in range(WARM_UPS):
                self.body(shape)
            graph = torch.cuda.CUDAGraph()
            try:
                # If a capture fails, torch.cuda.graph does not return to the stream from before; the outer block does.
                with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, pool=pool):
                    self.body(shape)
            except RuntimeError as error:
                if (cause := out_of_memory(error)) is not None:
                    raise OutOfMemory(str(cause)) from error
                raise
            self._captured[shape] = graph

    def run(self, shape: Shape) -> None:
        """Run the step of one shape: replay its graph, or call `body` if none was captured."""
        graph = self._captured.get(shape)
        if graph is None:
            self.body(shape)
        else:
            graph.replay()


def out_of_memory(error: BaseException | None) -> torch.OutOfMemoryError | None:
    """Return the allocator's error behind another one: while a graph is captured, it raises one with the allocator's as
    its context. None if memory did not run out."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__context__
    return error
