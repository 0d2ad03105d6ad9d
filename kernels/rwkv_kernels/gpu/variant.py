"""A variant of a kernel for the compile check: one kernel at one shape."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel as it is launched for one shape, without the tensors.

    `signature` gives each argument's type as triton writes it, with `:16` where the value or address is a multiple of
    16 ("*fp16:16", "i32"); an argument that is known when the kernel is compiled stands in `constants` instead.
    `options` are num_warps, num_stages and so on. `wgmma`: the matrix unit of Hopper must be used.
    """

    name: str
    function: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    wgmma: bool = False
