"""What an adapter is, by its tensors; and what is refused, by name."""

import json
from pathlib import Path
from typing import Any

import adapters
import pytest
import torch
from adapters import ALPHA, KINDS, RANK

from rwkv_weights.adapters import adapter_file, fit
from rwkv_weights.errors import AdapterError, CheckpointError, UnreadableCheckpointError
from rwkv_weights.formats import index

KEY = "blocks.0.att.key"
PAIR = {f"{KEY}.lora_A": torch.ones(4, 128), f"{KEY}.lora_B": torch.ones(128, 4)}
STATE = {f"blocks.{layer}.att.time_state": torch.zeros(2, 64, 64) for layer in range(2)}


def saved(folder: Path, tensors: dict[str, Any], name: str = "a.pth") -> Path:
    torch.save(tensors, folder / name)
    return folder / name


def fits(tmp_path: Path, adapter: Path, label: str = "base", sha256: str = "ab" * 32) -> None:
    base = adapters.write_base(tmp_path / "base.pth")
    fit.check(adapter_file.read(adapter), index.read(base), index.read_stored(base), label, sha256)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_told_by_tensors(kind: str, tmp_path: Path) -> None:
    found = adapter_file.read(adapters.write_adapter(tmp_path, kind))
    assert (found.kind, found.layers, len(found.updates), len(found.replaced)) == (kind, 2, 12, 2)
    assert found.ranks == (RANK,)
    fits(tmp_path, tmp_path / "rwkv-12.pth")


@pytest.mark.parametrize("prefix", ["model.", "_orig_mod.model.", "module.", "base_model.model.model."])
def test_what_is_written_before_names_is_passed_over(prefix: str, tmp_path: Path) -> None:
    norm = {"ln_out.weight": torch.ones(128)}
    found = adapter_file.read(saved(tmp_path, {f"{prefix}{name}": tensor for name, tensor in (PAIR | norm).items()}))
    assert (list(found.updates), list(found.replaced)) == ([f"{KEY}.weight"], ["ln_out.weight"])
    fits(tmp_path, tmp_path / "a.pth")


def test_initial_pairs_of_another_run_can_be_declined(tmp_path: Path) -> None:
    adapters.write_adapter(tmp_path, "pissa")
    saved(tmp_path, adapters.adapter_tensors("lora")[0], "rwkv-12.pth")
    assert adapter_file.read(tmp_path / "rwkv-12.pth").kind == "pissa"
    assert adapter_file.read(tmp_path / "rwkv-12.pth", beside=False).kind == "lora"


def test_a_state_changes_no_weight_and_fits_by_its_heads(tmp_path: Path) -> None:
    found = adapter_file.read(saved(tmp_path, STATE))
    assert (found.kind, found.ranks, found.layers) == ("state", (), 2)
    fits(tmp_path, tmp_path / "a.pth")
    with pytest.raises(AdapterError, match=r"time_state is \[1, 64, 64\], and is to be \[2, 64, 64\]"):
        fits(tmp_path, saved(tmp_path, {"blocks.1.att.time_state": torch.zeros(1, 64, 64)}))
    with pytest.raises(AdapterError, match=r"the base has no layer for blocks.2.att.time_state"):
        fits(tmp_path, saved(tmp_path, {"blocks.2.att.time_state": torch.zeros(2, 64, 64)}))


def test_the_old_name_of_disha_is_known(tmp_path: Path) -> None:
    assert adapter_file.read(saved(tmp_path, {f"{KEY}.bone": torch.zeros(8, 16, 16)})).kind == "bat"
    assert adapter_file.read(saved(tmp_path, {f"{KEY}.bone": torch.zeros(16, 128)})).kind == "bone"


def test_initial_pairs_of_tensors_that_were_not_trained_are_left_alone(tmp_path: Path) -> None:
    saved(
        tmp_path, {f"model.blocks.{n}.att.key.init_lora_{p}": torch.ones(4, 4) for n in (0, 1) for p in "AB"}, "i.pth"
    )
    found = adapter_file.read(saved(tmp_path, PAIR), tmp_path / "i.pth")
    assert (found.kind, list(found.updates)) == ("pissa", [f"{KEY}.weight"])
    saved(tmp_path, {f"blocks.9.att.key.init_lora_{p}": torch.ones(4, 4) for p in "AB"}, "i.pth")
    with pytest.raises(AdapterError, match=r"for none of the tensors that a.pth changes; if it is .* --init none"):
        adapter_file.read(tmp_path / "a.pth", tmp_path / "i.pth")
    saved(tmp_path, {"blocks.0.att.key.weight": torch.ones(4, 4)}, "i.pth")
    with pytest.raises(AdapterError, match="no part of PiSSA's initial pairs"):
        adapter_file.read(tmp_path / "a.pth", tmp_path / "i.pth")


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"blocks.0.ln1.weight": torch.ones(128)}, "is no adapter: none of its 1 tensors is a part of one"),
        ({f"{KEY}.lora_A": PAIR[f"{KEY}.lora_A"]}, "has lora_A alone, and lacks lora_B"),
        (PAIR | {f"{KEY}.init_lora_A": torch.ones(4, 128)}, "and lacks init_lora_B"),
        (PAIR | {"blocks.0.att.value.disha": torch.ones(4, 128)}, "mixes kinds of adapters: bone on .*, lora on"),
        (PAIR | {f"{KEY}.weight": torch.ones(128, 128)}, "blocks.0.att.key.weight by an adapter and replaces it"),
        (PAIR | {f"{KEY}.disha": torch.ones(4, 128)}, "has disha and lora_A and lora_B, which no kind of adapter has"),
        ({f"{'x' * 400}.lora_A": torch.ones(1)}, "the name of a tensor has 407 characters"),
        ({"model.layers.1.attn.w_lora.lora.0.disha": torch.ones(4, 16)}, "bone on blocks.1.att.w1, which is stored tr"),
        (PAIR | {f"model.{KEY}.lora_A": torch.ones(4, 128)}, "has lora_A of blocks.0.att.key.weight twice"),
        (PAIR | {"ln_out.bias": torch.ones(1), "model.norm.bias": torch.ones(1)}, "has ln_out.bias twice"),
        ({f"{KEY}.disha": torch.ones(4)}, "disha of blocks.0.att.key.weight has 1 axes"),
        ({f"{KEY}.lora_A": torch.ones(4), f"{KEY}.lora_B": torch.ones(4, 1)}, r"lora_A of .* has the shape \[4\]"),
    ],
)  # fmt: skip
def test_what_is_no_whole_adapter_is_refused_by_name(tensors: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=says):
        adapter_file.read(saved(tmp_path, tensors))


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        (PAIR | {f"{KEY}.lora_B": torch.ones(128, 5)}, "of unequal ranks"),
        (PAIR | {"blocks.0.att.nothing": torch.ones(1)}, "it has blocks.0.att.nothing, which the base does not have"),
        (PAIR | {"blocks.0.ln1.weight": torch.ones(64)}, r"blocks.0.ln1.weight is \[64\] and \[128\] in the base"),
        (PAIR | {"blocks.0.ln1.weight": torch.ones(128, dtype=torch.int64)}, "blocks.0.ln1.weight is int64"),
        ({"blocks.0.ffn.key.lora_A": torch.ones(4, 512), "blocks.0.ffn.key.lora_B": torch.ones(128, 4)},
         r"changes blocks.0.ffn.key.weight as \[128, 512\], and the base has \[512, 128\]"),
        ({f"{KEY}.lora_A": torch.ones(128, 128), f"{KEY}.lora_B": torch.ones(64, 128)}, "as .64, 128."),
        ({"blocks.7.att.key.disha": torch.ones(4, 128)}, "it changes blocks.7.att.key.weight, which the base does not"),
        ({"blocks.0.ln1.disha": torch.ones(4, 128)}, "changes blocks.0.ln1.weight, which is no matrix"),
        ({f"{KEY}.disha": torch.ones(4, 64)}, r"is to be \[rank, 128\]"),
        ({f"{KEY}.disha": torch.ones(3, 48, 48)}, r"is to be \[128/r, r, r\] with an r that divides 128"),
        ({f"{KEY}.lora_A": torch.ones(0, 128), f"{KEY}.lora_B": torch.ones(128, 0)}, "rank on .* is 0, and is to be"),
        ({f"{KEY}.lora_A": torch.ones(200, 128), f"{KEY}.lora_B": torch.ones(128, 200)}, "is 200, and .* to 128"),
        ({f"{KEY}.disha": torch.ones(200, 128)}, "is 200, and is to be from 1 to 128"),
        ({f"blocks.{'9' * 250}.att.time_state": torch.ones(2, 64, 64)}, "the base has no layer for"),
        ({"blocks.00.att.time_state": torch.ones(2, 64, 64)}, "the base has no layer for"),
        ({f"{KEY}.lora_A": torch.ones(4, 128).int(), f"{KEY}.lora_B": torch.ones(128, 4)}, "lora_A of .* is int32"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_base_is_refused_by_name(tensors: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=says):
        fits(tmp_path, saved(tmp_path, tensors))


def test_a_pair_that_is_swapped_is_suspected(tmp_path: Path) -> None:
    for name, out, into in (("blocks.0.ffn.key", 512, 128), (KEY, 128, 128)):
        for a, b in ((torch.ones(out, 4), torch.ones(4, into)), (torch.ones(into, 4), torch.ones(4, out))):
            with pytest.raises(AdapterError, match=r"are A and B swapped or transposed\?"):
                fits(tmp_path, saved(tmp_path, {f"{name}.lora_A": a, f"{name}.lora_B": b}))


def test_alpha_is_given_or_said_beside_and_never_guessed(tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    with pytest.raises(AdapterError, match=r"the alpha of a.pth is not in the file: give --alpha"):
        fit.scale_of(adapter_file.read(path), None)
    assert fit.scale_of(adapter_file.read(path), ALPHA) == ALPHA
    Path(f"{path}.json").write_text('{"alpha": 32}')
    assert fit.scale_of(adapter_file.read(path), None) == fit.scale_of(adapter_file.read(path), 32.0) == 32
    with pytest.raises(AdapterError, match=r"--alpha is 16, and a.pth.json says 32"):
        fit.scale_of(adapter_file.read(path), 16.0)
    for wrong in (0.0, -4.0, float("nan"), float("inf")):
        with pytest.raises(AdapterError, match=r"^--alpha is .*, and is to be a number above 0"):
            fit.scale_of(adapter_file.read(path), wrong)
    with pytest.raises(AdapterError, match="is bone, which has no alpha; leave out --alpha"):
        fit.scale_of(adapter_file.read(saved(tmp_path, {f"{KEY}.disha": torch.ones(4, 128)}, "b.pth")), 16.0)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"alpha": 0}, "alpha is 0, and is to be a number above 0"),
        ({"alpha": "32"}, "alpha is '32', and is to be a number"),
        ({"alpha": True}, "alpha is True"),
        ({"alfa": 32}, "a.pth.json has alfa; known are alpha, base, base_sha256, quant"),
        ({"alpha": 10**400}, "alpha is 1000.*…, and is to be a number"),
        ({"base": 7}, "base is no text"),
        ({"base_sha256": "abc"}, "base_sha256 is not 64 hexadecimal digits"),
    ],
)
def test_notes_are_read_strictly(said: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    Path(f"{path}.json").write_text(json.dumps(said))
    with pytest.raises(AdapterError, match=says):
        adapter_file.read(path)


@pytest.mark.parametrize("text", ["[]", '{"alpha": 1, "alpha": 2}', "{", "x" * 2_000_000])
def test_notes_that_are_no_table_are_refused(text: str, tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    Path(f"{path}.json").write_text(text)
    with pytest.raises(UnreadableCheckpointError, match=r"a.pth.json cannot be used"):
        adapter_file.read(path)


def test_another_base_and_a_quantised_one_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    notes = Path(f"{path}.json")
    for said, says in (
        ({"base": "rwkv7-g1d-2.9b"}, "belongs to another base: a.pth.json names rwkv7-g1d-2.9b, and this is rwkv7-g1d"),
        ({"base_sha256": "cd" * 32}, "names sha256 cdcdcdcdcdcd…, and rwkv7-g1d has abababababab…"),
        ({"quant": "nf4"}, "it was trained on a base quantised to nf4"),
    ):
        notes.write_text(json.dumps(said))
        with pytest.raises(AdapterError, match=says):
            fits(tmp_path, path, "rwkv7-g1d")
    for right in (
        {"quant": "none"},
        {"quant": None},
        {"base": "RWKV7-g1d.pth"},
        {"base": "other", "base_sha256": "AB" * 32},
        {"base": "base"},
    ):
        notes.write_text(json.dumps(right))
        fits(tmp_path, path, "rwkv7-g1d")


def test_one_rank_for_all_tensors_may_be_larger_than_a_side_of_one(tmp_path: Path) -> None:
    narrow = "model.layers.1.attn.w_lora.lora.0"  # of 16 columns
    pair = {f"{narrow}.lora_A.weight": torch.ones(32, 128), f"{narrow}.lora_B.weight": torch.ones(16, 32)}
    fits(tmp_path, saved(tmp_path, pair))


def test_initial_pairs_that_only_lie_there_do_not_make_a_lora_with_an_alpha_pissa(tmp_path: Path) -> None:
    path = adapters.write_adapter(tmp_path, "pissa")
    assert fit.scale_of(adapter_file.read(path), None) == 0
    with pytest.raises(AdapterError, match=r"init_pissa.pth lies beside rwkv-12.pth .* --init none; .* --init FILE"):
        fit.scale_of(adapter_file.read(path), 32.0)
    Path(f"{path}.json").write_text('{"alpha": 32}')
    with pytest.raises(AdapterError, match=r"init_pissa.pth lies beside rwkv-12.pth"):
        fit.scale_of(adapter_file.read(path), None)
    assert fit.scale_of(adapter_file.read(path, beside=False), None) == 32
    assert fit.scale_of(adapter_file.read(path, tmp_path / "init_pissa.pth"), None) == 0


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_an_alpha_that_cannot_be_is_refused(alpha: float, tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    with pytest.raises(AdapterError, match="is to be a number above 0, at most 1,000,000"):
        fit.scale_of(adapter_file.read(path), alpha)
    Path(f"{path}.json").write_text(json.dumps({"alpha": alpha}))
    with pytest.raises(CheckpointError, match=r"a.pth.json"):
        adapter_file.read(path)


def test_sentences_about_hostile_names_are_short(tmp_path: Path) -> None:
    long = "x" * 200_000
    saved(tmp_path, {f"{long}.init_lora_A": torch.ones(1)}, "i.pth")
    path = saved(tmp_path, PAIR)
    notes = Path(f"{path}.json")
    said = [refused(path, tmp_path / "i.pth")]
    notes.write_text(f'{{"{long}": 1, "{long}": 2}}')
    said.append(refused(path))
    notes.unlink()
    saved(tmp_path, PAIR, "adapter_model.bin")
    config = {"peft_type": "LORA", "lora_alpha": 1, "r": 5, "rank_pattern": {str(n): n for n in range(5, 90_000)}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    said.append(refused(tmp_path))
    assert all(len(one) < 600 for one in said), [one[:80] for one in said]


def refused(path: Path, init: Path | None = None) -> str:
    """The sentence with which an adapter is refused."""
    with pytest.raises(CheckpointError) as caught:
        adapter_file.read(path, init)
    return str(caught.value)


def test_a_shorter_name_of_the_base_is_that_base(tmp_path: Path) -> None:
    path = saved(tmp_path, PAIR)
    Path(f"{path}.json").write_text('{"base": "rwkv7-g1d-0.1b"}')
    fits(tmp_path, path, "rwkv7-g1d-0.1b-20260129-ctx8192")
    for other in ("rwkv7-g1d-0.1b-lora12", "rwkv7-g1d-0.1b-20260129-ctx8192-merged"):
        with pytest.raises(AdapterError, match="belongs to another base"):
            fits(tmp_path, path, other)
    with pytest.raises(AdapterError, match="belongs to another base"):
        fits(tmp_path, path, "rwkv7-g1d-1.5b-20260129-ctx8192")


SAID: dict[str, Any] = {"peft_type": "LORA", "lora_alpha": 16, "r": 4, "base_model_name_or_path": "/x/y/other"}


def test_a_folder_of_peft_says_alpha_and_its_base(tmp_path: Path) -> None:
    saved(tmp_path, PAIR, "adapter_model.bin")
    usual = {"megatron_core": "megatron.core", "qalora_group_size": 16, "init_lora_weights": True, "use_dora": False}
    (tmp_path / "adapter_config.json").write_text(json.dumps(SAID | usual | {"use_rslora": True}))
    for path in (tmp_path, tmp_path / "adapter_model.bin"):
        notes = adapter_file.read(path).notes
        assert (notes.alpha, notes.rooted, notes.base) == (16.0, True, "other")
        with pytest.raises(
            AdapterError, match=r'names other, and this is base; if they are the same, write {"base": "b'
        ):
            fits(tmp_path, path)
    sidecar = tmp_path / "adapter_model.bin.json"
    sidecar.write_text('{"base": "base"}')
    fits(tmp_path, tmp_path)
    assert adapter_file.read(tmp_path).notes.rooted
    sidecar.write_text('{"alpha": 8}')
    with pytest.raises(AdapterError, match=r"adapter_model.bin.json says alpha 8, and adapter_config.json 16"):
        adapter_file.read(tmp_path)
    with pytest.raises(UnreadableCheckpointError, match=r"the folder has neither adapter_model.safetensors nor"):
        adapter_file.read(tmp_path.parent)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"peft_type": "IA3"}, "its peft_type is 'IA3'"),
        ({"use_dora": True}, "it has use_dora, with which nothing can be merged"),
        ({"alpha_pattern": {"key": 3}}, "it has alpha_pattern"),
        ({"layer_replication": [[0, 2]]}, "it has layer_replication"),
        ({"of_a_later_version": 1}, "it has of_a_later_version"),
        ({"bias": "all"}, "its bias is 'all'"),
        ({"init_lora_weights": "pissa_niter_4"}, "its init_lora_weights 'pissa_niter_4' has changed the base"),
        ({"init_lora_weights": 1.0}, "its init_lora_weights 1.0 has changed the base"),
        ({"use_rslora": 1}, "use_rslora is neither true nor false"),
        ({"r": 64}, "has the rank 4, and adapter_config.json says 64"),
        ({"r": "4"}, "r and rank_pattern are to be whole numbers"),
    ],
)
def test_what_peft_cannot_be_merged_from_is_refused(more: dict[str, Any], says: str, tmp_path: Path) -> None:
    saved(tmp_path, PAIR, "adapter_model.bin")
    (tmp_path / "adapter_config.json").write_text(json.dumps(SAID | more))
    with pytest.raises(AdapterError, match=says):
        adapter_file.read(tmp_path)


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = adapters.write_adapter(tmp_path, "bat")
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            adapter_file.read(path)
