"""The header of a safetensors file, from a stranger."""

import contextlib
import json
import re
import struct
from math import prod
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save, save_file

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import safetensors_header
from rwkv_weights.formats.entry import ITEM_BYTES


def written(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def tensor(begin: int, end: int, shape: list[object] | None = None, dtype: str = "F32") -> dict[str, object]:
    shape = [(end - begin) // 4] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


GOOD = {"a": tensor(0, 8), "b": tensor(8, 12)}


@pytest.mark.parametrize(
    ("header", "size", "words"),
    [
        ({"a": tensor(0, 8)}, 4, "truncated"),
        (GOOD, 11, "truncated"),
        (GOOD, 16, "4 bytes belong to no tensor"),
        ({"a": tensor(0, 8), "b": tensor(4, 12)}, 12, "does not begin where the tensor before it ends"),
        ({"a": tensor(0, 8), "b": tensor(12, 16)}, 16, "does not begin where the tensor before it ends"),
        ({"a": tensor(0, 8, [3])}, 8, "does not fill its place"),
        ({"a": tensor(0, 8, [1 << 60, 1 << 60])}, 8, "impossible shape"),
        ({"a": tensor(0, 0, [0] * 9)}, 0, "impossible shape"),
        ({"a": tensor(0, 0, [(1 << 40) - 1] * 20_000)}, 0, "impossible shape"),
        ({"a": tensor(0, 8, [-2, -1])}, 8, "impossible shape"),
        ({"a": tensor(0, 8, ["2"])}, 8, "impossible shape"),
        ({"a": tensor(0, 8, [True, 2])}, 8, "impossible shape"),
        ({"a": tensor(8, 0, [])}, 8, "does not fill"),
        ({"a": tensor(0, 8, dtype="F31")}, 8, "is not valid"),
        ({"a": [1, 2]}, 8, "is not valid"),
        ({"a": {"dtype": "F32", "shape": [2]}}, 8, "is not valid"),
        ([], 0, "is not a table"),
        (b"{", 0, "is not JSON"),
        (b"\xff\xfe", 0, "is not JSON"),
        (b"\xff\xfe{\0}\0", 0, "is not JSON"),  # UTF-16
        (b"[" * 200_000, 0, "is not JSON"),
        (b'{"a": 1' + b"0" * 10_000 + b"}", 0, "is not JSON"),
        (b'{"a": 1, "a": 2}', 0, "it has 'a' twice"),
        (
            b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}',
            0,
            "it has 'dtype' twice",
        ),
    ],
)
def test_hostile_headers_are_refused_in_a_sentence(tmp_path: Path, header: object, size: int, words: str) -> None:
    with pytest.raises(UnreadableCheckpointError, match=re.escape(words)) as caught:
        safetensors_header.read(written(tmp_path / "x.safetensors", header, b"\0" * size))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("length", "words"), [(1 << 63, "claims 9,223,"), (17 << 20, "claims 17,8"), (200, "within its header")]
)
def test_an_absurd_length_is_not_believed(tmp_path: Path, length: int, words: str) -> None:
    with pytest.raises(UnreadableCheckpointError, match=words):
        safetensors_header.read(written(tmp_path / "x.safetensors", GOOD, length=length))


@pytest.mark.parametrize("content", [b"", b"\0" * 7])
def test_a_stub_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(UnreadableCheckpointError, match="truncated"):
        safetensors_header.read(tmp_path / "x.safetensors")


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from(["bfloat16", "float16", "float32", "int8", "float8_e4m3fn"]),
            st.lists(st.integers(0, 4), max_size=3),
        ),
        max_size=6,
    )
)
def test_what_the_library_writes_is_read_as_it_reads_it(tmp_path_factory, described) -> None:
    raw = {name: bytes(range(256))[: prod(shape) * ITEM_BYTES[dtype]] for name, (dtype, shape) in described.items()}
    tensors = {
        name: torch.tensor(list(raw[name]), dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)
        for name, (dtype, shape) in described.items()
    }
    path = tmp_path_factory.mktemp("s") / "x.safetensors"
    path.write_bytes(save(tensors, {"format": "pt"}))
    found, content = safetensors_header.read(path), path.read_bytes()
    assert found.keys() == tensors.keys()
    for name, entry in found.items():
        assert (entry.dtype, entry.shape) == (
            str(tensors[name].dtype).removeprefix("torch."),
            tuple(tensors[name].shape),
        )
        assert content[entry.offset : entry.offset + entry.span] == raw[name]


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("s") / "x.safetensors"
    path.write_bytes(content)
    with contextlib.suppress(UnreadableCheckpointError):
        safetensors_header.read(path)


def test_the_library_agrees_on_a_model(tmp_path: Path) -> None:
    save_file({"a": torch.randn(3, 5), "b": torch.randn(7).to(torch.bfloat16)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert set(file.keys()) == set(safetensors_header.read(tmp_path / "x.safetensors"))
