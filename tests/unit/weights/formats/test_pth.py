"""A .pth read as data: the same tensors as torch reads, and nothing that it pickles is run."""

import collections
import contextlib
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.errors import UnreadableCheckpointError
from rwkv_weights.formats import load, pickle_reader, pth, safetensors_header
from rwkv_weights.local.checkpoint_files import open_plain


def values(path: Path) -> dict[str, torch.Tensor]:
    """What our reader finds, as tensors."""
    storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=path.stat().st_size)
    return {
        name: load.view(storage[entry.offset : entry.offset + entry.span], entry)
        for name, entry in pth.read(path).items()
    }


def same(path: Path, *, weights_only: bool = True) -> None:
    wanted, found = torch.load(path, weights_only=weights_only), values(path)
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor.detach()), name


BASE = torch.arange(24.0).reshape(4, 6)
DEEP = 250_000  # tuples in tuples: to hash them takes more than a C stack of 8 MiB
KINDS = {
    "plain": {"a": BASE, "b": torch.ones(3, dtype=torch.bfloat16)},
    "a view into the middle": {"a": BASE[1:3], "b": BASE[:, 2]},
    "transposed": {"a": BASE.t()},
    "one storage for two": {"a": BASE, "b": BASE.view(-1)},
    "scalars and nothing": {"a": torch.tensor(3.5), "b": torch.zeros(0, 4)},
    "a state_dict": torch.nn.Linear(3, 2).state_dict(),
    "parameters": {"a": torch.nn.Parameter(BASE)},
    "ordered": collections.OrderedDict(a=BASE, b=BASE.half()),
    "all types": {
        str(t): torch.ones(3, dtype=t) for t in (torch.int64, torch.int8, torch.uint8, torch.bool, torch.float64)
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("new", [True, False])
def test_it_reads_what_torch_reads(tmp_path: Path, kind: str, new: bool) -> None:
    torch.save(KINDS[kind], tmp_path / "x.pth", _use_new_zipfile_serialization=new)
    same(tmp_path / "x.pth")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_other_protocols_of_pickle_are_read(tmp_path: Path, protocol: int) -> None:
    torch.save(KINDS["plain"], tmp_path / "x.pth", pickle_protocol=protocol)
    same(tmp_path / "x.pth", weights_only=False)  # torch's own strict reader knows protocol 2 only


@given(st.lists(st.tuples(st.text(max_size=12), st.lists(st.integers(0, 5), max_size=4)), min_size=1, max_size=6))
def test_it_reads_any_table_of_tensors(tmp_path_factory, described) -> None:
    path = tmp_path_factory.mktemp("p") / "x.pth"
    torch.save({name: torch.randn(shape) for name, shape in described}, path)
    same(path)


def refused(path: Path, words: str) -> None:
    with pytest.raises(UnreadableCheckpointError, match=words) as caught:
        pth.read(path)
    assert "\n" not in str(caught.value)


class Call:
    """Unpickling this would call a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


@pytest.mark.parametrize(
    "bomb",
    [
        Call(print, "executed"),
        Call(os.system, "true"),
        Call(getattr, print, "__call__"),
        Call(torch.Size, (1,)),
        object(),
    ],
)
def test_nothing_is_called(tmp_path: Path, capfd: pytest.CaptureFixture[str], bomb: object) -> None:
    torch.save({"a": BASE, "x": bomb}, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", "wants .* to be called|that no tensor needs")
    assert capfd.readouterr().out == ""


def packed(path: Path, content: bytes, records: dict[str, bytes] | None = None, **how: int) -> Path:
    with zipfile.ZipFile(path, "w", **how) as archive:
        archive.writestr("archive/data.pkl", content)
        for name, data in (records or {}).items():
            archive.writestr(f"archive/{name}", data)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no end|broken"),
        (b"\x80\x02}.", "flat table"),
        (b"\x80\x02]q\x00.", "flat table"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "broken"),
        (b"\x80\x02}r\xff\xff\xff\xff.", "flat table"),  # a memo slot of 4 billion, which costs C's unpickler 64 GiB
        (b"\x80\x02h\x07.", "broken"),
        (b"\x80\x020000.", "no tensor needs|broken"),
        (b"\x80\x02}(K\x01K\x02u.", "keys are not names"),
        (b"\x80\x02)q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"}h\x00Ns.", "keys are not names"),  # 2^60 hashes
        (b"\x80\x02})" + b"\x85" * DEEP + b"Ns.", "keys are not names"),
        (b"\x80\x02ccollections\nOrderedDict\n](X\x01\x00\x00\x00aK\x01\x86e\x85R.", "broken"),
        (b"\x80\x02ctorch._utils\n_rebuild_parameter\n(" + b"N" * 17 + b"tR.", "broken"),
        (b"\x80\x04X\xff\x00\x00\x00" + b"a" * 255 + b"q\x00h\x00\x93.", "a name without end"),
        (b"\x80\x02}(X\x01\x00\x00\x00aK\x02X\x01\x00\x00\x00aK\x02u.", "names 'a' twice"),
        (b"cos\nsystem\n(X\x04\x00\x00\x00truetR.", "wants os.system to be called"),
        (b"\x80\x02(" * 1000 + b".", "broken|flat table"),
        (pickle.dumps({"a": 1}), "flat table"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01K\x02K\x03tb.", "broken"),
    ],
)
def test_hostile_pickles_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    refused(packed(tmp_path / "x.pth", content), words)


@pytest.mark.parametrize("content", [b"\x80\x02})" + b"\x85" * 1100 + b"Ns.", b"\x80\x02" + b"}" * 1100 + b"."])
def test_a_pickle_of_too_many_steps_is_refused(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_reader, "MOST_STEPS", 1000)
    refused(packed(tmp_path / "x.pth", content), "far longer than that of any model")


def plain() -> tuple[bytes, dict[str, bytes]]:
    buffer = io.BytesIO()
    torch.save({"a": BASE}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return archive.read("archive/data.pkl"), {"data/0": archive.read("archive/data/0")}


def test_a_tensor_beyond_its_numbers_is_refused(tmp_path: Path) -> None:
    content, records = plain()
    assert b"K\x04K\x06\x86" in content
    longer = content.replace(b"K\x04K\x06\x86", b"K\x04K\xff\x86")
    refused(packed(tmp_path / "x.pth", longer, records), "beyond its numbers")
    spread = content.replace(b"K\x06K\x01\x86", b"K\x00K\x00\x86").replace(b"K\x04K\x06\x86", b"K\xffK\xff\x86")
    refused(packed(tmp_path / "w.pth", spread, records), "beyond its numbers")  # one number, 65,025 times
    refused(packed(tmp_path / "y.pth", content, {}), "not all there")
    refused(packed(tmp_path / "z.pth", content, {"data/0": b"short"}), "not all there")


def test_odd_archives_are_refused(tmp_path: Path) -> None:
    content, records = plain()
    refused(packed(tmp_path / "a.pth", content, records, compression=zipfile.ZIP_DEFLATED), "compressed")
    refused(packed(tmp_path / "b.pth", content, records | {"byteorder": b"big"}), "big-endian")
    with zipfile.ZipFile(tmp_path / "c.pth", "w") as archive:
        archive.writestr("other", b"")
    refused(tmp_path / "c.pth", "no table of tensors")
    with pytest.warns(UserWarning, match="Duplicate"):
        packed(tmp_path / "d.pth", content, records | {"data.pkl": content})
    refused(tmp_path / "d.pth", "two records of one name")


def test_records_that_lie_about_themselves_are_refused(tmp_path: Path) -> None:
    content, records = plain()
    refused(packed(tmp_path / "a.pth", content, records | {"byteorder": b"little" * 1000}), "big-endian")
    whole = packed(tmp_path / "b.pth", b"\x80\x02}.").read_bytes()
    directory = whole.index(b"PK\x01\x02")
    for name, place, change, words in (
        ("encrypted", 8, b"\x01", "truncated, corrupt"),
        ("longer than the file", 20, struct.pack("<II", 1 << 20, 1 << 20), "truncated, corrupt"),
        ("read for gigabytes", 20, struct.pack("<I", 3 << 30), "contradicts itself"),
    ):
        start = directory + place
        (tmp_path / name).write_bytes(whole[:start] + change + whole[start + len(change) :])
        refused(tmp_path / name, words)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (b"\x80\x02]]a.", "keys that are not names"),
        (b"\x80\x02])" + b"\x85" * DEEP + b"a.", "keys that are not names"),
        (b"\x80\x02]X\x01\x00\x00\x00aa.", "truncated, corrupt"),
    ],
)
def test_old_files_have_names_for_their_numbers(tmp_path: Path, keys: bytes, words: str) -> None:
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {}, {})]
    (tmp_path / "x.pth").write_bytes(b"".join([*parts, keys, b"\0" * 100]))
    refused(tmp_path / "x.pth", words)


def test_a_tensor_of_more_axes_than_any_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros([1] * 9)}, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", "impossible size")


def test_an_old_file_whose_counts_lie_is_refused(tmp_path: Path) -> None:
    torch.save({"a": BASE}, tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    data = (tmp_path / "x.pth").read_bytes()
    place = data.rindex(struct.pack("<q", 24))
    (tmp_path / "x.pth").write_bytes(data[:place] + struct.pack("<q", 25) + data[place + 8 :])
    refused(tmp_path / "x.pth", "not where its table says")
    (tmp_path / "x.pth").write_bytes(data[:-4])
    refused(tmp_path / "x.pth", "not all there")


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_flipped_byte_is_read_or_refused(tmp_path_factory, place: int, value: int) -> None:
    buffer = io.BytesIO()
    torch.save({"a": BASE, "b": BASE.half()}, buffer)
    data = bytearray(buffer.getvalue())
    data[place % len(data)] = value
    path = tmp_path_factory.mktemp("p") / "x.pth"
    path.write_bytes(data)
    with contextlib.suppress(UnreadableCheckpointError):
        pth.read(path)


def test_a_directory_that_claims_more_than_any_has_is_not_read(tmp_path: Path) -> None:
    """Sparse files: on disk they are a few bytes, and what is claimed would not fit into memory."""
    for claimed, wide in ((3 << 30, False), (12 << 30, True)):
        path = tmp_path / f"{claimed}.pth"
        with path.open("wb") as file:
            file.truncate(claimed)
            file.seek(claimed)
            if wide:
                file.write(struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, claimed, 0))
                file.write(struct.pack("<4sLQL", b"PK\x06\x07", 0, claimed, 1))
            size = 0xFFFFFFFF if wide else claimed
            file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0))
        refused(path, f"its directory claims {claimed:,} bytes")


@pytest.mark.parametrize("through_a_link", [False, True])
def test_pipes_sockets_and_devices_are_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through_a_link: bool
) -> None:
    os.mkfifo(tmp_path / "pipe")
    opened: list[object] = []
    real = os.open

    def watched(path: object, *rest: int) -> int:
        opened.append(path)
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", watched)
    for number, place in enumerate((tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero"), tmp_path)):
        path = place
        if through_a_link:
            path = tmp_path / f"{number}.pth"
            path.symlink_to(place)
        with pytest.raises(OSError, match="no file, but a folder, pipe, socket or device"):
            open_plain(path)
        for reader in (pth.read, safetensors_header.read):
            with pytest.raises(UnreadableCheckpointError, match="no file, but a folder, pipe"):
                reader(path)
        with pytest.raises(UnreadableCheckpointError, match="cannot map"):
            load._mapped(path)
    assert not opened
