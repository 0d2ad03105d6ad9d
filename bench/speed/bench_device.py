"""The device on which figures are measured, with the rooflines that they are compared with."""

from dataclasses import dataclass

import torch
from speed.clock import ROUNDS
from speed.roofline import Roof


@dataclass(frozen=True, slots=True)
class BenchDevice:
    """`card` is the device's name; `roofs` are its own roofline, measured in this run, and an H200's."""

    device: torch.device
    card: str
    roofs: tuple[Roof, Roof]
    rounds: int = ROUNDS

    @property
    def measured(self) -> bool:
        """Whether the figures are those of a GPU."""
        return self.device.type == "cuda"
