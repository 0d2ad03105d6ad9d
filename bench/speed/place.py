"""Where the figures are measured: what they are compared with depends on it."""

from dataclasses import dataclass

import torch
from speed.clock import ROUNDS
from speed.roofline import Roof


@dataclass(frozen=True, slots=True)
class Place:
    """`card` is the device's name; `roofs` are its own, measured in this run, and an H200's."""

    device: torch.device
    card: str
    roofs: tuple[Roof, Roof]
    rounds: int = ROUNDS

    @property
    def measured(self) -> bool:
        """Whether a figure says anything about a GPU."""
        return self.device.type == "cuda"
