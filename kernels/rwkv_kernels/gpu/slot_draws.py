"""What the sampler knows of each slot, on the device: settings, penalties, what was drawn, and workspace."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rwkv_kernels.gpu import launch_config


@dataclass(frozen=True, slots=True)
class SlotDraws:
    """The sampler's data of each slot, on the device; S slots, the last of them the scratch slot of padding rows.

    Written by the engine when a sequence takes the slot: temperature, top_p [S] fp32, top_k [S] int32, key [S] int64
    (the bits of the unsigned key), position [S] int64 (tokens drawn so far; at 0 the ledger and `halted` start anew);
    presence, frequency, decay [S] fp32; and lists with their lengths: bias_ids int32 and bias fp32 (distinct ids; a ban
    is -inf), spared int32 (unpenalised tokens), stops int32. Written by the sampler: position; token [S]
    int64, the last one drawn; halted [S] int8, 1 once a stop token was drawn; the ledger of costs, which takes
    `ledger_capacity` distinct tokens and ignores further ones.

    Workspace of one draw: of each lane of 32 tokens, `lane_top` and `lane_second`, its largest logits, `lane_mass` and
    `lane_whole`, its sums of exponentials at the slot's temperature and at 1, relative to its largest; `open_lanes`,
    the lanes in which a candidate lies; `found`, `found_ids`, the candidates.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    key: Tensor
    position: Tensor
    presence: Tensor
    frequency: Tensor
    decay: Tensor
    bias_ids: Tensor
    bias: Tensor
    bias_count: Tensor
    spared: Tensor
    spared_count: Tensor
    stops: Tensor
    stop_count: Tensor
    ledger_ids: Tensor
    ledger_costs: Tensor
    ledger_used: Tensor
    token: Tensor
    halted: Tensor
    lane_top: Tensor
    lane_second: Tensor
    lane_mass: Tensor
    lane_whole: Tensor
    open_lanes: Tensor
    found: Tensor
    found_ids: Tensor

    @classmethod
    def allocate(
        cls,
        slots: int,
        device: torch.device | str,
        vocabulary: int,
        ledger_capacity: int,
        *,
        bias_capacity: int = 256,
        spared_capacity: int = 256,
        stop_capacity: int = 64,
    ) -> "SlotDraws":
        """Allocate the slots' data. Every slot draws greedily until its settings are written."""

        def zeros(kind: torch.dtype, *more: int) -> Tensor:
            return torch.zeros(slots, *more, dtype=kind, device=device)

        ones = torch.ones(slots, dtype=torch.float32, device=device)
        real, short, long = torch.float32, torch.int32, torch.int64
        lanes, candidates = launch_config.sampler_lanes(vocabulary), launch_config.SAMPLER_CANDIDATES
        return cls(
            temperature=zeros(real), top_k=zeros(short), top_p=ones, key=zeros(long), position=zeros(long),
            presence=zeros(real), frequency=zeros(real), decay=ones.clone(),
            bias_ids=zeros(short, bias_capacity), bias=zeros(real, bias_capacity), bias_count=zeros(short),
            spared=zeros(short, spared_capacity), spared_count=zeros(short),
            stops=zeros(short, stop_capacity), stop_count=zeros(short),
            ledger_ids=zeros(short, ledger_capacity), ledger_costs=zeros(real, ledger_capacity),
            ledger_used=zeros(short), token=zeros(long), halted=zeros(torch.int8),
            lane_top=zeros(real, lanes), lane_second=zeros(real, lanes), lane_mass=zeros(real, lanes),
            lane_whole=zeros(real, lanes), open_lanes=zeros(short, lanes),
            found=zeros(real, candidates), found_ids=zeros(short, candidates),
        )  # fmt: skip


def sampler_bytes(vocabulary: int) -> int:
    """Return the bytes of a slot's workspace."""
    return 20 * launch_config.sampler_lanes(vocabulary) + 8 * launch_config.SAMPLER_CANDIDATES
