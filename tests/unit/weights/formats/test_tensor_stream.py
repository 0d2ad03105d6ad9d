"""Streaming gives the tensors that mapping gives, in the file's order, and bounds what it holds."""

from pathlib import Path
from types import ModuleType

import pytest
import torch

from rwkv_weights.errors import CheckpointValuesError, UnreadableCheckpointError
from rwkv_weights.formats import index, load
from rwkv_weights.formats import tensor_stream as module
from rwkv_weights.formats.finite import FiniteCheck
from rwkv_weights.formats.synthetic import dims_of, synthetic
from rwkv_weights.formats.tensor_stream import Tensors, stream

DIMS = dims_of(2, 128, 257, (16, 8, 24, 40))


@pytest.fixture(params=["new pth", "old pth", "one file", "shards"])
def path(request: pytest.FixtureRequest, tmp_path: Path, hf_layout: ModuleType) -> Path:
    tensors = synthetic(DIMS)
    match request.param:
        case "one file":
            return hf_layout.write(tmp_path / "hf", tensors)
        case "shards":
            return hf_layout.write(tmp_path / "hf", tensors, shards=3)
        case kind:
            torch.save(tensors, tmp_path / "x.pth", _use_new_zipfile_serialization=kind == "new pth")
            return tmp_path / "x.pth"


def test_the_tensors_are_those_of_the_map(path: Path) -> None:
    wanted, found = load.load(path).tensors, dict(stream(index.read(path)))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].stride() == tensor.stride()
        assert found[name].dtype == tensor.dtype


def test_they_come_in_the_order_of_the_file(path: Path) -> None:
    read = index.read(path)
    places = [(str(read.entries[name].file), read.entries[name].offset) for name, _ in stream(read)]
    assert places == sorted(places)


def test_a_lent_tensor_is_right_until_the_next(path: Path) -> None:
    wanted, seen, places = load.load(path).tensors, 0, set()
    for name, tensor in stream(index.read(path), lend=True):
        assert torch.equal(tensor, wanted[name]), name
        places.add(tensor.data_ptr())
        seen += 1
    assert seen == len(wanted)
    if path.name != "x.pth" or index.read(path).entries["emb.weight"].offset % 2 == 0:
        assert len(places) <= 3, "one buffer, taken anew only for a larger tensor"


def test_it_converts(path: Path) -> None:
    wanted = load.load(path).tensors
    for name, tensor in stream(index.read(path), dtype=torch.float32, lend=True):
        assert torch.equal(tensor, wanted[name].float()), name


def test_any_order_is_answered(path: Path) -> None:
    wanted = load.load(path).tensors
    with Tensors(index.read(path)) as found:
        assert len(found) == len(wanted)
        for name in reversed(list(wanted)):
            assert torch.equal(found[name], wanted[name])


def test_a_file_that_is_cut_short_meanwhile_is_a_sentence(path: Path) -> None:
    read = index.read(path)
    for file in read.files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(UnreadableCheckpointError, match="was cut short while it was read"):
        dict(stream(read))


def test_a_file_that_went_away_is_a_sentence(path: Path) -> None:
    read = index.read(path)
    for file in read.files:
        file.unlink()
    with pytest.raises(UnreadableCheckpointError, match="No such file"):
        dict(stream(read))


def test_small_windows_of_reading_ahead_lose_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", 100)
    wanted = load.load(path).tensors
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in stream(index.read(path)))


def test_numbers_that_are_not_finite_are_named_as_they_pass(tmp_path: Path) -> None:
    tensors = synthetic(DIMS)
    tensors["blocks.1.att.w1"][3, 5] = float("nan")
    tensors["head.weight"][0, 0] = float("-inf")
    torch.save(tensors, tmp_path / "x.pth")
    check = FiniteCheck()
    with Tensors(index.read(tmp_path / "x.pth"), check=check) as found:
        for _ in found.values():
            pass
    assert check.damaged() == ["blocks.1.att.w1", "head.weight"]
    with pytest.raises(CheckpointValuesError, match=r"x holds NaN or infinities, in blocks\.1\.att\.w1, head\.weight"):
        check.finish("x")


@pytest.mark.gpu
def test_on_a_gpu_the_tensors_are_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: none is there")
    monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    wanted = load.load(path).tensors
    for name, tensor in stream(index.read(path), "cuda", torch.float16):
        assert tensor.is_cuda
        assert torch.equal(tensor.cpu(), wanted[name].to(torch.float16)), name
