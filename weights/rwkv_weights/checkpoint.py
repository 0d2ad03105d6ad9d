"""Load a BlinkDL .pth: by name and shape, never trusting what it pickles, and refuse anything else in one sentence."""

import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rwkv_weights.schema import HEAD_SIZE, VALUE_RESIDUAL, Dims, expected, foreign, value_residual

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class CheckpointError(Exception):
    """This file does not load; the message is one sentence for the operator."""


class UnreadableCheckpointError(CheckpointError):
    """The file is missing, truncated, corrupt, or holds more than tensors."""


class UnsupportedArchitectureError(CheckpointError):
    """A model, but not an RWKV-7 (x070) one."""


class CheckpointKeysError(CheckpointError):
    """Keys are missing or nobody knows them."""


class CheckpointShapeError(CheckpointError):
    """A tensor has another shape or type than the rest of the file implies."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A validated model: `tensors` by BlinkDL name, axes of size 1 squeezed away, in the file's dtype, memory-mapped.

    Block 0's unused value-residual tensors are dropped.
    """

    path: Path
    dims: Dims
    tensors: Mapping[str, Tensor]


def load(path: Path) -> Checkpoint:
    """Raises CheckpointError (one of its subclasses) with the reason."""
    tensors = {key: squeeze(tensor) for key, tensor in _read(path).items()}
    if what := foreign(set(tensors)):
        raise UnsupportedArchitectureError(f"{path.name} is not an RWKV-7 (x070) model this engine runs: {what}")
    dims = read_dims(path.name, tensors)
    _check(path.name, tensors, dims)
    for name in VALUE_RESIDUAL:
        tensors.pop(f"blocks.0.att.{name}", None)
    return Checkpoint(path, dims, tensors)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        mmap = zipfile.is_zipfile(path)  # files of torch < 1.6 are not, and cannot be mapped
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except OSError as error:
        raise UnreadableCheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        what = "it is truncated, corrupt or something else"
        raise UnreadableCheckpointError(f"{path.name} is no whole checkpoint of plain tensors: {what}") from error
    if not isinstance(content, dict) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        raise UnreadableCheckpointError(f"{path.name} does not hold a flat table of named tensors")
    return content


def squeeze(tensor: Tensor) -> Tensor:
    """Without axes of size 1, but for a matrix [1, x] of a one-head model, which stays as it is."""
    return tensor if tensor.dim() <= 2 else tensor.squeeze()


def read_dims(name: str, tensors: Mapping[str, Tensor]) -> Dims:
    """Read every size from a tensor's shape; formulas for the ranks miss public models."""
    blocks = [int(part) for key in tensors if key.startswith("blocks.") and (part := key.split(".")[1]).isdigit()]
    if not blocks:
        raise UnsupportedArchitectureError(f"{name} is not an RWKV-7 (x070) model: no key begins with blocks.0")
    layers = 1 + max(blocks)
    sizes = [_axis(name, tensors, key, axis) for key, axis in _SIZES]
    vocabulary, width, hidden, rank_w, rank_a, rank_g = sizes
    rank_v = _axis(name, tensors, "blocks.1.att.v1", 1) if layers > 1 else 0
    if width % HEAD_SIZE:
        raise CheckpointShapeError(f"{name}: the width {width} is no multiple of the head size {HEAD_SIZE}")
    return Dims(vocabulary, layers, width, hidden, (rank_w, rank_a, rank_v, rank_g))


_SIZES = (
    ("emb.weight", 0),
    ("emb.weight", 1),
    ("blocks.0.ffn.key.weight", 0),
    ("blocks.0.att.w1", 1),
    ("blocks.0.att.a1", 1),
    ("blocks.0.att.g1", 1),
)


def _axis(name: str, tensors: Mapping[str, Tensor], key: str, axis: int) -> int:
    if key not in tensors:
        raise CheckpointKeysError(f"{name} has no tensor {key}, which every RWKV-7 (x070) checkpoint has")
    if tensors[key].dim() != 2:
        raise CheckpointShapeError(f"{name}: {key} has the shape {list(tensors[key].shape)} where a matrix is expected")
    return tensors[key].shape[axis]


def _check(name: str, tensors: Mapping[str, Tensor], dims: Dims) -> None:
    """Every key known, none missing, each of the shape the dimensions imply."""
    wanted = expected(dims, block0_has_value_residual=False)
    ignored = {f"blocks.0.att.{key}" for key in value_residual(dims)}
    if missing := sorted(wanted.keys() - tensors.keys()):
        raise CheckpointKeysError(f"{name} lacks {_some(missing)}")
    if unknown := sorted(tensors.keys() - wanted.keys() - ignored):
        raise CheckpointKeysError(f"{name} has tensors that RWKV-7 (x070) does not know: {_some(unknown)}")
    for key, shape in wanted.items():
        _check_tensor(name, key, tensors[key], shape)


def _check_tensor(name: str, key: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        is_, want = list(tensor.shape), list(shape)
        raise CheckpointShapeError(f"{name}: {key} has the shape {is_} where the other tensors imply {want}")
    if tensor.dtype not in _FLOATS:
        raise CheckpointShapeError(f"{name}: {key} is {tensor.dtype}, not a floating-point tensor")


def _some(keys: list[str]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(keys[:3]) + more
