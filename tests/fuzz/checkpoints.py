"""Checkpoint files of strangers: no change of a valid one runs code, reads beyond the file, or takes memory."""

import importlib.util
import os
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from mutate import mutated

from rwkv_weights.errors import CheckpointError
from rwkv_weights.formats import index, load, pth, safetensors_header
from rwkv_weights.formats.synthetic import dims_of, synthetic

HF_LAYOUT = Path(__file__).resolve().parents[1] / "unit" / "weights" / "hf_layout.py"
MOST_GROWTH_KB = 400 * 1024
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.",
    "ctypes.",
    "compile",
    "exec",
    "pickle.find_class",
)
WORDS = (
    b"cos\nsystem\n(X\x04\x00\x00\x00trueltR.",
    b"PK\x01\x02",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"PK\x06\x06",
    b"PK\x06\x07",
    b"data.pkl",
    b"\x80\x02",
    b"q\x00",
    b"h\x00",
    b"R",
    b"b",
    b"\x93",
    b"\x81",
    b'"data_offsets":[0,',
    b'"shape":[99999999999]',
    b'"dtype":"F64"',
    b"../../../../etc/passwd",
    b"/dev/zero",
    b"model.safetensors",
)


class Watch:
    """Hears of what the interpreter does, while it is on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on = str(folder), False
        self.seen: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            if not path.startswith((self.folder, "/proc/self/fd/")):
                self.seen.append(f"open {path}")


def bases(folder: Path) -> list[tuple[Path, Path, tuple[int, int]]]:
    """Small valid checkpoints: what is read, the file that is changed, and where in it."""
    spec = importlib.util.spec_from_file_location("hf_layout", HF_LAYOUT)
    assert spec is not None
    assert spec.loader is not None
    layout = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layout)
    tensors = synthetic(dims_of(2, 64, vocabulary=8, ranks=(2, 2, 2, 2)))
    torch.save(tensors, folder / "new.pth")
    torch.save(tensors, folder / "old.pth", _use_new_zipfile_serialization=False)
    layout.write(folder / "one", tensors)
    layout.write(folder / "two", tensors, shards=2, config={"model_type": "rwkv7"})
    (header,) = (folder / "one").glob("*.safetensors")
    places = [(folder / "one", header), (folder / "new.pth",) * 2, (folder / "old.pth",) * 2]
    places += [(folder / "two", path) for path in sorted((folder / "two").iterdir())]
    found = []
    for whole, path in places:
        index.read(whole)
        size = path.stat().st_size
        found.append((whole, path, (0, min(size, 12_000))))
        if path.suffix == ".pth":
            found.append((whole, path, (max(0, size - 12_000), size)))
    return found


def fuzz(folder: Path, draw: random.Random, rounds: int) -> Iterator[str]:
    """Change a file, read it as the engine would, and put it back."""
    places, watch = bases(folder), Watch(folder)
    contents = {path: path.read_bytes() for _, path, _ in places}
    touch(places[0][0])  # what is imported at first use is imported now
    "".encode("cp437")  # by zipfile, for names
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(rounds):
        whole, path, within = draw.choice(places)
        data = mutated(draw, contents[path], WORDS, within=within)
        path.write_bytes(data)
        watch.on = True
        try:
            yield from (f"{path.name}: {said}" for said in look(whole, path))
        except CheckpointError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            yield f"{path.name} raises {error!r}, changed within {difference(contents[path], data)}"
        finally:
            watch.on = False
        path.write_bytes(contents[path])
        for event in watch.seen:
            yield f"{path.name} has the reader do this: {event}, changed within {difference(contents[path], data)}"
        watch.seen.clear()
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    if grown_kb > MOST_GROWTH_KB:
        yield f"reading checkpoints took {grown_kb:,} KB"


def look(whole: Path, path: Path) -> Iterator[str]:
    """Read the tables, and every number. Raises CheckpointError."""
    if path.suffix != ".json":
        size = path.stat().st_size
        reader = pth if path.suffix == ".pth" else safetensors_header
        for key, entry in reader.read(path).items():
            if entry.offset < 0 or entry.span < 0 or entry.offset + entry.span > size:
                yield f"{key} lies at {entry.offset}+{entry.span} of {size} bytes"
    touch(whole)


def touch(whole: Path) -> None:
    for tensor in load.load(whole).tensors.values():
        tensor.float().sum()


def difference(one: bytes, other: bytes) -> str:
    """Where two files begin to differ, and what stands there."""
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"[{place}: {one[place : place + 40]!r} -> {other[place : place + 60]!r}]"
