"""Parameters as published, from names and shapes alone."""

from pathlib import Path

import pytest

from rwkv_weights.formats.entry import Entry, dense
from rwkv_weights.formats.index import Index
from rwkv_weights.formats.schema import Dims, expected
from rwkv_weights.formats.synthetic import dims_of
from rwkv_weights.local import file_names
from rwkv_weights.local.inventory import FoundCheckpoint
from rwkv_weights.verbs.show import facts_of, sentences

PUBLISHED = [
    (dims_of(12, 768), 191_034_624, 2.25),
    (dims_of(24, 1024), 450_767_872, 6),
    (dims_of(24, 2048), 1_527_404_544, 12),
    (dims_of(32, 2560), 2_947_735_040, 20),
    (dims_of(32, 4096), 7_199_141_888, 32),
    (dims_of(61, 4096, ranks=(192, 192, 128, 384)), 13_269_245_952, 61),
]


def facts(dims: Dims, path: Path) -> dict[str, object]:
    path.write_bytes(b"x")
    entries = {
        key: Entry(path, "bfloat16", shape, dense(shape), 0)
        for key, shape in expected(dims, block0_has_value_residual=False).items()
    }
    found = FoundCheckpoint(path, file_names.parse(path.name), (path,))
    return facts_of(found, Index(path, (path,), "blinkdl", dims, entries), "")


@pytest.mark.parametrize(("dims", "parameters", "wkv_mib"), PUBLISHED)
def test_published_sizes(tmp_path: Path, dims: Dims, parameters: int, wkv_mib: float) -> None:
    found = facts(dims, tmp_path / "rwkv7-g1h-1.5b-20260710-ctx10240.pth")
    assert found["parameters"] == parameters
    assert found["fp16_bytes"] == 2 * parameters
    shifts = 2 * 4 * dims.layers * dims.width
    assert found["state_bytes"] == wkv_mib * 2**20 + shifts


def test_a_person_reads_it(tmp_path: Path) -> None:
    found = facts(dims_of(12, 768), tmp_path / "rwkv7-g1d-0.1b-20260129-ctx8192.pth")
    text = dict(sentences(found))
    assert text["by its name"] == "data g1d, family g1, of 20260129, trained to context 8,192"
    assert text["shape"] == "12 layers, width 768, 12 heads of 64, FFN 3,072, vocabulary 65,536"
    assert text["parameters"] == "191,034,624 in 399 tensors"
    assert text["weights take"] == "364.4 MiB as fp16, 728.7 MiB as fp32"
