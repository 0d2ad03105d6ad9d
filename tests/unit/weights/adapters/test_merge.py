"""Merged weights of every kind against an independent merge in float64; files that torch itself reads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import adapters
import pytest
import torch
from adapters import ALPHA, KINDS

from rwkv_weights.adapters import adapter_file, fit
from rwkv_weights.adapters import merge as merging
from rwkv_weights.adapters.merge import AdapterTensors, merged_tensors
from rwkv_weights.errors import AdapterError, CheckpointValuesError
from rwkv_weights.formats import index, load, pth_writer
from rwkv_weights.formats.pth_writer import TensorForm
from rwkv_weights.verbs.merge import one_ahead


def merge(
    folder: Path, base: Path, adapter: Path, alpha: float | None, *, rounded: bool = False
) -> dict[str, torch.Tensor]:
    """The file that a merge writes, as torch reads it."""
    found, stored = adapter_file.read(adapter), index.read_stored(base)
    fit.check(found, index.read(base), stored, "base", "")
    scale = fit.scale_of(found, alpha)
    forms = {name: TensorForm(entry.dtype, entry.shape) for name, entry in stored.entries.items()}
    with (folder / "merged.pth").open("wb") as file:
        tensors = merged_tensors(stored.entries, AdapterTensors(found), scale, "base", rounded=rounded)
        pth_writer.write(file, forms, tensors)
    assert index.read(folder / "merged.pth").dims == adapters.DIMS
    assert (folder / "merged.pth").stat().st_size <= pth_writer.size_of(forms)
    return dict(torch.load(folder / "merged.pth", weights_only=True, mmap=True))


@pytest.fixture(params=[1, 700, 1 << 19], ids=["row by row", "a few rows", "all at once"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of these tests are small: they are merged in blocks, too."""
    monkeypatch.setattr(merging, "BLOCK_NUMBERS", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("kind", KINDS)
def test_merged_weights_are_those_of_an_independent_merge(kind: str, tmp_path: Path) -> None:
    base, adapter = adapters.write_base(tmp_path / "base.pth"), adapters.write_adapter(tmp_path / "a", kind)
    merged = merge(tmp_path, base, adapter, ALPHA if kind == "lora" else None)
    wanted = adapters.merged_in_float64(kind, adapters.base_tensors(), *adapters.adapter_tensors(kind))
    assert list(merged) == list(wanted)
    changed = 0
    for name, tensor in merged.items():
        assert (tensor.dtype, tensor.shape) == (torch.float32, adapters.base_tensors()[name].shape)
        assert torch.allclose(tensor.double(), wanted[name], rtol=0, atol=2e-7 * float(wanted[name].abs().max())), name
        changed += not torch.equal(tensor, adapters.base_tensors()[name])
    assert changed == len(adapters.ADAPTED) * 2 + 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_is_rounded_once_to_the_type_of_the_base(kind: str, tmp_path: Path) -> None:
    base = adapters.write_base(tmp_path / "base.pth", torch.bfloat16)
    merged = merge(tmp_path, base, adapters.write_adapter(tmp_path / "a", kind), ALPHA if kind == "lora" else None)
    stored = adapters.base_tensors(torch.bfloat16)
    wanted = adapters.merged_in_float64(kind, stored, *adapters.adapter_tensors(kind))
    for name, tensor in merged.items():
        assert tensor.dtype == torch.bfloat16
        one_ulp = wanted[name].abs().clamp_min(2**-20) * 2**-7
        off = (tensor.double() - wanted[name].to(torch.bfloat16).double()).abs()
        assert bool((off <= one_ulp).all()), name
        assert float((off > 0).double().mean()) < 0.001, f"{name}: more than ties"


def test_alpha_over_the_rank_scales_a_lora(tmp_path: Path) -> None:
    base, adapter = adapters.write_base(tmp_path / "base.pth"), adapters.write_adapter(tmp_path / "a", "lora")
    name = "blocks.0.att.key.weight"
    once = merge(tmp_path, base, adapter, 16.0)[name].clone() - adapters.base_tensors()[name]
    thrice = merge(tmp_path, base, adapter, 48.0)[name].clone() - adapters.base_tensors()[name]
    assert torch.allclose(3 * once, thrice, atol=1e-6)


@pytest.mark.usefixtures("_blocks")
def test_pissa_can_round_between_as_its_script_does(tmp_path: Path) -> None:
    base, adapter = adapters.write_base(tmp_path / "base.pth"), adapters.write_adapter(tmp_path / "a", "pissa")
    merged = merge(tmp_path, base, adapter, None, rounded=True)
    trained, start = adapters.adapter_tensors("pissa")
    name = "blocks.1.ffn.value"
    difference = adapters.base_tensors()[f"{name}.weight"] - start[f"{name}.init_lora_B"] @ start[f"{name}.init_lora_A"]
    wanted = difference.bfloat16().float() + trained[f"{name}.lora_B"] @ trained[f"{name}.lora_A"]
    assert torch.allclose(merged[f"{name}.weight"], wanted, atol=1e-6)


@pytest.mark.usefixtures("_blocks")
def test_a_bone_whose_rank_does_not_divide_the_width_wraps(tmp_path: Path) -> None:
    base = adapters.write_base(tmp_path / "base.pth")
    disha = 0.1 * torch.arange(48 * 128.0).view(48, 128)
    torch.save({"blocks.0.att.key.disha": disha}, tmp_path / "bone.pth")
    merged = merge(tmp_path, base, tmp_path / "bone.pth", None)["blocks.0.att.key.weight"]
    before = adapters.base_tensors()["blocks.0.att.key.weight"]
    assert torch.equal(merged, torch.stack([before[:, j] + disha[j % 48] for j in range(128)], dim=1))


@pytest.mark.usefixtures("_blocks")
def test_pairs_in_hugging_faces_names_change_the_tensor_that_those_names_mean(tmp_path: Path) -> None:
    base, before = adapters.write_base(tmp_path / "base.pth"), adapters.base_tensors()
    draw, prefix = torch.Generator().manual_seed(1), "base_model.model.model.layers.1.attn"
    products, pairs = {}, {}
    for name, out in (("r_proj", 128), ("w_lora.lora.0", 16)):
        a, b = torch.randn(4, 128, generator=draw), torch.randn(out, 4, generator=draw)
        pairs |= {f"{prefix}.{name}.lora_A.weight": a, f"{prefix}.{name}.lora_B.weight": b}
        products[name] = 2 * b @ a
    torch.save(pairs, tmp_path / "adapter_model.bin")
    merged = merge(tmp_path, base, tmp_path / "adapter_model.bin", 8.0)
    for name, product in (
        ("blocks.1.att.receptance.weight", products["r_proj"]),
        ("blocks.1.att.w1", products["w_lora.lora.0"].T),
    ):
        assert torch.allclose(merged.pop(name), before.pop(name) + product, atol=1e-5)
    assert all(torch.equal(merged[name], before[name]) for name in before)


def test_numbers_that_are_none_are_found_before_and_after_the_sum(tmp_path: Path) -> None:
    base, key = adapters.write_base(tmp_path / "base.pth", torch.float16), "blocks.0.att.key"
    poisoned = {f"{key}.lora_A": torch.ones(4, 128), f"{key}.lora_B": torch.ones(128, 4)}
    poisoned[f"{key}.lora_B"][3, 2] = float("nan")
    torch.save(poisoned, tmp_path / "nan.pth")
    with pytest.raises(CheckpointValuesError, match=r"nan.pth holds NaN or infinities, in lora_B of blocks.0.att.key"):
        AdapterTensors(adapter_file.read(tmp_path / "nan.pth")).check()
    infinite = {"blocks.0.ln1.weight": torch.full((128,), float("inf"))}
    torch.save(adapters.adapter_tensors("bone")[0] | infinite, tmp_path / "inf.pth")
    with pytest.raises(CheckpointValuesError, match=r"in blocks.0.ln1.weight"):
        AdapterTensors(adapter_file.read(tmp_path / "inf.pth")).check()
    large = {f"{key}.lora_A": torch.full((4, 128), 300.0), f"{key}.lora_B": torch.full((128, 4), 300.0)}
    torch.save(large, tmp_path / "large.pth")
    with pytest.raises(CheckpointValuesError, match=r"base with large.pth holds NaN or infinities, in blocks.0.att"):
        merge(tmp_path, base, tmp_path / "large.pth", 4.0)
    beyond = adapters.adapter_tensors("bone")[0] | {"blocks.0.ln1.weight": torch.full((128,), 1e6)}
    torch.save(beyond, tmp_path / "beyond.pth")
    with pytest.raises(CheckpointValuesError, match=r"base with beyond.pth holds NaN or infinities, in blocks.0.ln1"):
        merge(tmp_path, base, tmp_path / "beyond.pth", None)
    torch.save(adapters.base_tensors() | {f"{key}.weight": torch.full((128, 128), float("nan"))}, base)
    with pytest.raises(CheckpointValuesError, match=r"^base holds NaN or infinities, in blocks.0.att.key"):
        merge(tmp_path, base, adapters.write_adapter(tmp_path / "a", "bone"), None)


def test_a_base_is_refused_for_numbers_that_are_none_where_nothing_changes_too(tmp_path: Path) -> None:
    broken = adapters.base_tensors() | {"blocks.1.att.value.weight": torch.full((128, 128), float("inf"))}
    torch.save(broken, tmp_path / "base.pth")
    disha = {"blocks.0.att.key.disha": torch.ones(4, 128)}
    torch.save(disha, tmp_path / "a.pth")
    with pytest.raises(CheckpointValuesError, match=r"^base holds NaN or infinities, in blocks.1.att.value"):
        merge(tmp_path, tmp_path / "base.pth", tmp_path / "a.pth", None)
    torch.save(disha | {"blocks.1.att.value.weight": torch.ones(128, 128)}, tmp_path / "a.pth")
    merge(tmp_path, tmp_path / "base.pth", tmp_path / "a.pth", None)


def test_rslora_is_scaled_by_the_root_of_the_rank(tmp_path: Path) -> None:
    base, folder, key = adapters.write_base(tmp_path / "base.pth"), tmp_path / "peft", "blocks.1.ffn.key"
    folder.mkdir()
    a, b = torch.ones(16, 128), torch.ones(512, 16)
    torch.save({f"{key}.lora_A": a, f"{key}.lora_B": b}, folder / "adapter_model.bin")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 8, "r": 16, "use_rslora": true}')
    for path in (folder, folder / "adapter_model.bin"):
        merged = merge(tmp_path, base, path, None)[f"{key}.weight"]
        assert torch.allclose(merged - adapters.base_tensors()[f"{key}.weight"], torch.full((512, 128), 32.0))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_base_in_hugging_faces_layout_gives_the_same_weights(shards: int, tmp_path: Path, hf_layout: Any) -> None:
    hf_layout.write(tmp_path / "hf", adapters.base_tensors(), shards=shards)
    adapter = adapters.write_adapter(tmp_path / "a", "lora")
    merged = {name: tensor.clone() for name, tensor in merge(tmp_path, tmp_path / "hf", adapter, ALPHA).items()}
    plain = merge(tmp_path, adapters.write_base(tmp_path / "base.pth"), adapter, ALPHA)
    assert all(torch.equal(tensor.squeeze(), plain[name].squeeze()) for name, tensor in merged.items())
    assert merged.keys() == plain.keys()


def test_value_residuals_of_block_0_stay_and_are_replaced_in_their_own_shape(tmp_path: Path) -> None:
    unused = {"blocks.0.att.v0": torch.ones(1, 1, 128), "blocks.0.att.v1": torch.ones(128, 8)}
    torch.save(adapters.base_tensors() | unused, tmp_path / "base.pth")
    new = adapters.adapter_tensors("bone")[0] | {"blocks.0.att.v1": torch.zeros(128, 8)}
    torch.save(new, tmp_path / "a.pth")
    merged = merge(tmp_path, tmp_path / "base.pth", tmp_path / "a.pth", None)
    assert torch.equal(merged["blocks.0.att.v0"], unused["blocks.0.att.v0"])
    assert not merged["blocks.0.att.v1"].any()
    torch.save(new | {"blocks.0.att.v1": torch.zeros(128, 24)}, tmp_path / "a.pth")
    with pytest.raises(AdapterError, match=r"blocks.0.att.v1 is \[128, 24\] and \[128, 8\] in the base"):
        merge(tmp_path, tmp_path / "base.pth", tmp_path / "a.pth", None)
    torch.save(adapters.base_tensors() | {"blocks.0.att.v0": torch.ones(128).int()}, tmp_path / "base.pth")
    with pytest.raises(AdapterError, match=r"blocks.0.att.v0 of the base is int32, and only floats"):
        merge(tmp_path, tmp_path / "base.pth", adapters.write_adapter(tmp_path / "b", "bone"), None)


def test_what_is_written_maps_aligned_and_keeps_odd_shapes(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(7.0), "b": torch.ones(3, 1, 2, dtype=torch.bfloat16), "scalar": torch.tensor(2.5),
        "none": torch.zeros(0, 4, dtype=torch.float16), "turned": torch.arange(6.0).view(2, 3).T,
    }  # fmt: skip
    forms = {name: TensorForm(str(one.dtype).removeprefix("torch."), tuple(one.shape)) for name, one in tensors.items()}
    write(tmp_path / "x.pth", forms, tensors)
    read = torch.load(tmp_path / "x.pth", weights_only=True, mmap=True)
    assert list(read) == list(tensors)
    assert all(torch.equal(read[name], one) and read[name].dtype == one.dtype for name, one in tensors.items())
    entries = index.read_stored(tmp_path / "x.pth").entries
    assert all(entry.offset % 64 == 0 for entry in entries.values())
    assert torch.equal(load.MappedTensors(entries)["turned"], tensors["turned"])
    first = (tmp_path / "x.pth").read_bytes()
    write(tmp_path / "x.pth", forms, tensors)
    assert (tmp_path / "x.pth").read_bytes() == first
    with pytest.raises(ValueError, match="is not a as it was announced"):
        write(tmp_path / "y.pth", forms, {**tensors, "a": torch.arange(8.0)})


def test_records_of_many_pieces_and_of_a_size_that_needs_zip64_are_read_by_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pth_writer, "_LARGE", 1000)
    monkeypatch.setattr(pth_writer, "PIECE_BYTES", 300)
    tensors = {"small": torch.arange(5.0), "large": torch.arange(999.0), "last": torch.arange(250.0)}
    forms = {name: TensorForm("float32", tuple(one.shape)) for name, one in tensors.items()}
    write(tmp_path / "x.pth", forms, tensors)
    read = torch.load(tmp_path / "x.pth", weights_only=True, mmap=True)
    assert all(torch.equal(read[name], one) for name, one in tensors.items())
    entries = index.read_stored(tmp_path / "x.pth").entries
    assert all(entry.offset % 64 == 0 for entry in entries.values())
    ours = load.MappedTensors(entries)
    assert all(torch.equal(ours[name], one) for name, one in tensors.items())


def test_tensors_made_one_ahead_come_in_their_order_and_what_making_one_raises_is_raised() -> None:
    def making() -> Iterator[tuple[str, torch.Tensor]]:
        yield "a", torch.zeros(1)
        yield "b", torch.zeros(1)
        raise ValueError("the third")

    found: list[str] = []
    with ThreadPoolExecutor(1) as aside, pytest.raises(ValueError, match="the third"):
        found.extend(name for name, _ in one_ahead(making(), aside))
    assert found == ["a", "b"]


def write(path: Path, forms: dict[str, TensorForm], tensors: dict[str, torch.Tensor]) -> None:
    with path.open("wb") as file:
        pth_writer.write(file, forms, iter(tensors.items()))
