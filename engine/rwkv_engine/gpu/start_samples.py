"""Set up the device's sampler for samples that begin: one packed copy of numbers, one of lists.

Nothing here waits for the device, which may have tens of milliseconds of prompts before it: assigning a Python number
by an index on the device would, because the number goes there from memory that is not pinned.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rwkv_engine.gpu.sequence_rows import to_device
from rwkv_engine.scheduling.sample import Sample
from rwkv_kernels.draw import COLDEST, Costs
from rwkv_kernels.gpu.slot_draws import SlotDraws

_REALS = ("temperature", "top_p", "presence", "frequency", "decay")


def start_samples(draws: SlotDraws, begun: Sequence[tuple[int, Sample]]) -> None:
    """Write the slots' settings. A sample that starts over with generated tokens gets its penalty ledger restored."""
    if not begun:
        return
    device = draws.temperature.device
    slots = to_device(torch.tensor([slot for slot, _ in begun]), device)
    settings = [sample.rule.sampling for _, sample in begun]
    numbers = torch.tensor([[getattr(s, name) for s in settings] for name in _REALS])
    numbers[0].masked_fill_(numbers[0] < COLDEST, 0.0)
    reals = to_device(numbers, device)
    for name, values in zip(_REALS, reals, strict=True):
        getattr(draws, name)[slots] = values
    whole = [[s.top_k, signed(sample.key), len(sample.ids)] for s, (_, sample) in zip(settings, begun, strict=True)]
    top_k, key, position = to_device(torch.tensor(whole), device).t()
    draws.top_k[slots] = top_k.int()
    draws.key[slots] = key
    draws.position[slots] = position
    draws.halted.index_fill_(0, slots, 0)
    draws.ledger_used.index_fill_(0, slots, 0)  # the slot's previous sample must leave no penalties
    _lists(draws, slots, begun)
    for slot, sample in begun:
        if sample.ids and sample.rule.penalised:
            _restore(draws, slot, sample)


def signed(key: int) -> int:
    """Return the signed number with the bits of an unsigned 64-bit key."""
    return key - (1 << 64) if key >= 1 << 63 else key


def _lists(draws: SlotDraws, slots: Tensor, begun: Sequence[tuple[int, Sample]]) -> None:
    """Write the lists of biases (a ban is one of -inf), unpenalised tokens and stop tokens."""
    rules = [sample.rule for _, sample in begun]
    biases = [_biases(sample) for _, sample in begun]
    _fill(draws.bias_ids, draws.bias_count, slots, [list(bias) for bias in biases])
    _fill(draws.bias, None, slots, [list(bias.values()) for bias in biases])
    _fill(draws.spared, draws.spared_count, slots, [sorted(rule.unpenalised) for rule in rules])
    _fill(draws.stops, draws.stop_count, slots, [sorted(rule.stops.tokens) for rule in rules])


def _biases(sample: Sample) -> dict[int, float]:
    found: dict[int, float] = {}
    if sample.rule.bias is not None:
        ids, values = sample.rule.bias
        found.update(zip(ids.tolist(), values.tolist(), strict=True))
    if sample.rule.banned is not None:
        found.update(dict.fromkeys(sample.rule.banned.tolist(), -float("inf")))
    return found


def _fill(table: Tensor, counts: Tensor | None, slots: Tensor, lists: Sequence[Sequence[float]]) -> None:
    """Write a list to the row of each slot. Only the columns in use are copied."""
    lengths = [len(values) for values in lists]
    width = max(lengths)
    if counts is not None:
        counts[slots] = to_device(torch.tensor(lengths, dtype=counts.dtype), counts.device)
    if width:
        rows = np.zeros((len(lists), width), np.float32 if table.is_floating_point() else np.int32)
        for row, values in zip(rows, lists, strict=True):
            row[: len(values)] = values
        table[slots, :width] = to_device(torch.from_numpy(rows), table.device)


def _restore(draws: SlotDraws, slot: int, sample: Sample) -> None:
    """Restore the ledger of a sample: the costs of its tokens so far, as if they had been added one by one."""
    s = sample.rule.sampling
    costs = Costs(s.presence, s.frequency, s.decay, sample.rule.unpenalised)
    for token in sample.ids:
        costs.add(token)
    current = costs.current()
    ids, values = current if current is not None else (np.empty(0, np.int64), np.empty(0, np.float32))
    used, device = min(len(ids), draws.ledger_ids.shape[1]), draws.ledger_ids.device
    draws.ledger_used[slot] = used
    if used:
        draws.ledger_ids[slot, :used] = to_device(torch.from_numpy(ids[:used].astype(np.int32)), device)
        draws.ledger_costs[slot, :used] = to_device(torch.from_numpy(values[:used].copy()), device)
