"""Whether a checkpoint is there to its end."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from rwkv_weights.formats.completeness import file_is_whole, is_whole
from rwkv_weights.local import inventory


def zipped(comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data/0", b"x" * 5000)
        archive.comment = comment
    return out.getvalue()


def tensors() -> bytes:
    header = json.dumps({"__metadata__": {}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\1" * 8


@pytest.mark.parametrize(
    ("name", "content"), [("m.pth", zipped()), ("m.pth", zipped(b"why")), ("m.safetensors", tensors())]
)
def test_no_beginning_of_a_file_is_whole(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    for size in [*range(200), *range(200, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:size])
        assert size >= len(content) or not file_is_whole(path), size
        path.write_bytes(content[:size].ljust(len(content), b"\0"))
        made_room = name == "m.pth" and size < len(content) - 22
        assert not made_room or not file_is_whole(path), "room was made, and not all is written"
    path.write_bytes(content)
    assert file_is_whole(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.pth", b"\x80\x02 old pickle"),
        ("m.safetensors", b"\xff" * 20),
        ("m.safetensors", b"\x02" + b"\0" * 7 + b"[]"),
    ],
)
def test_what_is_damaged_is_left_to_the_loader_to_say(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert file_is_whole(tmp_path / name)


def test_a_folder_is_whole_with_all_files_of_its_index(tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    parts = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    (folder / parts["a"]).write_bytes(tensors())
    assert not is_whole(inventory.at(folder))
    (folder / parts["b"]).write_bytes(tensors())
    assert is_whole(inventory.at(folder))
