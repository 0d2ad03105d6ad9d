"""Decode steps recorded once for each batch size and replayed: a replay costs the host one call instead of hundreds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

WARM_UPS = 2  # kernels are compiled, and the library's handles made, before a capture


@dataclass(slots=True)
class Graphs:
    """`body(bucket)` is one step over buffers with fixed addresses. Without CUDA it is called directly."""

    body: Callable[[int], None]
    device: torch.device
    _captured: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def capture(self, buckets: list[int]) -> None:
        """Record the step for every bucket, the largest first, so that the smaller ones fit its memory."""
        if self.device.type != "cuda":
            return
        pool = torch.cuda.graph_pool_handle()
        for bucket in sorted(buckets, reverse=True):
            for _ in range(WARM_UPS):
                self.body(bucket)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.body(bucket)
            self._captured[bucket] = graph

    def run(self, bucket: int) -> None:
        """Run the step of one bucket: replay its graph, or call `body` if none was captured."""
        graph = self._captured.get(bucket)
        if graph is None:
            self.body(bucket)
        else:
            graph.replay()
